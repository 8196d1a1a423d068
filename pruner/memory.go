package pruner

import (
	"context"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// memory is what the leader saw of each opted-in set since it last accounted for it.
// The work queue merges events of one set, so a quick 3→5→3 through the scale
// subresource would otherwise leave no trace of the 5.
type memory struct {
	defaults policy.Controls
	now      func() time.Time

	mu   sync.Mutex
	sets map[types.NamespacedName]*sighting
	// optedOut are the last versions before sets were opted out, until that is reported.
	optedOut map[types.NamespacedName]*appsv1.StatefulSet
}

// sighting is what was seen of one set.
type sighting struct {
	uid types.UID
	// looked: the reconciler has accounted for the set since the start of this process.
	looked bool
	// known is the generation up to which every change is accounted for.
	known int64
	// counts not accounted for yet, oldest first.
	counts []policy.Count
	// last is the newest object seen, for comparing with the next.
	last *appsv1.StatefulSet
	// cancelled: a pending prune ended, wholly or partly, and was not reported yet.
	cancelled *cancellation
	// rest is how long the set rests after a step that failed, until restUntil.
	rest      time.Duration
	restUntil time.Time
	// done is what the prune under way has deleted so far.
	done progress
}

// cancellation is a scale-up while a prune was pending.
type cancellation struct{ from, to, prior int32 }

// maxCounts bounds the memory per set. Beyond it the oldest counts are forgotten, and the
// gap that they leave is treated as what was not seen.
const maxCounts = 256

func newMemory(defaults policy.Controls) *memory {
	return &memory{defaults: defaults, now: time.Now, sets: map[types.NamespacedName]*sighting{}, optedOut: map[types.NamespacedName]*appsv1.StatefulSet{}}
}

// handler notes each object and queues the sets that concern us.
func (m *memory) handler() handler.EventHandler {
	queue := func(obj client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if set, ok := obj.(*appsv1.StatefulSet); ok && m.note(set) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
		}
	}
	type limiter = workqueue.TypedRateLimitingInterface[reconcile.Request]
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q limiter) { queue(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q limiter) { queue(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q limiter) {
			q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)})
		},
	}
}

// note records one version of a set, and says whether it concerns us.
func (m *memory) note(set *appsv1.StatefulSet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(set)
	s := m.sets[key]
	replicas, ok := policy.Replicas(set)
	if !ok || !policy.OptedIn(set.Annotations) {
		m.drop(key, set)
		return s != nil || hasOurKeys(set) // odd annotations still want a report
	}
	if s == nil || s.uid != set.UID {
		s = &sighting{uid: set.UID}
		m.sets[key] = s
	}
	if s.last == nil || set.Generation > s.last.Generation {
		count := policy.Count{Generation: set.Generation, Start: policy.Start(set), Replicas: replicas}
		if s.last != nil {
			count.At = m.now()
		}
		s.counts = append(s.counts, count)
		s.counts = s.counts[max(0, len(s.counts)-maxCounts):]
	}
	if c := m.cancelledBetween(s.last, set); c != nil {
		s.cancelled = c
	}
	s.last = set
	return true
}

// drop forgets a set that is not opted in: opting in again starts afresh.
func (m *memory) drop(key types.NamespacedName, set *appsv1.StatefulSet) {
	if s := m.sets[key]; s != nil && s.uid == set.UID && s.last != nil {
		m.optedOut[key] = s.last
	}
	delete(m.sets, key)
}

// cancelledBetween says whether the count rose over one that a prune was pending
// for, from one version of a set to the next. Without an earlier version, the stored
// window tells what was pending.
func (m *memory) cancelledBetween(last, set *appsv1.StatefulSet) *cancellation {
	replicas, _ := policy.Replicas(set)
	seen := last
	if seen == nil {
		seen = set
	}
	b := policy.ReadBookkeeping(seen.Annotations)
	if !b.Bound(seen) || b.Record.Start != policy.Start(set) {
		return nil
	}
	from := replicas
	if last != nil {
		from, _ = policy.Replicas(last)
	} else if b.Window != nil {
		from = b.Window.Target
	}
	keptAtZero := from == 0 && !policy.ReadControls(seen.Annotations, m.defaults).PruneAtZero
	if from >= *b.Prior || replicas <= from || keptAtZero {
		return nil
	}
	return &cancellation{from: from, to: replicas, prior: *b.Prior}
}

func hasOurKeys(set *appsv1.StatefulSet) bool {
	for k := range set.Annotations {
		if strings.HasPrefix(k, policy.Prefix) {
			return true
		}
	}
	return false
}

// seen returns what is to be accounted for.
func (m *memory) seen(set *appsv1.StatefulSet) policy.Seen {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[client.ObjectKeyFromObject(set)]
	if s == nil || s.uid != set.UID {
		return policy.Seen{First: true}
	}
	return policy.Seen{Counts: append([]policy.Count(nil), s.counts...), First: !s.looked, Known: s.known}
}

// accounted forgets the counts up to this version of the set; it is to be called
// only when the bookkeeping that covers them is stored.
func (m *memory) accounted(set *appsv1.StatefulSet) {
	m.change(set, func(s *sighting) {
		s.looked, s.known = true, max(s.known, set.Generation)
		rest := s.counts[:0]
		for _, c := range s.counts {
			if c.Generation > set.Generation {
				rest = append(rest, c)
			}
		}
		s.counts = rest
	})
}

// takeOptedOut returns the last version of a set before it was opted out, once; nil if it
// was not, or nothing was known of it.
func (m *memory) takeOptedOut(key types.NamespacedName) *appsv1.StatefulSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.optedOut[key]
	delete(m.optedOut, key)
	return last
}

// tire lets a set rest after a step that failed, twice as long as the last time. The queue
// alone would not do: what the step wrote to the set brings it back at once.
func (m *memory) tire(set *appsv1.StatefulSet, now time.Time) {
	m.change(set, func(s *sighting) {
		s.rest = min(max(2*s.rest, retryFirst), retryLast)
		s.restUntil = now.Add(s.rest)
	})
}

// refresh ends the rest of a set.
func (m *memory) refresh(set *appsv1.StatefulSet) {
	m.change(set, func(s *sighting) { s.rest, s.restUntil = 0, time.Time{} })
}

// resting is how long a set still rests.
func (m *memory) resting(set *appsv1.StatefulSet, now time.Time) (left time.Duration) {
	m.change(set, func(s *sighting) { left = s.restUntil.Sub(now) })
	return max(left, 0)
}

// takeCancelled returns a cancellation that was not reported yet.
func (m *memory) takeCancelled(set *appsv1.StatefulSet) (c *cancellation) {
	m.change(set, func(s *sighting) { c, s.cancelled = s.cancelled, nil })
	return c
}

// change runs f on what is known of this very object, if anything is.
func (m *memory) change(set *appsv1.StatefulSet, f func(*sighting)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.sets[client.ObjectKeyFromObject(set)]; s != nil && s.uid == set.UID {
		f(s)
	}
}

// forget drops a set and returns its last version, nil if it was unknown.
func (m *memory) forget(key types.NamespacedName) *appsv1.StatefulSet {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.sets[key]
	delete(m.sets, key)
	delete(m.optedOut, key)
	if s == nil {
		return nil
	}
	return s.last
}
