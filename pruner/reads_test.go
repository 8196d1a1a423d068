package pruner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
)

func TestListThatFailsEndsTheStepWithNothingDeleted(t *testing.T) {
	for _, resource := range []string{"persistentvolumeclaims", "statefulsets", "pods"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
				c.fail("list", resource, apierrors.NewInternalError(errors.New("etcd is away")))
				if out, err := c.step().run(quietly(t)); !apierrors.IsInternalError(err) {
					t.Errorf("told %+v, error %v", tell(out), err)
				}
				sent(t, c)
			})
		})
	}
}

func TestListThatFailsBehindTheFenceEndsTheStepWithNothingDeleted(t *testing.T) {
	for _, resource := range []string{"persistentvolumeclaims", "statefulsets", "pods"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
				lists := 0
				c.on("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) {
					lists++
					return lists == 2, nil, apierrors.NewInternalError(errors.New("etcd is away"))
				})
				if out, err := c.step().run(quietly(t)); !apierrors.IsInternalError(err) || !out.fenced {
					t.Errorf("told %+v, fenced: %v, error %v", tell(out), out.fenced, err)
				}
				sent(t, c)
			})
		})
	}
}

func TestListInPartEndsTheStepWithNothingDeleted(t *testing.T) {
	next := metav1.ListMeta{Continue: "next"}
	for resource, list := range map[string]runtime.Object{
		"persistentvolumeclaims": &corev1.PersistentVolumeClaimList{ListMeta: next, Items: []corev1.PersistentVolumeClaim{*newClaim(2)}},
		"statefulsets":           &appsv1.StatefulSetList{ListMeta: next, Items: []appsv1.StatefulSet{*newSet(5, 2)}},
		"pods":                   &corev1.PodList{ListMeta: next},
	} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
				c.on("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) { return true, list, nil })
				if out, err := c.step().run(quietly(t)); !errors.Is(err, live.ErrPartialList) {
					t.Errorf("told %+v, error %v", tell(out), err)
				}
				sent(t, c)
			})
		})
	}
}

// The order of the lists matters: what protects a claim is to be read after the claim.
func TestPodThatIsMadeWhileTheListsAreReadProtectsItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
		c.on("list", "persistentvolumeclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
			return false, nil, c.fake.Tracker().Add(newPod("restic", "data-db-2"))
		})
		run(t, c, told{Deleted: []string{"data-db-3"}, Kept: []string{"data-db-2: Wait ClaimInUse"}})
	})
}

func TestSetThatIsMadeWhileTheListsAreReadProtectsTheNamesItBuilds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours := newSet(5, 2)
		ours.Spec.VolumeClaimTemplates = templates("data-x")
		theirs := newSet(1, 1, asAnotherObject)
		theirs.Name = "x-db"
		claim := newClaim(2)
		claim.Name = "data-x-db-2"
		c := newFakeCluster(ours, claim)
		c.on("list", "persistentvolumeclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
			return false, nil, c.fake.Tracker().Add(theirs)
		})
		run(t, c, told{Kept: []string{"data-x-db-2: Keep NameShared"}})
		sent(t, c)
	})
}

func TestClaimThatIsMadeAfterTheClaimsWereListedIsNotJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		lists := 0
		c.on("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
			if lists++; lists == 2 { // the lists behind the fence
				return false, nil, c.fake.Tracker().Add(newClaim(3))
			}
			return false, nil, nil
		})
		run(t, c, told{Deleted: []string{"data-db-2"}})
		sent(t, c, "data-db-2")
	})
}

func TestReadThatFailsBecauseTheStepIsBrokenOffIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(quietly(t))
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		lists := 0
		c.on("list", "pods", func(k8stesting.Action) (bool, runtime.Object, error) {
			if lists++; lists < 2 {
				return false, nil, nil
			}
			cancel()
			return true, nil, ctx.Err()
		})
		if out, err := c.step().run(ctx); !errors.Is(out.stopped, context.Canceled) || err != nil {
			t.Errorf("told %+v, error %v", tell(out), err)
		}
		sent(t, c)
	})
}
