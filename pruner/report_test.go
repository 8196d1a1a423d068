package pruner

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// said are the Events that were written, as "Reason: note".
func (c *fakeCluster) said() []string {
	var texts []string
	for _, e := range c.events() {
		texts = append(texts, e.Reason+": "+e.Note)
	}
	return texts
}

func newVolume(name string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy}}
}

func TestReport(t *testing.T) {
	plan := planOf(newSet(5, 2))
	dryRun := planOf(newSet(5, 2, with(policy.KeyDryRun, "true")))
	unused := func(ordinal int) policy.Verdict { return about(ordinal, policy.Delete, policy.ReasonUnused, "") }
	waits := about(3, policy.Wait, policy.ReasonPodExists, "pod db-3 still exists")
	dying := about(4, policy.Wait, policy.ReasonTerminating, "held by x")
	const pruned2 = "Pruned: deleted data-db-2 (1Gi), unused since replicas became 2"
	for name, tt := range map[string]struct {
		out  outcome
		want []string
	}{
		"nothing was read":           {outcome{}, nil},
		"nothing to tell":            {outcome{plan: plan}, nil},
		"what was deleted":           {outcome{plan: plan, deleted: []policy.Verdict{unused(2)}}, []string{pruned2}},
		"what was deleted and waits": {outcome{plan: plan, deleted: []policy.Verdict{unused(2)}, verdicts: []policy.Verdict{waits}}, []string{pruned2, "PruneWaiting: data-db-3: pod db-3 still exists"}},
		"what is dying counts as deleted": {outcome{plan: plan, dying: []policy.Verdict{dying}}, []string{
			"Pruned: deleted data-db-4 (1Gi), unused since replicas became 2", "PruneBlocked: data-db-4: held by x",
		}},
		"what failed, refused or unknown": {outcome{plan: plan, failed: []failure{{unused(2), errors.New("no right")}}, ambiguous: []failure{{unused(3), errors.New("cut")}}}, []string{
			"PruneFailed: not deleted: data-db-2: no right; data-db-3: cut",
		}},
		"a step that was broken off tells only what it did": {
			outcome{plan: plan, deleted: []policy.Verdict{unused(2)}, verdicts: []policy.Verdict{waits}, stopped: errMoved}, []string{pruned2},
		},
		"a fence that is not enforced": {outcome{plan: plan, stopped: errNotFenced}, []string{
			"FenceNotEnforced: nothing is deleted until the admission webhook of pvc-pruner answers; scaling goes on: the fence is not enforced",
		}},
		"a dry run": {outcome{plan: dryRun, verdicts: []policy.Verdict{unused(2), waits}}, []string{
			"PruneDryRun: dry run: would delete data-db-2 (1Gi)", "PruneWaiting: data-db-3: pod db-3 still exists",
		}},
		"a dry run that is held": {outcome{plan: dryRun, hold: &policy.Hold{Reason: policy.ReasonUndoWindow}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster()
			newReconciler(t, c).report(quietly(t), tt.out)
			if diff := cmp.Diff(tt.want, c.said(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportCounts(t *testing.T) {
	c := newFakeCluster()
	r := newReconciler(t, c)
	r.report(quietly(t), outcome{
		plan:    planOf(newSet(6, 2)),
		deleted: []policy.Verdict{about(2, policy.Delete, policy.ReasonUnused, "")}, dying: []policy.Verdict{about(3, policy.Wait, policy.ReasonTerminating, "")},
		failed: []failure{{about(4, "", "", ""), errors.New("x")}}, ambiguous: []failure{{about(5, "", "", ""), errors.New("y")}},
	})
	got := map[string]float64{
		"claims": testutil.ToFloat64(r.metrics.claims), "bytes": testutil.ToFloat64(r.metrics.bytes),
		"failures": testutil.ToFloat64(r.metrics.failures.WithLabelValues("delete")),
	}
	if diff := cmp.Diff(map[string]float64{"claims": 2, "bytes": 2 << 30, "failures": 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestVolumesThatKubernetesRetainsAreNamed(t *testing.T) {
	unbound := about(4, policy.Delete, policy.ReasonUnused, "")
	unbound.Claim.Spec.VolumeName = ""
	deleted := []policy.Verdict{about(2, policy.Delete, policy.ReasonUnused, ""), about(3, policy.Delete, policy.ReasonUnused, ""), unbound}
	retained := retainedNotice("data-db-2", "pv-2")
	for name, tt := range map[string]struct {
		volumes []runtime.Object
		spoil   func(*fakeCluster)
		want    []string
	}{
		"one of two": {
			[]runtime.Object{newVolume("pv-2", corev1.PersistentVolumeReclaimRetain), newVolume("pv-3", corev1.PersistentVolumeReclaimDelete)},
			func(*fakeCluster) {},
			[]string{"VolumeRetained: " + retained.note},
		},
		"none that is left": {nil, func(*fakeCluster) {}, nil},
		"none that can be read": {
			[]runtime.Object{newVolume("pv-2", corev1.PersistentVolumeReclaimRetain)},
			func(c *fakeCluster) { c.fail("get", "persistentvolumes", errors.New("no right")) }, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(tt.volumes...)
			tt.spoil(c)
			r := newReconciler(t, c)
			r.reportRetained(quietly(t), newSet(5, 2), deleted)
			if diff := cmp.Diff(tt.want, c.said(), cmpopts.EquateEmpty()); diff != "" || testutil.ToFloat64(r.metrics.retained) != float64(len(tt.want)) {
				t.Errorf("%v counted (-want +got):\n%s", testutil.ToFloat64(r.metrics.retained), diff)
			}
		})
	}
}

func TestWebhookDown(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"admission failed":                  {apierrors.NewInternalError(errors.New(`failed calling webhook "x": connection refused`)), true},
		"another internal error":            {apierrors.NewInternalError(errors.New("etcd is away")), false},
		"a refusal that mentions the words": {apierrors.NewForbidden(setsResource.GroupResource(), "db", errors.New("failed calling webhook")), false},
		"no error":                          {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := webhookDown(tt.err); got != tt.want {
				t.Errorf("down: %v", got)
			}
		})
	}
}
