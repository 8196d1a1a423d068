package pruner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var ownKey = types.NamespacedName{Namespace: namespace, Name: "db"}

// noted is a memory that saw these versions, one after the other.
func noted(sets ...*appsv1.StatefulSet) *memory {
	m := newMemory(defaults)
	m.now = func() time.Time { return epoch }
	for _, set := range sets {
		m.note(set)
	}
	return m
}

// at is a version of an idle set of 3.
func at(generation int64, replicas int32, options ...setOption) *appsv1.StatefulSet {
	return newSet(3, 3, append([]setOption{atGeneration(generation), scaledTo(replicas)}, options...)...)
}

func TestMemoryHoldsEveryCountThatWasSeen(t *testing.T) {
	moved := func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5} }
	for name, tt := range map[string]struct {
		versions []*appsv1.StatefulSet
		want     policy.Seen
	}{
		"nothing":            {nil, policy.Seen{Counts: nil, First: true}},
		"up and down again":  {[]*appsv1.StatefulSet{at(7, 3), at(8, 5), at(9, 3)}, policy.Seen{Counts: []policy.Count{{Generation: 7, Replicas: 3}, {Generation: 8, Replicas: 5, At: epoch}, {Generation: 9, Replicas: 3, At: epoch}}, First: true}},
		"one version twice":  {[]*appsv1.StatefulSet{at(7, 3), at(7, 3, atVersion("101"))}, policy.Seen{Counts: []policy.Count{{Generation: 7, Replicas: 3}}, First: true}},
		"a moved range":      {[]*appsv1.StatefulSet{at(7, 3), at(8, 3, moved)}, policy.Seen{Counts: []policy.Count{{Generation: 7, Replicas: 3}, {Generation: 8, Start: 5, Replicas: 3, At: epoch}}, First: true}},
		"another object":     {[]*appsv1.StatefulSet{at(7, 5, asAnotherObject), at(7, 3)}, policy.Seen{Counts: []policy.Count{{Generation: 7, Replicas: 3}}, First: true}},
		"an opt-out between": {[]*appsv1.StatefulSet{at(7, 5), at(8, 5, lacking(policy.KeyEnabled)), at(9, 3)}, policy.Seen{Counts: []policy.Count{{Generation: 9, Replicas: 3}}, First: true}},
	} {
		t.Run(name, func(t *testing.T) {
			got := noted(tt.versions...).seen(at(9, 3))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatIsAccountedForIsForgotten(t *testing.T) {
	m := noted(at(7, 3), at(8, 5), at(9, 3))
	m.accounted(at(8, 5))
	want := policy.Seen{Counts: []policy.Count{{Generation: 9, Replicas: 3, At: epoch}}, Known: 8}
	if diff := cmp.Diff(want, m.seen(at(9, 3))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.accounted(at(9, 3, asAnotherObject))
	if again := m.seen(at(9, 3)); len(again.Counts) != 1 || again.Known != 8 {
		t.Errorf("another object accounted for %+v", again)
	}
}

func TestSetOfAnotherUIDIsSeenForTheFirstTime(t *testing.T) {
	m := noted(at(7, 3))
	m.accounted(at(7, 3))
	if seen := m.seen(at(7, 3, asAnotherObject)); seen.Counts != nil || !seen.First || seen.Known != 0 {
		t.Errorf("%+v", seen)
	}
}

func TestMemoryOfOneSetIsBounded(t *testing.T) {
	m := newMemory(defaults)
	for n := range int64(2 * maxCounts) {
		m.note(at(n+1, int32(n)))
	}
	counts := m.seen(at(1, 1)).Counts
	if len(counts) != maxCounts || counts[len(counts)-1].Generation != 2*maxCounts {
		t.Errorf("%d counts, the last %+v", len(counts), counts[len(counts)-1])
	}
}

func TestMemoryForgetsASetThatIsGone(t *testing.T) {
	m := noted(at(7, 3), at(8, 5))
	if last := m.forget(ownKey); last == nil || last.Generation != 8 {
		t.Errorf("last version %+v", last)
	}
	if last := m.forget(ownKey); last != nil || len(m.sets) != 0 {
		t.Errorf("still there: %+v", last)
	}
}

func TestScaleUpCancelsAPendingPrune(t *testing.T) {
	recordOf := func(uid types.UID, start int32) setOption {
		two := int32(5)
		return remembering(policy.Bookkeeping{
			Prior: &two, Window: &policy.Window{Target: 2, Since: scaledDown}, Record: &policy.Record{UID: uid, Start: start, Generation: generation},
		})
	}
	up := func(to int32, options ...setOption) *appsv1.StatefulSet {
		return newSet(5, 2, append([]setOption{scaledTo(to), atGeneration(8)}, options...)...)
	}
	for name, tt := range map[string]struct {
		last, set *appsv1.StatefulSet
		want      *cancellation
	}{
		"wholly":                              {newSet(5, 2), up(5), &cancellation{from: 2, to: 5, prior: 5}},
		"in part":                             {newSet(5, 2), up(3), &cancellation{from: 2, to: 3, prior: 5}},
		"and beyond":                          {newSet(5, 2), up(9), &cancellation{from: 2, to: 9, prior: 5}},
		"seen after a start, by the window":   {nil, up(4), &cancellation{from: 2, to: 4, prior: 5}},
		"a scale-down cancels nothing":        {newSet(5, 2), up(1), nil},
		"the same count cancels nothing":      {newSet(5, 2), up(2), nil},
		"nothing was pending":                 {newSet(5, 5), newSet(5, 5, scaledTo(7), atGeneration(8)), nil},
		"what was kept at zero is no prune":   {newSet(5, 0), newSet(5, 0, scaledTo(3), atGeneration(8)), nil},
		"what was to go at zero is":           {newSet(5, 0, with(policy.KeyScaleToZero, "prune")), newSet(5, 0, scaledTo(3)), &cancellation{from: 0, to: 3, prior: 5}},
		"a record of another object is none":  {newSet(5, 2, recordOf("6a7b", 0)), up(5), nil},
		"a record of another range is none":   {newSet(5, 2, recordOf(ownUID, 1)), up(5), nil},
		"seen after a start, nothing pending": {nil, newSet(5, 5), nil},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory(defaults)
			if tt.last != nil {
				m.note(tt.last)
			}
			m.note(tt.set)
			if diff := cmp.Diff(tt.want, m.takeCancelled(tt.set), cmp.AllowUnexported(cancellation{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := m.takeCancelled(tt.set); again != nil {
				t.Errorf("told twice: %+v", again)
			}
		})
	}
}

func TestHandlerQueuesTheSetsThatConcernUs(t *testing.T) {
	stranger := newSet(3, 3)
	stranger.Annotations = map[string]string{"example.com/x": "y"}
	for name, tt := range map[string]struct {
		before, set *appsv1.StatefulSet
		want        int
	}{
		"an opted-in set":                        {nil, at(7, 3), 1},
		"a set that has nothing to do with us":   {nil, stranger, 0},
		"a set with odd annotations of ours":     {nil, at(7, 3, with(policy.KeyEnabled, "odd")), 1},
		"a set that lost all annotations":        {at(7, 3), stranger, 1},
		"a set whose bookkeeping is left behind": {nil, at(8, 3, lacking(policy.KeyEnabled)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			for kind, send := range map[string]func(handler.EventHandler, queue){
				"created": func(h handler.EventHandler, q queue) { h.Create(t.Context(), event.CreateEvent{Object: tt.set}, q) },
				"updated": func(h handler.EventHandler, q queue) {
					h.Update(t.Context(), event.UpdateEvent{ObjectOld: stranger, ObjectNew: tt.set}, q)
				},
			} {
				m := newMemory(defaults)
				if tt.before != nil {
					m.note(tt.before)
				}
				q := newQueue(t)
				if send(m.handler(), q); q.Len() != tt.want {
					t.Errorf("%s: queued %d", kind, q.Len())
				}
			}
		})
	}
}

func TestHandlerQueuesEverySetThatIsGone(t *testing.T) {
	q := newQueue(t)
	newMemory(defaults).handler().Delete(t.Context(), event.DeleteEvent{Object: newSet(3, 3)}, q)
	if got, _ := q.Get(); got.NamespacedName != ownKey {
		t.Errorf("queued %v", got)
	}
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

func newQueue(t *testing.T) queue {
	t.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(q.ShutDown)
	return q
}
