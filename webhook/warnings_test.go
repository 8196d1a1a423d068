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
	const (
		kept      = "pvc-pruner will not delete data-db-3, data-db-4 any more"
		undo      = ", once unused; to keep, scale back to 5 before"
		paused    = `pvc-pruner is paused: no claim is deleted while pvc-pruner.io/paused is "true"`
		snapshots = "pvc-pruner runs without --snapshots: no claim is deleted while pvc-pruner.io/snapshot-class is set"
	)
	restarted := func(pairs ...string) *appsv1.StatefulSet {
		return pending(5, 3, append([]string{"scaled-down-at", "2026-03-01T12:00:00Z"}, pairs...)...)
	}
	again := "pvc-pruner will delete data-db-3, data-db-4 at 2026-03-01T12:10:00Z (in 10m)" + undo
	for name, test := range map[string]struct {
		stored, sent *appsv1.StatefulSet // sent as the mutating webhook leaves it
		want         []string
	}{
		"a creation": {nil, db(3, "enabled", "true", "prior-replicas", "3"), nil},
		"opting in":  {db(3), settled(3), nil},
		"opting in to what Kubernetes deletes itself": {deletedByKubernetes(db(3)), deletedByKubernetes(settled(3)), []string{builtIn}},
		"a creation of what Kubernetes deletes itself": {
			nil, deletedByKubernetes(db(3, "enabled", "true", "prior-replicas", "3")), []string{builtIn},
		},
		"a scale-down":        {settled(5), restarted(), []string{again}},
		"an undo":             {pending(5, 3), settled(5), []string{kept}},
		"a move of the range": {pending(5, 3), startingAt(2)(settled(3, "record", `{"uid":"uid-1","start":2,"generation":5}`)), []string{kept}},
		"a move of the range onto them, with every orphan in scope": {
			pending(5, 3),
			startingAt(2)(restarted("scope", "all", "prior-replicas", "3", "record", `{"uid":"uid-1","start":2,"generation":5}`)),
			[]string{kept, "pvc-pruner will delete every unused claim from ordinal 5 on at 2026-03-01T12:10:00Z (in 10m), once unused"},
		},
		"opting out while a prune is pending": {pending(5, 3), db(3), []string{kept}},
		"opting out while one of every orphan is pending": {
			pending(5, 3, "scope", "all"), db(3), []string{"pvc-pruner will not delete every unused claim from ordinal 3 on any more"},
		},
		"opting out where Kubernetes deletes itself": {deletedByKubernetes(pending(5, 3)), deletedByKubernetes(db(3)), nil},
		"opting out while nothing is pending":        {settled(3), db(3), nil},
		"pausing while a prune is pending":           {pending(5, 3), pending(5, 3, "paused", "true"), []string{paused}},
		"pausing while nothing is pending":           {settled(3), settled(3, "paused", "true"), nil},
		"un-pausing":                                 {pending(5, 3, "paused", "true"), restarted(), []string{again}},
		"a dry run from now on": {
			pending(5, 3), pending(5, 3, "dry-run", "true"),
			[]string{kept, "dry run, nothing is deleted; otherwise pvc-pruner would delete data-db-3, data-db-4 at 2026-03-01T12:05:00Z (in 5m)" + undo},
		},
		"the end of a dry run": {pending(5, 3, "dry-run", "true"), restarted(), []string{again}},
		"a longer delay": {
			pending(5, 3), pending(5, 3, "delay", "7d"),
			[]string{"pvc-pruner will delete data-db-3, data-db-4 at 2026-03-08T11:55:00Z (in 6d23h55m)" + undo},
		},
		"no delay": {
			pending(5, 3), restarted("delay", "0s"), []string{"pvc-pruner will delete data-db-3, data-db-4 as soon as unused; there is no undo window"},
		},
		"every orphan in scope from now on": {
			settled(3), settled(3, "scope", "all", "target-replicas", "3", "scaled-down-at", "2026-03-01T12:00:00Z"),
			[]string{"pvc-pruner will delete every unused claim from ordinal 3 on at 2026-03-01T12:10:00Z (in 10m), once unused"},
		},
		"zero, where claims are kept": {
			settled(2), pending(2, 0), []string{`scaled to zero: pvc-pruner keeps all claims (pvc-pruner.io/scale-to-zero is "keep")`},
		},
		"zero, where claims go": {
			settled(2, "scale-to-zero", "prune"), pending(2, 0, "scale-to-zero", "prune", "scaled-down-at", "2026-03-01T12:00:00Z"),
			[]string{"pvc-pruner will delete data-db-0, data-db-1 at 2026-03-01T12:10:00Z (in 10m), once unused; to keep, scale back to 2 before"},
		},
		"keeping at zero after all": {
			pending(2, 0, "scale-to-zero", "prune"), pending(2, 0),
			[]string{
				"pvc-pruner will not delete data-db-0, data-db-1 any more",
				`scaled to zero: pvc-pruner keeps all claims (pvc-pruner.io/scale-to-zero is "keep")`,
			},
		},
		"a rollout while a prune is pending": {pending(5, 3), rolledOut(pending(5, 3)), nil},
		"a template that does not exist": {
			settled(3), settled(3, "templates", "data,wal,log"),
			[]string{"pvc-pruner.io/templates names wal, log, which this StatefulSet has no volumeClaimTemplate for"},
		},
		"one that was said before":           {settled(3, "templates", "wal"), settled(3, "templates", "wal", "delay", "9d"), nil},
		"a snapshot class":                   {settled(3), settled(3, "snapshot-class", "fast"), []string{snapshots}},
		"a snapshot class, while one waits":  {pending(5, 3), pending(5, 3, "snapshot-class", "fast"), []string{snapshots, kept}},
		"the same snapshot class":            {settled(3, "snapshot-class", "fast"), settled(3, "snapshot-class", "fast", "delay", "9d"), nil},
		"a set that has no claims":           {nil, bare(db(3, "enabled", "true")), nil},
		"a scale-down of one without claims": {bare(settled(5)), bare(restarted()), nil},
		"a set that is not opted in":         {db(3), db(2), nil},
		"parts of a record only":             {db(3), db(2, "enabled", "true", "target-replicas", "2", "scaled-down-at", "2026-03-01T12:00:00Z"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			permit(h, true, nil)
			resp := h.call(t, webhook.ValidatePath, request(t, test.stored, test.sent))
			if diff := cmp.Diff(test.want, resp.Warnings, equateEmpty); diff != "" || !resp.Allowed {
				t.Errorf("allowed is %v, warnings differ (-want +got):\n%s", resp.Allowed, diff)
			}
		})
	}
}

