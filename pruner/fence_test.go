package pruner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// fences that are stored when a DELETE is answered, and after the step.
func fencesOf(t *testing.T, c *fakeCluster) (during, after *policy.Fence, out outcome) {
	t.Helper()
	c.afterDelete = func(string) { during = policy.ReadFence(c.stored(t).Annotations) }
	out, err := c.step().run(quietly(t))
	if err != nil {
		t.Errorf("step: %v", err)
	}
	return during, policy.ReadFence(c.stored(t).Annotations), out
}

func TestFenceStandsWhileClaimsAreDeletedAndIsLeftToTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		during, after, out := fencesOf(t, c)
		want := &policy.Fence{From: 2, Holder: ownHolder, Until: epoch.Add(policy.FenceLifetime)}
		if diff := cmp.Diff([]*policy.Fence{want, want}, []*policy.Fence{during, after}); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if !out.fenced || out.plan.Bookkeeping.Fence == "" {
			t.Error("the outcome does not tell of the fence")
		}
	})
}

func TestNobodyIsKeptFromScalingForNothing(t *testing.T) {
	for name, objects := range map[string][]runtime.Object{
		"no claim is there":    {newSet(5, 2)},
		"all claims must wait": {newSet(5, 2), newClaim(2), newPod("db-2")},
		"dry run":              {newSet(5, 2, with(policy.KeyDryRun, "true")), newClaim(2)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(objects...)
				if _, after, out := fencesOf(t, c); after != nil || out.fenced {
					t.Errorf("fence %+v", after)
				}
			})
		})
	}
}

func TestNothingIsDeletedWithoutAFence(t *testing.T) {
	webhookFailed := apierrors.NewInternalError(errors.New(`failed calling webhook "x"`))
	for name, tt := range map[string]struct {
		spoil      func(*fakeCluster)
		text       string
		unenforced bool
	}{
		"the set changed before the fence stood": {
			func(c *fakeCluster) {
				c.fail("patch", "statefulsets", apierrors.NewConflict(setsResource.GroupResource(), "db", errors.New("changed")))
			},
			"the StatefulSet changed before the fence stood", false,
		},
		"the set went before the fence stood": {
			func(c *fakeCluster) {
				c.fail("patch", "statefulsets", apierrors.NewNotFound(setsResource.GroupResource(), "db"))
			},
			"the StatefulSet changed before the fence stood", false,
		},
		"admission does not work": {
			func(c *fakeCluster) { c.fail("patch", "statefulsets", webhookFailed) },
			`put up the fence: store bookkeeping: Internal error occurred: failed calling webhook "x"`, true,
		},
		"our webhook was not asked about the fence": {
			func(c *fakeCluster) { c.unstamped = true },
			"put up the fence: the fence is not enforced: our webhook was not asked about a write of the StatefulSet; is its namespace excluded?", true,
		},
		"our webhook is not asked about scaling": {
			func(c *fakeCluster) { c.unenforced = true },
			"the fence is not enforced: the API server would accept a scale-up to 5; our webhook was not asked", true,
		},
		"another policy refuses the proof": {
			func(c *fakeCluster) {
				c.fail("update", "statefulsets/scale", apierrors.NewForbidden(setsResource.GroupResource(), "db", errors.New("policy no-big-sets")))
			},
			`the fence is not enforced: a scale-up to 5 was refused by something else: statefulsets.apps "db" is forbidden: policy no-big-sets`, true,
		},
		"another fence refuses the proof": {
			func(c *fakeCluster) {
				c.fail("update", "statefulsets/scale", apierrors.NewConflict(setsResource.GroupResource(), "db", errors.New("fence ffffffff")))
			},
			"the fence is not enforced: a scale-up to 5 was refused by something else: " +
				`Operation cannot be fulfilled on statefulsets.apps "db": fence ffffffff`, true,
		},
		"another refusal happens to name us": {
			func(c *fakeCluster) {
				c.fail("update", "statefulsets/scale", apierrors.NewForbidden(setsResource.GroupResource(), "db", errors.New(ownHolder)))
			},
			`the fence is not enforced: a scale-up to 5 was refused by something else: statefulsets.apps "db" is forbidden: ` + ownHolder, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
				tt.spoil(c)
				out := run(t, c, told{Kept: []string{"data-db-2: Delete Unused", "data-db-3: Delete Unused"}, Stopped: tt.text})
				sent(t, c)
				if out.finished() || unenforced(out.stopped) != tt.unenforced || errors.Is(out.stopped, errMoved) == tt.unenforced {
					t.Errorf("finished: %v, unenforced: %v, moved: %v", out.finished(), unenforced(out.stopped), errors.Is(out.stopped, errMoved))
				}
			})
		})
	}
}

func TestFenceIsProvedByADryRunToACountThatWasAcceptedOnce(t *testing.T) {
	for name, tt := range map[string]struct {
		prior int32
		want  int32
	}{
		"the prior count":                   {5, 5},
		"one more, where there is no other": {2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newSet(tt.prior, 2, with(policy.KeyScope, "all"))
				remembering(policy.Bookkeeping{
					Prior: &tt.prior, Window: &policy.Window{Target: 2, Since: scaledDown}, Record: &policy.Record{UID: ownUID, Generation: generation},
				})(set)
				c := newFakeCluster(set, newClaim(2))
				var asked []int32
				c.on("update", "statefulsets/scale", func(action k8stesting.Action) (bool, runtime.Object, error) {
					call := action.(k8stesting.UpdateActionImpl)
					asked = append(asked, call.Object.(*autoscalingv1.Scale).Spec.Replicas)
					if diff := cmp.Diff([]string{metav1.DryRunAll}, call.UpdateOptions.DryRun); diff != "" {
						t.Errorf("dry run (-want +got):\n%s", diff)
					}
					return false, nil, nil
				})
				run(t, c, told{Deleted: []string{"data-db-2"}})
				if diff := cmp.Diff([]int32{tt.want}, asked); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestNoDeleteIsSentWhenTheFenceIsNearItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{newSet(30, 2)}
		for ordinal := 2; ordinal < 30; ordinal++ {
			objects = append(objects, newClaim(ordinal))
		}
		c := newFakeCluster(objects...)
		c.afterDelete = func(string) { time.Sleep(4 * time.Second) }
		out, err := c.step().run(quietly(t))
		if !errors.Is(out.stopped, errFenceEnds) || err != nil || out.finished() {
			t.Errorf("stopped by %v, error %v", out.stopped, err)
		}
		// One DELETE each 4 s, the last of them before 60 s - 15 s.
		if n := len(c.deletes()); n != 12 || len(out.deleted) != n {
			t.Errorf("%d DELETEs, %d claims gone", n, len(out.deleted))
		}
	})
}

func TestEachProcessHasANonceOfItsOwn(t *testing.T) {
	one, err := newFencer(nil, policy.FenceMargin)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newFencer(nil, policy.FenceMargin)
	if err != nil {
		t.Fatal(err)
	}
	if one.holder == other.holder || len(one.holder) != 16 {
		t.Errorf("holders %q and %q", one.holder, other.holder)
	}
}
