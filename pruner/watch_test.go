package pruner

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// duringDeletes runs a step that has three claims to delete, lets something happen when
// the first DELETE was answered, and gives the watch of the set the time to follow.
func duringDeletes(t *testing.T, happens func(*fakeCluster)) (c *fakeCluster, out outcome) {
	t.Helper()
	c = newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3), newClaim(4))
	c.afterDelete = func(claim string) {
		if claim != "data-db-2" {
			return
		}
		synctest.Wait() // the watch is open
		happens(c)
		time.Sleep(3 * resumeAfter)
		synctest.Wait()
	}
	out, err := c.step().run(quietly(t))
	if err != nil {
		t.Errorf("step: %v", err)
	}
	return c, out
}

// brokeOff checks that nothing was deleted but the claim whose DELETE was on its way.
func brokeOff(t *testing.T, c *fakeCluster, out outcome, why error, text string) {
	t.Helper()
	sent(t, c, "data-db-2")
	if out.finished() || why != nil && !errors.Is(out.stopped, why) {
		t.Errorf("stopped by %v; finished: %v", out.stopped, out.finished())
	}
	want := told{Deleted: []string{"data-db-2"}, Kept: []string{"data-db-3: Delete Unused", "data-db-4: Delete Unused"}, Stopped: text}
	if diff := cmp.Diff(want, tell(out), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestChangeOfTheSetDuringTheDeletesStopsThem(t *testing.T) {
	for name, tt := range map[string]struct {
		event  watch.EventType
		change setOption
		text   string
	}{
		"a scale-up":        {watch.Modified, scaledTo(5), "the StatefulSet changed: replicas went from 2 to 5"},
		"the same at first": {watch.Added, scaledTo(5), "the StatefulSet changed: replicas went from 2 to 5"},
		"a deletion":        {watch.Deleted, with("x", "y"), "the StatefulSet changed: it was deleted"},
		"a pause":           {watch.Modified, with(policy.KeyPaused, "true"), "the StatefulSet changed: a pvc-pruner.io/ annotation changed"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, out := duringDeletes(t, func(c *fakeCluster) {
					c.lastSetWatch().Action(tt.event, c.stored(t, atVersion("105"), tt.change))
				})
				brokeOff(t, c, out, errMoved, tt.text)
			})
		})
	}
}

func TestEventThatChangesNothingThatMattersStopsNothing(t *testing.T) {
	other := newSet(5, 5, asAnotherObject)
	other.Name = "other"
	for name, tt := range map[string]struct {
		event  watch.EventType
		change setOption
	}{
		"the object as it was":  {watch.Added, atVersion("101")},
		"its status":            {watch.Modified, func(s *appsv1.StatefulSet) { s.Status.Replicas = 1 }},
		"somebody's annotation": {watch.Modified, with("example.com/x", "y")},
		"another set":           {watch.Modified, func(s *appsv1.StatefulSet) { *s = *other }},
		"a bookmark":            {watch.Bookmark, func(s *appsv1.StatefulSet) { *s = *newSet(0, 0) }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, out := duringDeletes(t, func(c *fakeCluster) { c.lastSetWatch().Action(tt.event, c.stored(t, tt.change)) })
				sent(t, c, "data-db-2", "data-db-3", "data-db-4")
				if out.stopped != nil || !out.finished() {
					t.Errorf("stopped by %v", out.stopped)
				}
			})
		})
	}
}

func TestWatchBeginsAtTheVersionThatWasRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := duringDeletes(t, func(*fakeCluster) {})
		if diff := cmp.Diff([]string{"100+"}, c.versions()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// versions at which the watches of the set began.
func (c *fakeCluster) versions() []string {
	var versions []string
	for _, w := range c.setWatches {
		versions = append(versions, w.version)
	}
	return versions
}

func TestClosedWatchIsResumedFromTheLastVersionItSaw(t *testing.T) {
	for name, tt := range map[string]struct {
		event watch.EventType
		want  string
	}{
		"an event":   {watch.Modified, "105"},
		"a bookmark": {watch.Bookmark, "105"},
		"nothing":    {"", "100+"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, out := duringDeletes(t, func(c *fakeCluster) {
					if tt.event != "" {
						c.lastSetWatch().Action(tt.event, c.stored(t, atVersion("105")))
					}
					c.lastSetWatch().Stop()
				})
				if diff := cmp.Diff([]string{"100+", tt.want}, c.versions()); diff != "" {
					t.Errorf("watches (-want +got):\n%s", diff)
				}
				sent(t, c, "data-db-2", "data-db-3", "data-db-4")
				if !out.finished() {
					t.Errorf("told %+v", tell(out))
				}
			})
		})
	}
}