// The API server may cut a warning after 256 bytes, and the end says how to undo.
func TestAWarningFitsHoweverLongTheNames(t *testing.T) {
	label := rapid.StringMatching(`[a-z][a-z0-9]{0,62}`)
	rapid.Check(t, func(r *rapid.T) {
		name := label.Draw(r, "set")
		set := settled(rapid.Int32Range(1, 2000).Draw(r, "replicas"))
		set.Name, set.Spec.VolumeClaimTemplates = name, nil
		for _, template := range rapid.SliceOfNDistinct(label, 1, 4, rapid.ID).Draw(r, "templates") {
			set.Spec.VolumeClaimTemplates = append(set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: template}})
		}
		for key, value := range rapid.MapOf(rapid.StringMatching(`[a-z]{1,200}`), rapid.String()).Draw(r, "odd annotations") {
			set = with(set, key, value)
		}
		set = with(set, "delay", rapid.SampledFrom([]string{"0s", "3649d23h59m59s", "odd"}).Draw(r, "delay"))
		set = with(set, "dry-run", rapid.SampledFrom([]string{"true", "false"}).Draw(r, "dry-run"))
		h := newHooks(t)
		permit(h, true, nil)
		live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
		to := rapid.Int32Range(0, *set.Spec.Replicas-1).Draw(r, "to")
		checkFit(r, h.call(t, webhook.ScalePath, scaleRequest(t, name, *set.Spec.Replicas, to)).Warnings)
		names := strings.Join(rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9]{0,252}`), 1, 4, rapid.ID).Draw(r, "names"), ",")
		checkFit(r, h.call(t, webhook.ValidatePath, update(t, "user", set, with(set, "templates", names))).Warnings)
	})
}

func checkFit(r *rapid.T, warnings []string) {
	for _, warning := range warnings {
		if len(warning) > 256 {
			r.Errorf("%d bytes: %s", len(warning), warning)
		}
	}
}

func TestAClaimWhoseNameDoesNotFitIsKnownByItsEnd(t *testing.T) {
	set := settled(5, "dry-run", "true")
	set.Name = strings.Repeat("s", 63)
	set.Spec.VolumeClaimTemplates[0].Name = strings.Repeat("t", 63)
	h := newHooks(t)
	live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
	want := []string{
		"dry run, nothing is deleted; otherwise pvc-pruner would delete ..." + strings.Repeat("t", 34) + "-" + set.Name +
			"-3 and 1 more at 2026-03-01T12:10:00Z (in 10m), once unused; to keep, scale back to 5 before",
	}
	if diff := cmp.Diff(want, h.call(t, webhook.ScalePath, scaleRequest(t, set.Name, 5, 3)).Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}
