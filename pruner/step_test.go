package pruner

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// run carries out a step, which must end without an error, and compares what it tells.
func run(t *testing.T, c *fakeCluster, want told) outcome {
	t.Helper()
	out, err := c.step().run(quietly(t))
	if err != nil {
		t.Fatalf("step: %v", err)
	}
	if diff := cmp.Diff(want, tell(out), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	return out
}

func sent(t *testing.T, c *fakeCluster, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, c.deletes()); diff != "" {
		t.Errorf("DELETEs (-want +got):\n%s", diff)
	}
}

func TestStepDeletesWhatIsUnusedAndNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(0), newClaim(1), newClaim(2), newClaim(3), newClaim(4), newClaim(5), newPod("db-3"))
		out := run(t, c, told{Deleted: []string{"data-db-2", "data-db-4"}, Kept: []string{"data-db-3: Wait PodExists"}})
		sent(t, c, "data-db-2", "data-db-4")
		if out.finished() {
			t.Error("finished while a claim is waited for")
		}
	})
}

func TestStepIsFinishedWhenNothingIsLeftToWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := newClaim(4, func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{policy.KeyKeep: "true"} })
		out := run(t, newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3), kept), told{
			Deleted: []string{"data-db-2", "data-db-3"}, Kept: []string{"data-db-4: Keep KeepAnnotation"},
		})
		if !out.finished() {
			t.Error("not finished")
		}
	})
}

func TestStepThatIsHeldLooksAtNoClaim(t *testing.T) {
	for name, tt := range map[string]struct {
		set  []runtime.Object
		want policy.Reason
	}{
		"the set is gone":            {nil, policy.ReasonDeleting},
		"another set has its name":   {[]runtime.Object{newSet(5, 2, asAnotherObject)}, policy.ReasonReplaced},
		"the live set was opted out": {[]runtime.Object{newSet(5, 2, lacking(policy.KeyEnabled))}, policy.ReasonNotOptedIn},
		"the live set was scaled up": {[]runtime.Object{newSet(5, 2, scaledTo(5), atGeneration(8))}, policy.ReasonRecordBehind},
		"the live set is paused":     {[]runtime.Object{newSet(5, 2, with(policy.KeyPaused, "true"))}, policy.ReasonPaused},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(append(tt.set, newClaim(2))...)
				c.fail("list", "*", errors.New("a list was asked for"))
				if out := run(t, c, told{Hold: tt.want}); out.finished() {
					t.Error("finished")
				}
				sent(t, c)
			})
		})
	}
}

func TestStepThatCannotReadTheSetIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		c.fail("get", "statefulsets", apierrors.NewInternalError(errors.New("etcd is away")))
		if out, err := c.step().run(quietly(t)); !apierrors.IsInternalError(err) || out.plan.Set != nil {
			t.Errorf("outcome %+v, error %v", out, err)
		}
		sent(t, c)
	})
}

func TestDryRunJudgesAndDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2, with(policy.KeyDryRun, "true")), newClaim(2), newClaim(3), newPod("db-3"))
		out := run(t, c, told{Kept: []string{"data-db-2: Delete Unused", "data-db-3: Wait PodExists"}})
		sent(t, c)
		if out.finished() {
			t.Error("finished")
		}
	})
}

func TestDryRunIsNeverFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if out := run(t, newFakeCluster(newSet(5, 2, with(policy.KeyDryRun, "true"))), told{}); out.finished() {
			t.Error("finished")
		}
	})
}

func TestStepWithoutAnyClaimIsFinished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if out := run(t, newFakeCluster(newSet(5, 2)), told{}); !out.finished() {
			t.Error("not finished")
		}
	})
}