func TestChangeAfterAClosedWatchIsSeenByTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := duringDeletes(t, func(c *fakeCluster) {
			c.lastSetWatch().Stop()
			time.Sleep(2 * resumeAfter)
			synctest.Wait()
			c.lastSetWatch().Modify(c.stored(t, scaledTo(5), atVersion("105")))
		})
		brokeOff(t, c, out, errMoved, "the StatefulSet changed: replicas went from 2 to 5")
	})
}

func TestWatchThatExpiredOrBrokeIsReplacedByALiveLook(t *testing.T) {
	expired := apierrors.NewResourceExpired("too old").Status()
	for name, tt := range map[string]struct {
		status *metav1.Status
		live   []setOption
		moved  string
	}{
		"nothing changed":          {&expired, []setOption{atVersion("200")}, ""},
		"the count changed":        {&expired, []setOption{atVersion("200"), scaledTo(4)}, "the StatefulSet changed: replicas went from 2 to 4"},
		"another error":            {&metav1.Status{Message: "odd", Code: 500}, []setOption{atVersion("200")}, ""},
		"another error, opted out": {&metav1.Status{Message: "odd", Code: 500}, []setOption{lacking(policy.KeyEnabled)}, "the StatefulSet changed: a pvc-pruner.io/ annotation changed"},
		"it was replaced":          {&expired, []setOption{asAnotherObject}, "the StatefulSet changed: it was replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, out := duringDeletes(t, func(c *fakeCluster) {
					c.put(t, c.stored(t, tt.live...))
					c.lastSetWatch().Error(tt.status)
				})
				if tt.moved != "" {
					brokeOff(t, c, out, errMoved, tt.moved)
					return
				}
				sent(t, c, "data-db-2", "data-db-3", "data-db-4")
				if diff := cmp.Diff([]string{"100+", "200"}, c.versions()); diff != "" || !out.finished() {
					t.Errorf("told %+v; watches (-want +got):\n%s", tell(out), diff)
				}
			})
		})
	}
}

func TestSetThatCanBeNeitherWatchedNorReadStopsTheDeletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := duringDeletes(t, func(c *fakeCluster) {
			c.fail("get", "statefulsets", apierrors.NewInternalError(errors.New("etcd is away")))
			c.lastSetWatch().Error(&metav1.Status{Message: "odd", Code: 500})
		})
		brokeOff(t, c, out, nil, "the StatefulSet can neither be watched (watch StatefulSet: odd) nor read: get StatefulSet: Internal error occurred: etcd is away")
		if errors.Is(out.stopped, errMoved) {
			t.Error("what cannot be read is taken for a change, whose event would never come")
		}
	})
}

func TestWatchThatCannotBeResumedIsReplacedByALiveLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := duringDeletes(t, func(c *fakeCluster) {
			c.openSetWatch = func(*openWatch) error {
				return apierrors.NewForbidden(setsResource.GroupResource(), "db", errors.New("no watch"))
			}
			c.put(t, c.stored(t, scaledTo(5)))
			c.lastSetWatch().Stop()
		})
		brokeOff(t, c, out, errMoved, "the StatefulSet changed: replicas went from 2 to 5")
	})
}

// A connection that died in silence must not look like a set that nobody touches.
func TestWatchThatStallsIsReplacedByALiveLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(3, 2), newClaim(2, heldBy("example.com/backup")))
		c.afterDelete = func(string) { c.put(t, c.stored(t, scaledTo(3))) }
		out, err := c.step().run(quietly(t))
		if !errors.Is(out.stopped, errMoved) || err != nil {
			t.Errorf("stopped by %v, error %v", out.stopped, err)
		}
	})
}

func TestSlowDeletesLookAtTheSetAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		happens func(*testing.T, *fakeCluster)
		moved   string
	}{
		"a change that the watch does not tell of": {
			func(t *testing.T, c *fakeCluster) { c.put(t, c.stored(t, scaledTo(5))) },
			"the StatefulSet changed: replicas went from 2 to 5",
		},
		"the set is gone": {
			func(t *testing.T, c *fakeCluster) {
				if err := c.fake.Tracker().Delete(setsResource, namespace, "db"); err != nil {
					t.Error(err)
				}
			},
			"the StatefulSet changed: it is gone",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, out := slowly(t, freshFor, func(c *fakeCluster) { tt.happens(t, c) })
				brokeOff(t, c, out, errMoved, tt.moved)
			})
		})
	}
	t.Run("it cannot be read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, out := slowly(t, freshFor, func(c *fakeCluster) {
				c.fail("get", "statefulsets", apierrors.NewInternalError(errors.New("etcd is away")))
			})
			brokeOff(t, c, out, nil, "get StatefulSet: Internal error occurred: etcd is away")
		})
	})
}

func TestDeletesWithoutAWatchLookAtTheSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := slowly(t, 0, func(c *fakeCluster) {
			c.lastSetWatch().Stop()
			synctest.Wait() // it is opened again after a pause
			c.put(t, c.stored(t, scaledTo(5)))
		})
		brokeOff(t, c, out, errMoved, "the StatefulSet changed: replicas went from 2 to 5")
	})
}

// What is safe to skip is skipped: a fast prune asks no more than it must.
func TestFastDeletesDoNotLookAtTheSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, out := slowly(t, 0, func(*fakeCluster) {})
		sent(t, c, "data-db-2", "data-db-3", "data-db-4")
		reads := 0
		for _, a := range c.fake.Actions() {
			if a.Matches("get", "statefulsets") {
				reads++
			}
		}
		if reads != 1 || !out.finished() {
			t.Errorf("the set was read %d times; told %+v", reads, tell(out))
		}
	})
}

// slowly runs a step that has three claims to delete, and lets something happen when the
// first DELETE was carried out, whose answer takes some time.
func slowly(t *testing.T, takes time.Duration, happens func(*fakeCluster)) (c *fakeCluster, out outcome) {
	t.Helper()
	c = newFakeCluster(newSet(5, 2), newClaim(2), newClaim(3), newClaim(4))
	c.afterDelete = func(claim string) {
		if claim == "data-db-2" {
			synctest.Wait() // the watch is open
			happens(c)
			time.Sleep(takes)
		}
	}
	out, err := c.step().run(quietly(t))
	if err != nil {
		t.Errorf("step: %v", err)
	}
	return c, out
}

func TestServerThatClosesEveryWatchIsNotHammered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newFakeCluster(newSet(3, 2), newClaim(2, heldBy("example.com/backup")))
		c.openSetWatch = func(w *openWatch) error {
			w.Stop()
			return nil
		}
		run(t, c, told{Dying: []string{"data-db-2"}})
		if most := int(goneDeadline/resumeAfter) + 2; len(c.setWatches) > most {
			t.Errorf("%d watches in %v", len(c.setWatches), goneDeadline)
		}
	})
}

func TestMoved(t *testing.T) {
	planned := newSet(5, 2)
	for name, tt := range map[string]struct {
		change setOption
		want   string
	}{
		"nothing":                   {with("example.com/x", "y"), ""},
		"status and version":        {func(s *appsv1.StatefulSet) { s.ResourceVersion, s.Status.ReadyReplicas = "200", 2 }, ""},
		"labels and finalizers":     {func(s *appsv1.StatefulSet) { s.Labels, s.Finalizers = map[string]string{"a": "b"}, []string{"x/y"} }, ""},
		"the last summary":          {with(policy.KeyLastPrune, `{"claims":2}`), ""},
		"a delay written otherwise": {with(policy.KeyDelay, "600s"), ""},
		"another object":            {asAnotherObject, "it was replaced"},
		"a deletion":                {func(s *appsv1.StatefulSet) { s.DeletionTimestamp = &metav1.Time{Time: epoch} }, "it is being deleted"},
		"a scale-up":                {scaledTo(3), "replicas went from 2 to 3"},
		"a scale-down":              {scaledTo(1), "replicas went from 2 to 1"},
		"no count":                  {func(s *appsv1.StatefulSet) { s.Spec.Replicas = nil }, "replicas went from 2 to 0"},
		"a moved range":             {func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 1} }, "its ordinals moved"},
		"a rollout":                 {atGeneration(8), "its spec changed"},
		"an opt-out":                {lacking(policy.KeyEnabled), "a pvc-pruner.io/ annotation changed"},
		"a pause":                   {with(policy.KeyPaused, "true"), "a pvc-pruner.io/ annotation changed"},
		"a dry run":                 {with(policy.KeyDryRun, "true"), "a pvc-pruner.io/ annotation changed"},
		"an odd value":              {with(policy.KeyScope, "odd"), "a pvc-pruner.io/ annotation changed"},
		"a shorter list":            {with(policy.KeyTemplates, "wal"), "a pvc-pruner.io/ annotation changed"},
		"another prior count":       {with(policy.KeyPriorReplicas, "4"), "its bookkeeping changed"},
		"another window":            {with(policy.KeyScaledDownAt, "2000-01-01T00:00:00Z"), "its bookkeeping changed"},
		"a record of another":       {with(policy.KeyRecord, `{"uid":"6a7b","start":0,"generation":7}`), "its bookkeeping changed"},
		"a fence":                   {with(policy.KeyFence, "{}"), "its bookkeeping changed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := moved(planOf(planned), planOf(changed(planned, tt.change)))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != "the StatefulSet changed: "+tt.want || !errors.Is(err, errMoved)) {
				t.Errorf("moved: %v, want %q", err, tt.want)
			}
		})
	}
}
