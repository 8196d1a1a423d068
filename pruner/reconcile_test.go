package pruner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// fakeCache holds what is stored, as the informer would.
type fakeCache struct {
	client.Reader
	c   *fakeCluster
	err error
}

func (f fakeCache) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if f.err != nil {
		return f.err
	}
	stored, err := f.c.fake.Tracker().Get(setsResource, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	stripped, err := StripStatefulSet(stored)
	if err != nil {
		return err
	}
	stripped.(*appsv1.StatefulSet).DeepCopyInto(obj.(*appsv1.StatefulSet))
	return nil
}

// reconciled is what one look came to.
type reconciled struct {
	Again   time.Duration
	Said    []string
	Deletes []string
	Error   string
}

// look notes the stored set, as the watch would, and reconciles it.
func look(t *testing.T, c *fakeCluster, r *reconciler) reconciled {
	t.Helper()
	r.cache = fakeCache{c: c}
	if obj, err := c.fake.Tracker().Get(setsResource, namespace, "db"); err == nil {
		r.memory.note(obj.(*appsv1.StatefulSet))
	}
	before := len(c.said())
	result, err := r.Reconcile(quietly(t), ctrl.Request{NamespacedName: ownKey})
	got := reconciled{Again: result.RequeueAfter, Said: c.said()[before:], Deletes: c.deletes()}
	if err != nil {
		got.Error = err.Error()
	}
	return got
}

func (got reconciled) expect(t *testing.T, want reconciled) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const scheduled = "PruneScheduled: replicas is 2: data-db-2, data-db-3, data-db-4 will be deleted at 1999-12-31T23:10:00Z, once unused; to keep, scale back to 5 before"

func TestReconcilePrunesAndCompletesTheRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(1), newClaim(2), newClaim(3))
		r := newReconciler(t, c)
		look(t, c, r).expect(t, reconciled{
			Said:    []string{scheduled, "Pruned: deleted data-db-2, data-db-3 (2Gi), unused since replicas became 2"},
			Deletes: []string{"data-db-2", "data-db-3"},
		})
		two := int32(2)
		want := policy.Bookkeeping{
			Prior: &two, Record: &policy.Record{UID: ownUID, Generation: generation},
			LastPrune: `{"at":"2000-01-01T00:00:00Z","ordinals":[2,3],"claims":2,"bytes":2147483648}`,
		}
		if diff := cmp.Diff(want, policy.ReadBookkeeping(c.stored(t).Annotations)); diff != "" {
			t.Errorf("bookkeeping (-want +got):\n%s", diff)
		}
		if testutil.ToFloat64(r.metrics.prunes.WithLabelValues("completed")) != 1 || testutil.CollectAndCount(r.metrics.reclaimed) != 1 {
			t.Error("not counted")
		}
		look(t, c, r).expect(t, reconciled{Deletes: []string{"data-db-2", "data-db-3"}})
	})
}

