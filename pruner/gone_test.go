package pruner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestClaimThatAFinalizerHoldsIsDyingAfterTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("example.com/backup")), newClaim(3))
		out := run(t, c, told{Deleted: []string{"data-db-3"}, Dying: []string{"data-db-2"}})
		if out.finished() {
			t.Error("finished while a claim is dying")
		}
		if waited := time.Since(epoch); waited != goneDeadline {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestClaimThatGoesAMomentLaterIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")), newClaim(3))
		time.AfterFunc(200*time.Millisecond, func() { c.lastClaimWatch().Delete(newClaim(2)) })
		if out := run(t, c, told{Deleted: []string{"data-db-2", "data-db-3"}}); !out.finished() {
			t.Error("not finished")
		}
		if waited := time.Since(epoch); waited != 200*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

// Or a claim that went before the watch was open would be waited for in vain.
func TestWatchOfClaimsBeginsAtTheVersionOfTheFirstListBehindTheFence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
		c.answer("data-db-3", conflict("data-db-3"))
		versions := []string{"499", "500", "501"} // a first look, and two rounds
		c.on("list", "persistentvolumeclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
			list := &corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{ResourceVersion: versions[0]}}
			list.Items = []corev1.PersistentVolumeClaim{*newClaim(2), *newClaim(3)}
			versions = versions[1:]
			return true, list, nil
		})
		run(t, c, told{Deleted: []string{"data-db-2", "data-db-3"}})
		if got := c.lastClaimWatch().version; got != "500" || len(versions) > 0 {
			t.Errorf("began at %s; lists not asked for: %v", got, versions)
		}
	})
}

func TestClaimMadeAnewUnderTheSameNameIsNotTheOneThatWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")))
		time.AfterFunc(time.Second, func() {
			c.lastClaimWatch().Delete(newClaim(2, func(c *corev1.PersistentVolumeClaim) { c.UID = "another" }))
		})
		run(t, c, told{Dying: []string{"data-db-2"}})
	})
}

func TestWatchOfClaimsThatBreaksIsReplacedByAList(t *testing.T) {
	for name, breaks := range map[string]func(*openWatch){
		"closed":  func(w *openWatch) { w.Stop() },
		"expired": func(w *openWatch) { w.Error(&metav1.Status{Code: 410}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")), newClaim(3, heldBy("example.com/backup")))
				time.AfterFunc(time.Second, func() {
					if err := c.fake.Tracker().Delete(claimsResource, namespace, "data-db-2"); err != nil {
						t.Error(err)
					}
					breaks(c.lastClaimWatch())
				})
				run(t, c, told{Deleted: []string{"data-db-2"}, Dying: []string{"data-db-3"}})
			})
		})
	}
}

func TestListOfWhatIsLeftThatFailsCountsNothingAsGoneAndIsRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		list runtime.Object
		err  error
	}{
		"it fails":     {nil, apierrors.NewInternalError(errors.New("etcd is away"))},
		"it is a part": {&corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{Continue: "next"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")), newClaim(3))
				failures := 3
				time.AfterFunc(time.Second, func() {
					c.on("list", "persistentvolumeclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
						failures--
						return failures >= 0, tt.list, tt.err
					})
					c.openClaimWatch = func() error { return errors.New("no watch") }
					c.lastClaimWatch().Stop()
				})
				run(t, c, told{Deleted: []string{"data-db-3"}, Dying: []string{"data-db-2"}})
				if waited := time.Since(epoch); waited != goneDeadline {
					t.Errorf("waited %v", waited)
				}
			})
		})
	}
}

// What has been deleted must be gone before anybody may scale up.
func TestStepThatIsBrokenOffStillWaitsBehindItsFence(t *testing.T) {
	for name, breaks := range map[string]func(*fakeCluster, context.CancelFunc){
		"by a scale-up":      func(c *fakeCluster, _ context.CancelFunc) { c.lastSetWatch().Modify(newSet(5, 2, scaledTo(5))) },
		"by our own process": func(_ *fakeCluster, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(quietly(t))
				defer cancel()
				c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")), newClaim(3))
				time.AfterFunc(time.Second, func() { breaks(c, cancel) })
				time.AfterFunc(5*time.Second, func() { c.lastClaimWatch().Delete(newClaim(2)) })
				out, err := c.step().run(ctx)
				if diff := cmp.Diff([]string{"data-db-2", "data-db-3"}, tell(out).Deleted); diff != "" || out.stopped == nil || err != nil {
					t.Errorf("stopped by %v, error %v (-want +got):\n%s", out.stopped, err, diff)
				}
				if waited := time.Since(epoch); waited != 5*time.Second {
					t.Errorf("waited %v", waited)
				}
			})
		})
	}
}

func TestStepWithoutFenceThatIsBrokenOffDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("example.com/backup")), newClaim(3))
		time.AfterFunc(time.Second, func() { c.lastSetWatch().Modify(newSet(5, 2, scaledTo(5))) })
		s := c.step()
		s.fence = nil
		out, err := s.run(quietly(t))
		want := told{
			Deleted: []string{"data-db-3"}, Dying: []string{"data-db-2"}, Stopped: "the StatefulSet changed: replicas went from 2 to 5",
		}
		if diff := cmp.Diff(want, tell(out), cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("error %v (-want +got):\n%s", err, diff)
		}
		if waited := time.Since(epoch); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}

func TestClaimThatAPodStillUsesIsWaitedForAsLongAsTheFenceAllows(t *testing.T) {
	ending := newPod("restic", "data-db-2")
	ending.DeletionTimestamp, ending.Finalizers = &metav1.Time{Time: epoch}, []string{"example.com/x"}
	whole := policy.FenceLifetime - policy.FenceMargin
	for name, tt := range map[string]struct {
		pod     *corev1.Pod
		unknown bool
		want    time.Duration
	}{
		"a pod that came in between":  {newPod("restic", "data-db-2"), false, whole},
		"a pod that is ending":        {ending, false, goneDeadline},
		"a pod that uses another one": {newPod("restic", "data-db-1"), false, goneDeadline},
		"pods that cannot be listed":  {nil, true, whole},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")))
				c.afterDelete = func(string) {
					if tt.unknown {
						c.fail("list", "pods", apierrors.NewInternalError(errors.New("etcd is away")))
					} else if err := c.fake.Tracker().Add(tt.pod); err != nil {
						t.Error(err)
					}
				}
				// The whole time of the fence may count as its end.
				out, err := c.step().run(quietly(t))
				if diff := cmp.Diff([]string{"data-db-2"}, tell(out).Dying); diff != "" || err != nil {
					t.Errorf("error %v (-want +got):\n%s", err, diff)
				}
				if waited := time.Since(epoch); waited != tt.want {
					t.Errorf("waited %v, want %v", waited, tt.want)
				}
			})
		})
	}
}

func TestDyingClaimIsToldWithWhatHoldsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(3, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")))
		time.AfterFunc(time.Second/2, func() {
			held := newClaim(2, heldBy("example.com/backup"))
			if err := c.fake.Tracker().Update(claimsResource, held, namespace); err != nil {
				t.Error(err)
			}
			c.lastClaimWatch().Modify(held)
		})
		out := run(t, c, told{Dying: []string{"data-db-2"}})
		v := out.dying[0]
		if v.Decision != policy.Wait || v.Reason != policy.ReasonTerminating || v.Subject != "example.com/backup" {
			t.Errorf("verdict %+v", v)
		}
	})
}
