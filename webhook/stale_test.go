package webhook_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/webhook"
)

// withClaims adds claims of the set, made by the StatefulSet controller before the scale-down.
func withClaims(t *testing.T, h *hooks, change func(*corev1.PersistentVolumeClaim), names ...string) {
	t.Helper()
	for _, name := range names {
		claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: metav1.NamespaceDefault, CreationTimestamp: metav1.NewTime(now.Add(-24 * 3600e9)),
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate,
				Time: &metav1.Time{Time: now.Add(-24 * 3600e9)}, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:accessModes":{}}}`),
			}},
		}}
		if change != nil {
			change(claim)
		}
		if err := h.client.Tracker().Add(claim); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScaleUpOntoOldVolumesIsRefusedWhereTheSetForbidsIt(t *testing.T) {
	const stays = `old volumes are still there, and pvc-pruner.io/stale-volumes is "forbid": data-db-3, data-db-4; scale up again when pvc-pruner has deleted them`
	keep := func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{"pvc-pruner.io/keep": "true"} }
	both := []string{"data-db-3", "data-db-4"}
	for name, tt := range map[string]struct {
		set    *appsv1.StatefulSet
		claims []string
		change func(*corev1.PersistentVolumeClaim)
		to     int32
		want   string
	}{
		"back up":                             {pending(5, 3, "stale-volumes", "forbid"), both, nil, 5, stays},
		"back up in part":                     {pending(5, 3, "stale-volumes", "forbid"), both, nil, 4, strings.ReplaceAll(stays, ", data-db-4", "")},
		"before the pruner saw it":            {scaled(settled(5, "stale-volumes", "forbid"), 3), both, nil, 5, stays},
		"when they are gone":                  {pending(5, 3, "stale-volumes", "forbid"), nil, nil, 5, ""},
		"further down":                        {pending(5, 3, "stale-volumes", "forbid"), both, nil, 2, ""},
		"volumes that are kept":               {pending(5, 3, "stale-volumes", "forbid"), both, keep, 5, ""},
		"volumes that were never scaled":      {settled(3, "stale-volumes", "forbid"), both, nil, 5, ""},
		"volumes that are reused":             {pending(5, 3), both, nil, 5, ""},
		"a set that was scaled to zero":       {pending(5, 0, "stale-volumes", "forbid"), both, nil, 5, ""},
		"in dry run, where nothing ever goes": {pending(5, 3, "stale-volumes", "forbid", "dry-run", "true"), both, nil, 5, ""},
		"a set that is paused":                {pending(5, 3, "stale-volumes", "forbid", "paused", "true"), both, nil, 5, ""},
		"a set that is not opted in":          {without(pending(5, 3, "stale-volumes", "forbid"), "enabled"), both, nil, 5, ""},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHooks(t)
			tt.set.Status.ObservedGeneration = tt.set.Generation
			withClaims(t, h, tt.change, tt.claims...)
			live(h, func() (*appsv1.StatefulSet, error) { return tt.set, nil })
			from := *tt.set.Spec.Replicas
			for path, req := range map[string]admissionv1.AdmissionRequest{
				webhook.ScalePath:    scaleRequest(t, "db", from, tt.to),
				webhook.ValidatePath: update(t, "jane", tt.set, scaled(tt.set, tt.to)),
			} {
				resp := h.call(t, path, req)
				if resp.Allowed != (tt.want == "") {
					t.Fatalf("%s: allowed is %v: %v", path, resp.Allowed, resp.Result)
				}
				if tt.want == "" {
					continue
				}
				if resp.Result.Message != tt.want || resp.Result.Code != 403 || !slices.Contains(resp.Warnings, tt.want) {
					t.Errorf("%s: %d %q, warnings %q", path, resp.Result.Code, resp.Result.Message, resp.Warnings)
				}
			}
		})
	}
}

func TestScaleUpWhileAPodIsStillThereSaysWhatIsWaitedFor(t *testing.T) {
	h := newHooks(t)
	set := pending(5, 4, "stale-volumes", "forbid")
	set.Status.ObservedGeneration = set.Generation
	withClaims(t, h, nil, "data-db-4")
	if err := h.client.Tracker().Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "db-4", Namespace: metav1.NamespaceDefault}}); err != nil {
		t.Fatal(err)
	}
	live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
	resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", 4, 5))
	if resp.Allowed || !strings.HasSuffix(resp.Result.Message, " (data-db-4 waits: pod db-4 still exists)") {
		t.Errorf("allowed is %v: %v", resp.Allowed, resp.Result)
	}
}

// The set itself is asked to be safe, but no fault of ours keeps anybody from scaling.
func TestWhereOldVolumesCannotBeLookedForAnUpdateIsRefusedAndAScaleIsNot(t *testing.T) {
	h := newHooks(t)
	set := pending(5, 3, "stale-volumes", "forbid")
	live(h, func() (*appsv1.StatefulSet, error) { return set, nil })
	h.client.PrependReactor("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("etcd is away") })
	resp := h.call(t, webhook.ScalePath, scaleRequest(t, "db", 3, 5))
	if want := `pvc-pruner cannot tell whether old volumes are there, and pvc-pruner.io/stale-volumes is "forbid"; scaled all the same`; !resp.Allowed || !slices.Contains(resp.Warnings, want) {
		t.Errorf("scale: allowed is %v, warnings %q", resp.Allowed, resp.Warnings)
	}
	resp = h.call(t, webhook.ValidatePath, update(t, "jane", set, scaled(set, 5)))
	if resp.Allowed || resp.Result.Code != 503 || !strings.Contains(resp.Result.Message, "try again: list Pods: etcd is away") {
		t.Errorf("update: allowed is %v: %v", resp.Allowed, resp.Result)
	}
}