func TestReconcileWaits(t *testing.T) {
	fence := func(value string) setOption { return with(policy.KeyFence, value) }
	for name, tt := range map[string]struct {
		objects []runtime.Object
		want    reconciled
	}{
		"for the exact end of the window": {
			[]runtime.Object{newSet(5, 2, with(policy.KeyDelay, "90m")), newClaim(2)},
			reconciled{Again: 30 * time.Minute, Said: []string{
				"PruneScheduled: replicas is 2: data-db-2, data-db-3, data-db-4 will be deleted at 2000-01-01T00:30:00Z, once unused; to keep, scale back to 5 before",
			}},
		},
		"for a pod, with growing patience": {
			[]runtime.Object{newSet(5, 2), newClaim(2), newPod("db-2")},
			reconciled{Again: 5 * time.Minute, Said: []string{scheduled, "PruneWaiting: data-db-2: pod db-2 still exists"}},
		},
		"for the fence of another process": {
			[]runtime.Object{newSet(5, 2, fence(foreignFence)), newClaim(2)},
			reconciled{Again: time.Minute},
		},
		"for its own fence, after a delete whose end is not known": {
			[]runtime.Object{newSet(5, 2, fence(ownFence())), newClaim(2)},
			reconciled{Again: time.Minute},
		},
		"for a fence, although the set was opted out": {
			[]runtime.Object{newSet(5, 2, fence(foreignFence), lacking(policy.KeyEnabled))},
			reconciled{Again: time.Minute},
		},
		"while paused, for an event": {
			[]runtime.Object{newSet(5, 2, with(policy.KeyPaused, "true")), newClaim(2)},
			reconciled{Said: []string{`PruneWaiting: paused; nothing is deleted while pvc-pruner.io/paused is "true"`}},
		},
		"at zero, for an event": {
			[]runtime.Object{newSet(5, 0), newClaim(2)},
			reconciled{Said: []string{`PruneSkipped: scaled to zero; all claims are kept while pvc-pruner.io/scale-to-zero is "keep"`}},
		},
		"with an odd annotation, for a correction": {
			[]runtime.Object{newSet(5, 2, with(policy.KeyPaused, "no")), newClaim(2)},
			reconciled{Said: []string{`InvalidAnnotation: pvc-pruner.io/paused: "no" is not accepted; accepted are "false" and "true"; nothing is deleted until it is corrected`}},
		},
		"with nothing pending, for an event": {[]runtime.Object{newSet(3, 3), newClaim(3)}, reconciled{}},
		"opted out, for an event":            {[]runtime.Object{newSet(5, 2, lacking(policy.KeyEnabled)), newClaim(2)}, reconciled{}},
		"in dry run, with growing patience": {
			[]runtime.Object{newSet(5, 2, with(policy.KeyDryRun, "true")), newClaim(2)},
			reconciled{Again: 5 * time.Minute, Said: []string{
				"PruneScheduled: replicas is 2; dry run, nothing is deleted; otherwise data-db-2, data-db-3, data-db-4 would be deleted " +
					"at 1999-12-31T23:10:00Z, once unused; to keep, scale back to 5 before",
				"PruneDryRun: dry run: would delete data-db-2 (1Gi)",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(tt.objects...)
				look(t, c, newReconciler(t, c)).expect(t, tt.want)
			})
		})
	}
}

func TestReconcileAccountsForWhatItSaw(t *testing.T) {
	b := func(prior int32, generation int64, window *policy.Window) policy.Bookkeeping {
		return policy.Bookkeeping{Prior: &prior, Window: window, Record: &policy.Record{UID: ownUID, Generation: generation}}
	}
	foundAtStart := b(5, 8, &policy.Window{Target: 3, Since: epoch})
	foundAtStart.Record.ScaledDownAt = "0001-01-01T00:00:00Z" // since the set was made, which has no time here
	bare := newSet(3, 3)
	bare.Annotations = map[string]string{policy.KeyEnabled: "true"}
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want policy.Bookkeeping
	}{
		"an object that admission did not see is bound": {bare, b(3, 7, nil)},
		"a scale-down through the subresource":          {newSet(5, 5, scaledTo(3), atGeneration(8)), foundAtStart},
		"a fence that is long over is taken away":       {newSet(3, 3, with(policy.KeyFence, `{"from":3,"holder":"ffffffff","until":"1999-12-31T23:59:59Z"}`)), b(3, 7, nil)},
		"a fence that cannot be read is taken away":     {newSet(3, 3, with(policy.KeyFence, "{")), b(3, 7, nil)},
		"what is malformed is taken away":               {newSet(3, 3, with(policy.KeyTargetReplicas, "x")), b(3, 7, nil)},
		"what an opted-out set was left with goes":      {newSet(5, 2, lacking(policy.KeyEnabled)), policy.Bookkeeping{}},
		"also the summary of its last prune":            {changed(bare, lacking(policy.KeyEnabled), with(policy.KeyLastPrune, "{}")), policy.Bookkeeping{}},
		"a rollout of an idle set is not written down":  {newSet(3, 3, atGeneration(9)), b(3, 7, nil)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(tt.set)
				got := look(t, c, newReconciler(t, c))
				if diff := cmp.Diff(tt.want, policy.ReadBookkeeping(c.stored(t).Annotations)); diff != "" || got.Error != "" {
					t.Errorf("error %q (-want +got):\n%s", got.Error, diff)
				}
				annotations, err := tt.want.Annotations()
				for _, key := range policy.BookkeepingKeys() {
					if got, ok := c.stored(t).Annotations[key]; ok && got != annotations[key] || err != nil {
						t.Errorf("%s is left at %q, %v", key, got, err)
					}
				}
			})
		})
	}
}

func TestWhatWasAccountedForIsNotAccountedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 5, scaledTo(3), atGeneration(8)))
		r := newReconciler(t, c)
		look(t, c, r)
		if seen := r.memory.seen(c.stored(t)); len(seen.Counts) > 0 || seen.First || seen.Known != 8 {
			t.Errorf("%+v", seen)
		}
	})
}

