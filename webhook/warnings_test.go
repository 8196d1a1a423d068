package webhook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

func TestAnUpdateSaysWhatItMeansForTheClaims(t *testing.T) {
	builtIn := func(set *appsv1.StatefulSet) *appsv1.StatefulSet {
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
		return set
	}
	bare := db(3, "enabled", "true")
	bare.Spec.VolumeClaimTemplates = nil
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet // sent as the mutating webhook leaves it
		want         []string            // beginnings
	}{
		"opting in": {db(3), settled(3), nil},
		"opting in to what Kubernetes deletes itself": {
			builtIn(db(3)), builtIn(settled(3)), []string{"persistentVolumeClaimRetentionPolicy.whenScaled is Delete"},
		},
		"opting out while a prune is pending": {pending(5, 3), db(3), []string{"pvc-pruner will not delete data-db-3, data-db-4 any more"}},
		"pausing while a prune is pending": {
			pending(5, 3), pending(5, 3, "paused", "true"),
			[]string{"pvc-pruner will not delete data-db-3, data-db-4 any more", "pvc-pruner is paused"},
		},
		"un-pausing": {
			pending(5, 3, "paused", "true"), pending(5, 3, "scaled-down-at", "2026-03-01T12:00:00Z"),
			[]string{"pvc-pruner will delete data-db-3, data-db-4 at 2026-03-01T12:10:00Z (in 10m)"},
		},
		"a longer delay": {
			pending(5, 3), pending(5, 3, "delay", "7d"), []string{"pvc-pruner will delete data-db-3, data-db-4 at 2026-03-08T11:55:00Z (in 6d23h55m)"},
		},
		"a rollout while a prune is pending": {pending(5, 3), pending(5, 3), nil},
		"a template that does not exist":     {settled(3), settled(3, "templates", "data,wal"), []string{"pvc-pruner.io/templates names wal, which this StatefulSet has no"}},
		"a snapshot class":                   {settled(3), settled(3, "snapshot-class", "fast"), []string{"this version of pvc-pruner cannot take snapshots"}},
		"a set that has no claims":           {nil, bare, nil},
		"a set that is not opted in":         {db(3), db(2), nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			permit(h, true, nil)
			req := create(t, "user", test.sent)
			if test.stored != nil {
				req = update(t, "user", test.stored, test.sent)
			}
			resp := h.call(t, webhook.ValidatePath, req)
			if len(resp.Warnings) != len(test.want) {
				t.Fatalf("warnings are %q, want %q", resp.Warnings, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(resp.Warnings[i], want) {
					t.Errorf("warning differs:\n%s", cmp.Diff(want, resp.Warnings[i]))
				}
			}
		})
	}
}

// The API server may cut a warning after 256 bytes, and the end says how to undo.
func TestAWarningFitsHoweverLongTheNames(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringMatching(`[a-z][a-z0-9]{0,50}`).Draw(r, "set")
		set := settled(rapid.Int32Range(1, 2000).Draw(r, "replicas"))
		set.Name, set.Spec.VolumeClaimTemplates = name, nil
		for _, template := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9]{0,50}`), 1, 4, rapid.ID).Draw(r, "templates") {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: template}})
		}
		h := newHooks(t)
		live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
		to := rapid.Int32Range(0, *set.Spec.Replicas-1).Draw(r, "to")
		for _, warning := range h.call(t, webhook.ScalePath, scaleRequest(t, name, *set.Spec.Replicas, to)).Warnings {
			if len(warning) > 256 {
				r.Errorf("%d bytes: %s", len(warning), warning)
			}
		}
	})
}
