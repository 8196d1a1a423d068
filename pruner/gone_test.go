package pruner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8stesting "k8s.io/client-go/testing"
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
		time.AfterFunc(300*time.Millisecond, func() { c.lastClaimWatch().Delete(newClaim(2)) })
		if out := run(t, c, told{Deleted: []string{"data-db-2", "data-db-3"}}); !out.finished() {
			t.Error("not finished")
		}
		if waited := time.Since(epoch); waited != 300*time.Millisecond {
			t.Errorf("waited %v", waited)
		}
	})
}

// Or a claim that went before the watch was open would be waited for in vain.
func TestWatchOfClaimsBeginsAtTheVersionOfTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3))
		c.answer("data-db-3", conflict("data-db-3"))
		versions := []string{"500", "501"}
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

func TestListOfWhatIsLeftThatFailsIsAnErrorAndCountsNothingAsGone(t *testing.T) {
	partial := &corev1.PersistentVolumeClaimList{ListMeta: metav1.ListMeta{Continue: "next"}}
	for name, tt := range map[string]struct {
		list runtime.Object
		err  error
	}{
		"it fails":     {nil, apierrors.NewInternalError(errors.New("etcd is away"))},
		"it is a part": {partial, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("kubernetes.io/pvc-protection")), newClaim(3))
				time.AfterFunc(time.Second, func() {
					c.on("list", "persistentvolumeclaims", func(k8stesting.Action) (bool, runtime.Object, error) {
						return true, tt.list, tt.err
					})
					c.lastClaimWatch().Stop()
				})
				out, err := c.step().run(quietly(t))
				if want := tt.err; want == nil && !errors.Is(err, errPartialList) || want != nil && !errors.Is(err, want) {
					t.Errorf("error %v", err)
				}
				want := told{Deleted: []string{"data-db-3"}, Dying: []string{"data-db-2"}}
				if diff := cmp.Diff(want, tell(out)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestScaleUpWhileClaimsAreDyingEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2, heldBy("example.com/backup")), newClaim(3))
		time.AfterFunc(time.Second, func() { c.lastSetWatch().Modify(newSet(5, 2, scaledTo(5), atVersion("101"))) })
		run(t, c, told{
			Deleted: []string{"data-db-3"}, Dying: []string{"data-db-2"}, Stopped: "the StatefulSet changed: replicas went from 2 to 5",
		})
		if waited := time.Since(epoch); waited != time.Second {
			t.Errorf("waited %v", waited)
		}
	})
}