func TestNothingIsWrittenWhereNothingChanged(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"idle": newSet(3, 3), "in a window": newSet(5, 2, with(policy.KeyDelay, "2h")), "rolled out": newSet(3, 3, atGeneration(9)),
		"opted out": changed(newSet(3, 3), func(s *appsv1.StatefulSet) { s.Annotations = map[string]string{policy.KeyEnabled: "false"} }),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(set)
				if look(t, c, newReconciler(t, c)); count(c, "patch") > 0 {
					t.Errorf("actions %v", c.fake.Actions())
				}
			})
		})
	}
}

func TestRecordThatCannotBeStored(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want reconciled
	}{
		"a newer version is on its way": {apierrors.NewConflict(setsResource.GroupResource(), "db", errors.New("changed")), reconciled{}},
		"the set is gone":               {apierrors.NewNotFound(setsResource.GroupResource(), "db"), reconciled{}},
		"anything else is tried again":  {errors.New("etcd is away"), reconciled{Error: "store bookkeeping: etcd is away"}},
		"admission does not work, and that is told": {
			apierrors.NewInternalError(errors.New(`failed calling webhook "x"`)), reconciled{
				Error: `store bookkeeping: Internal error occurred: failed calling webhook "x"`,
				Said: []string{"FenceNotEnforced: nothing is deleted until the admission webhook of pvc-pruner answers; scaling goes on: " +
					`store bookkeeping: Internal error occurred: failed calling webhook "x"`},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(newSet(5, 5, scaledTo(3), atGeneration(8)), newClaim(3))
				c.fail("patch", "statefulsets", tt.err)
				r := newReconciler(t, c)
				look(t, c, r).expect(t, tt.want)
				if seen := r.memory.seen(newSet(5, 5)); len(seen.Counts) != 1 || !seen.First || seen.Known != 0 {
					t.Errorf("%+v: accounted for what was not stored", seen)
				}
			})
		})
	}
}

func TestScaleUpThatCancelsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2, scaledTo(5), atGeneration(8)), newClaim(2))
		r := newReconciler(t, c)
		r.memory.note(newSet(5, 2))
		look(t, c, r).expect(t, reconciled{Said: []string{
			"PruneCancelled: replicas went from 2 to 5: not pruning data-db-2, data-db-3, data-db-4, as far as they still exist",
		}})
		if testutil.ToFloat64(r.metrics.prunes.WithLabelValues("cancelled")) != 1 {
			t.Error("not counted")
		}
	})
}

func TestStepThatDoesNotEndWell(t *testing.T) {
	waitingFor := func(ordinal int) []runtime.Object { return []runtime.Object{newSet(5, 2), newClaim(ordinal)} }
	for name, tt := range map[string]struct {
		spoil  func(*testing.T, *fakeCluster)
		want   reconciled
		fenced bool
	}{
		"a list that fails is tried again, without the fence": {
			func(_ *testing.T, c *fakeCluster) { c.fail("list", "pods", errors.New("etcd is away")) },
			reconciled{Error: "list Pods: etcd is away"},
			false,
		},
		"a delete that is refused is tried again": {
			func(_ *testing.T, c *fakeCluster) { c.answer("data-db-2", apierrors.NewBadRequest("odd")) },
			reconciled{Deletes: []string{"data-db-2"}, Said: []string{"PruneFailed: not deleted: data-db-2: odd"}, Error: "delete 1 claims: odd"},
			false,
		},
		"a delete whose end is not known keeps the fence, and is looked at when it ends": {
			func(_ *testing.T, c *fakeCluster) { c.answer("data-db-2", context.DeadlineExceeded) },
			reconciled{Deletes: []string{"data-db-2"}, Said: []string{"PruneFailed: not deleted: data-db-2: context deadline exceeded"}, Again: time.Minute},
			true,
		},
		"a change of the set is followed by its event": {
			func(t *testing.T, c *fakeCluster) {
				c.afterDelete = func(string) {
					synctest.Wait()
					c.put(t, c.stored(t, scaledTo(5), atGeneration(8), atVersion("200")))
					c.lastSetWatch().Modify(c.stored(t))
					synctest.Wait()
				}
			},
			reconciled{Deletes: []string{"data-db-2"}, Said: []string{"Pruned: deleted data-db-2 (1Gi), unused since replicas became 2"}},
			false,
		},
		"a fence that is not enforced is tried again, and told": {
			func(_ *testing.T, c *fakeCluster) { c.unenforced = true },
			reconciled{
				Said: []string{"FenceNotEnforced: nothing is deleted until the admission webhook of pvc-pruner answers; scaling goes on: " +
					"the fence is not enforced: the API server would accept a scale-up to 5; our webhook was not asked"},
				Error: "prune: the fence is not enforced: the API server would accept a scale-up to 5; our webhook was not asked",
			},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newFakeCluster(waitingFor(2)...)
				tt.spoil(t, c)
				tt.want.Said = append([]string{scheduled}, tt.want.Said...)
				look(t, c, newReconciler(t, c)).expect(t, tt.want)
				if fence := c.stored(t).Annotations[policy.KeyFence]; (fence != "") != tt.fenced {
					t.Errorf("fence %q", fence)
				}
				if !policy.ReadBookkeeping(c.stored(t).Annotations).Pending() {
					t.Error("the record was completed")
				}
			})
		})
	}
}

func TestMoreClaimsThanOneFenceHasTimeForAreDeletedBehindTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []runtime.Object{newSet(20, 2)}
		for ordinal := 2; ordinal < 20; ordinal++ {
			objects = append(objects, newClaim(ordinal))
		}
		c := newFakeCluster(objects...)
		c.afterDelete = func(string) { time.Sleep(4 * time.Second) }
		r := newReconciler(t, c)
		if got := look(t, c, r); got.Again != time.Second || len(got.Deletes) != 12 || got.Error != "" {
			t.Errorf("first look: %+v", got)
		}
		if got := look(t, c, r); got.Again != 0 || len(got.Deletes) != 18 || got.Error != "" {
			t.Errorf("second look: %+v", got)
		}
		last := policy.ReadBookkeeping(c.stored(t).Annotations).LastPrune
		if want := `"claims":18,"bytes":19327352832}`; last[max(0, len(last)-len(want)):] != want {
			t.Errorf("summary %s", last)
		}
	})
}

func TestClaimsOfASetThatGoesAwayAreKeptAndNamed(t *testing.T) {
	going := newSet(5, 2, func(s *appsv1.StatefulSet) {
		s.DeletionTimestamp, s.Finalizers = &metav1.Time{Time: epoch}, []string{"x/y"}
	})
	for name, set := range map[string]*appsv1.StatefulSet{"it is being deleted": going, "it is gone": nil} {
		t.Run(name, func(t *testing.T) {
			c := newFakeCluster(newClaim(2))
			if set != nil {
				c = newFakeCluster(newClaim(2), set)
			}
			r := newReconciler(t, c)
			r.cache = fakeCache{c: c}
			r.memory.note(newSet(5, 2))
			r.metrics.hold(ownUID, &policy.Hold{Reason: policy.ReasonUndoWindow}, nil)
			r.events.due(ownUID, notice{reason: EventScheduled, about: "x"})
			var lines []string
			log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
			result, err := r.Reconcile(logr.NewContext(t.Context(), log), ctrl.Request{NamespacedName: ownKey})
			want := []string{`"level"=0 "msg"="The StatefulSet went away while a prune was pending; its claims are kept" "claims"="data-db-2, data-db-3, data-db-4"`}
			if diff := cmp.Diff(want, lines); diff != "" || err != nil || result != (ctrl.Result{}) {
				t.Errorf("%v, %v (-want +got):\n%s", result, err, diff)
			}
			if len(r.memory.sets)+len(r.metrics.sets)+len(r.events.said) > 0 {
				t.Error("something of it is still remembered")
			}
			sent(t, c)
		})
	}
}

func TestSetThatWentAwayUnseenIsNothing(t *testing.T) {
	c := newFakeCluster()
	look(t, c, newReconciler(t, c)).expect(t, reconciled{})
}

func TestCacheThatCannotBeReadIsAnError(t *testing.T) {
	c := newFakeCluster(newSet(5, 2))
	r := newReconciler(t, c)
	r.cache = fakeCache{c: c, err: errors.New("not synced")}
	if _, err := r.Reconcile(quietly(t), ctrl.Request{NamespacedName: ownKey}); err == nil || err.Error() != "get cached StatefulSet: not synced" {
		t.Errorf("error %v", err)
	}
}

// The cache decides only what to look at: what it shows may be older than what is stored.
func TestStaleCacheDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stale := newFakeCluster(newSet(5, 2), newClaim(2))
		live := newFakeCluster(newSet(5, 5, atVersion("200")), newClaim(2))
		r := newReconciler(t, live)
		r.cache = fakeCache{c: stale}
		r.memory.note(newSet(5, 2))
		result, err := r.Reconcile(quietly(t), ctrl.Request{NamespacedName: ownKey})
		if result != (ctrl.Result{}) || err != nil {
			t.Errorf("%v, %v", result, err)
		}
		sent(t, live)
	})
}

// What a failed step wrote to the set wakes us at once. That must not make a storm.
func TestSetRestsAfterAStepThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2), newClaim(2))
		c.unstamped = true
		r := newReconciler(t, c)
		r.now = time.Now
		writes := func() (n int) {
			for _, a := range c.fake.Actions() {
				if a.Matches("patch", "statefulsets") {
					n++
				}
			}
			return n
		}
		want := retryFirst
		for range 8 {
			if got := look(t, c, r); got.Error == "" {
				t.Fatalf("no error: %+v", got)
			}
			look(t, c, r) // takes away what is left of the fence
			before := writes()
			if got := look(t, c, r); got.Again != want || got.Error != "" || writes() != before {
				t.Fatalf("looked at again at once: %+v, %d writes", got, writes()-before)
			}
			time.Sleep(want)
			want = min(2*want, retryLast)
		}
		c.unstamped = false
		time.Sleep(retryLast)
		if got := look(t, c, r); got.Error != "" || len(got.Deletes) != 1 {
			t.Errorf("did not recover: %+v", got)
		}
		if rest := r.memory.resting(c.stored(t), time.Now()); rest != 0 {
			t.Errorf("rests %v after a success", rest)
		}
	})
}

// A later look would say it, and after the last one there is none.
func TestWhatIsKeptForGoodIsSaidBeforeTheRecordIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keep := func(c *corev1.PersistentVolumeClaim) { c.Annotations = map[string]string{policy.KeyKeep: "true"} }
		c := newFakeCluster(newSet(4, 2), newClaim(2, keep), newClaim(3, keep))
		r := newReconciler(t, c)
		r.events.due(ownUID, notice{reason: EventSkipped, about: "something else a moment ago"})
		got := look(t, c, r)
		want := `PruneSkipped: data-db-2: keep: annotated pvc-pruner.io/keep="true"; data-db-3: keep: annotated pvc-pruner.io/keep="true"`
		if len(got.Said) != 2 || got.Said[1] != want {
			t.Errorf("said %q", got.Said)
		}
	})
}

func TestOptingOutOfAPendingPruneIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(5, 2, with(policy.KeyDelay, "10w")), newClaim(2))
		r := newReconciler(t, c)
		look(t, c, r)
		c.put(t, c.stored(t, lacking(policy.KeyEnabled), lacking(policy.KeyRecord), lacking(policy.KeyPriorReplicas),
			lacking(policy.KeyTargetReplicas), lacking(policy.KeyScaledDownAt), atVersion("200")))
		look(t, c, r).expect(t, reconciled{Said: []string{"PruneCancelled: opted out: not pruning data-db-2, data-db-3, data-db-4, as far as they still exist"}})
		look(t, c, r).expect(t, reconciled{})
	})
}

func TestSecondScaleToZeroIsSaidAgain(t *testing.T) {
	about := func(since time.Time) string {
		set := newSet(5, 0)
		plan := planOf(set)
		plan.Bookkeeping.Window.Since = since
		n, ok := holdNotice(plan, policy.Hold{Reason: policy.ReasonScaledToZero, Message: "why"})
		if !ok {
			t.Fatal("not said")
		}
		return n.about
	}
	if about(epoch) == about(epoch.Add(time.Second)) {
		t.Error("the second is taken for the first")
	}
}

func TestSetOfAnOperatorIsWarnedOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owned := func(s *appsv1.StatefulSet) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "db.example.com/v1", Kind: "Database", Name: "shop", Controller: new(true)}}
		}
		c := newFakeCluster(newSet(2, 2, owned))
		look(t, c, newReconciler(t, c)).expect(t, reconciled{Said: []string{
			"OperatorManaged: Database shop owns this StatefulSet and may scale it or delete its claims in ways of its own: opt in only what you scale yourself",
		}})
		c = newFakeCluster(newSet(2, 2, owned, lacking(policy.KeyEnabled)))
		look(t, c, newReconciler(t, c)).expect(t, reconciled{})
	})
}
