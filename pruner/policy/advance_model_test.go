package policy_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// world is one StatefulSet, everything that may happen to it, and what the pruner saw
// of that. Beside the bookkeeping it keeps the plain truth, to compare with.
type world struct {
	set    *appsv1.StatefulSet
	clock  time.Time
	seen   []policy.Count // what the pruner's memory holds
	looked bool           // since the pruner's start
	known  int64          // the generation accounted for, since then

	history []change  // of replicas, since the last thing that made everything final
	quietly time.Time // when replicas last changed or a control last let more go
	objects int
}

// change is one change of replicas.
type change struct {
	from, to, start int32
	recorded        bool // by admission; otherwise it came through the scale subresource
	accounted       bool // the pruner has looked since
	missed          bool // the pruner may not have seen it
}

// Whatever happens to a set, in whatever order and however much of it the pruner
// misses: no ordinal may go that was not really scaled down, and none before the
// count has stood still for the whole delay.
func TestNothingGoesThatWasNotScaledDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"":                     w.check,
			"scale":                func(t *rapid.T) { w.scale(*drawReplicas(t)) },
			"scale away and back":  w.scaleAwayAndBack,
			"update":               w.update,
			"move the range":       w.move,
			"roll out":             w.rollOut,
			"set a control":        w.control,
			"opt out":              w.optOut,
			"opt in":               w.optIn,
			"recreate":             w.recreate,
			"look":                 w.look,
			"restart the pruner":   w.restart,
			"merge watch events":   w.merge,
			"let time pass":        w.pass,
			"complete what is due": w.complete,
		})
	})
}

// The same with fewer things to happen, so that windows run for long.
func TestNothingGoesThatWasNotLeftAloneForTheDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"":                        w.check,
			"scale down for long":     w.scaleDownForLong,
			"scale away and back":     w.scaleAwayAndBack,
			"update":                  w.update,
			"roll out":                w.rollOut,
			"set a control":           w.control,
			"look":                    w.look,
			"look after a restart":    func(t *rapid.T) { w.restart(t); w.look(t) },
			"look after merged watch": func(t *rapid.T) { w.merge(t); w.look(t) },
			"let time pass":           w.pass,
		})
	})
}

func newWorld(t *rapid.T) *world {
	w := &world{clock: now}
	w.create(*drawReplicas(t), nil)
	return w
}

func (w *world) check(t *rapid.T) {
	w.set.Status.ObservedGeneration = w.set.Generation
	plan := policy.NewPlan(w.set, defaults)
	if plan.SetGates(w.set.UID, w.clock.AddDate(100, 0, 0)) != nil {
		return
	}
	went := scaledDown(w.history)
	from, to := plan.Range()
	for ordinal := from; ordinal < to; ordinal++ {
		if !went[ordinal] {
			t.Fatalf("ordinal %d may go, but was not scaled down: %v\n%+v", ordinal, w.set.Annotations, w.history)
		}
	}
	if plan.SetGates(w.set.UID, w.clock) != nil {
		return
	}
	// A window begins at the second in which the change was made.
	if still := w.clock.Sub(w.quietly); still <= plan.Controls.Delay-time.Second {
		t.Fatalf("the window of %v is over after %v: %v", plan.Controls.Delay, still, w.set.Annotations)
	}
}

// scaledDown are the ordinals that went in the last change that concerned them. What
// was kept at zero stays kept when zero is left, if anybody saw it.
func scaledDown(history []change) map[int64]bool {
	went := map[int64]bool{}
	for _, c := range history {
		if c.from == 0 && c.to > 0 && (c.recorded || !c.missed) {
			clear(went)
		}
		for n := range max(c.from, c.to) {
			if n >= min(c.from, c.to) {
				went[int64(c.start+n)] = c.to < c.from
			}
		}
	}
	return went
}

func (w *world) create(replicas int32, manifest map[string]string) {
	w.objects++
	w.set = newSet(replicas, atGeneration(1))
	w.set.UID = types.UID(fmt.Sprint("object-", w.objects))
	maps.Copy(w.set.Annotations, manifest)
	w.store(policy.OnCreate(w.set))
	w.seen, w.looked, w.known, w.history, w.quietly = nil, false, 0, nil, w.clock
	w.note()
}

// note is what the pruner's memory does with each version of an opted-in set.
func (w *world) note() {
	if !policy.OptedIn(w.set.Annotations) {
		w.seen, w.looked, w.known = nil, false, 0
		return
	}
	if n := len(w.seen); n == 0 || w.seen[n-1].Generation < w.set.Generation {
		w.seen = append(w.seen, policy.Count{Generation: w.set.Generation, Start: policy.Start(w.set), Replicas: *w.set.Spec.Replicas})
	}
}

func (w *world) store(b policy.Bookkeeping) {
	annotations, err := b.Annotations()
	if err != nil {
		panic(err)
	}
	for _, key := range policy.BookkeepingKeys() {
		delete(w.set.Annotations, key)
	}
	maps.Copy(w.set.Annotations, annotations)
}

// admit is a request for the set itself, which admission sees.
func (w *world) admit(edit func(*appsv1.StatefulSet)) {
	stored, updated := w.set, w.set.DeepCopy()
	edit(updated)
	b := policy.OnUpdate(stored, updated, defaults, w.clock)
	if *stored.Spec.Replicas != *updated.Spec.Replicas || policy.Start(stored) != policy.Start(updated) {
		updated.Generation++
	}
	w.set = updated
	w.store(b)
	w.note()
}

func (w *world) changed(from int32, recorded bool) {
	if to := *w.set.Spec.Replicas; from != to {
		w.history = append(w.history, change{from: from, to: to, start: policy.Start(w.set), recorded: recorded})
		w.quietly = w.clock
	}
}

func drawReplicas(t *rapid.T) *int32 {
	n := rapid.Int32Range(0, 4).Draw(t, "replicas")
	return &n
}

func (w *world) pass(t *rapid.T) {
	w.clock = w.clock.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 5 * time.Minute, time.Hour}).Draw(t, "time"))
}

func (w *world) scale(to int32) {
	was := *w.set.Spec.Replicas
	w.set = w.set.DeepCopy()
	w.set.Spec.Replicas = &to
	if was != to {
		w.set.Generation++
	}
	w.changed(was, false)
	w.note()
}

func (w *world) rollOut(*rapid.T) {
	w.set = w.set.DeepCopy()
	w.set.Generation++
	w.note()
}

func (w *world) scaleAwayAndBack(t *rapid.T) {
	was := *w.set.Spec.Replicas
	w.scale(*drawReplicas(t))
	w.scale(was)
}

// scaleDownForLong is the ordinary case, in which the window runs for a while.
func (w *world) scaleDownForLong(t *rapid.T) {
	w.scale(max(0, *w.set.Spec.Replicas-1))
	w.look(t)
	w.clock = w.clock.Add(8 * time.Minute)
}

func (w *world) update(t *rapid.T) {
	was, to := *w.set.Spec.Replicas, drawReplicas(t)
	w.admit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = to })
	w.changed(was, true)
}

func (w *world) move(t *rapid.T) {
	was, start := policy.Start(w.set), int32(rapid.IntRange(0, 2).Draw(t, "start"))
	w.admit(startingAt(start))
	if was != start {
		w.history, w.quietly = nil, w.clock
	}
}

func (w *world) control(t *rapid.T) {
	before := policy.ReadControls(w.set.Annotations, defaults)
	w.admit(with(
		policy.KeyDelay, rapid.SampledFrom([]string{"0s", "5m", "10m"}).Draw(t, "delay"),
		policy.KeyPaused, rapid.SampledFrom([]string{"false", "false", "true"}).Draw(t, "paused"),
	))
	if policy.ReadControls(w.set.Annotations, defaults).Widened(before) {
		w.quietly = w.clock
	}
}

func (w *world) optOut(*rapid.T) { w.admit(optedOut); w.history = nil }

// optIn may change the count in the same request.
func (w *world) optIn(t *rapid.T) {
	if policy.OptedIn(w.set.Annotations) {
		t.Skip("opted in already")
	}
	was, to := *w.set.Spec.Replicas, drawReplicas(t)
	w.admit(func(s *appsv1.StatefulSet) { s.Annotations[policy.KeyEnabled], s.Spec.Replicas = "true", to })
	w.history = nil
	w.changed(was, true)
}

func (w *world) recreate(t *rapid.T) { w.create(*drawReplicas(t), w.set.Annotations) }

func (w *world) look(*rapid.T) {
	w.store(policy.Observe(w.set, policy.Seen{Counts: w.seen, First: !w.looked, Known: w.known}, defaults, w.clock))
	w.seen = slices.DeleteFunc(w.seen, func(c policy.Count) bool { return c.Generation <= w.set.Generation })
	w.looked, w.known = policy.OptedIn(w.set.Annotations), w.set.Generation
	for i := range w.history {
		w.history[i].accounted = true
	}
}

func (w *world) missed() {
	for i := range w.history {
		w.history[i].missed = w.history[i].missed || !w.history[i].accounted
	}
}

func (w *world) restart(*rapid.T) {
	w.seen, w.looked, w.known = nil, false, 0
	w.note()
	w.missed()
}

// merge loses the versions before the last one.
func (w *world) merge(*rapid.T) {
	w.seen = slices.Clone(w.seen[max(0, len(w.seen)-1):])
	w.missed()
}

func (w *world) complete(t *rapid.T) {
	plan := policy.NewPlan(w.set, defaults)
	if plan.SetGates(w.set.UID, w.clock) != nil {
		t.Skip("nothing is due")
	}
	b, err := plan.Bookkeeping.Completed(*w.set.Spec.Replicas, policy.Summary{})
	if err != nil {
		t.Fatal(err)
	}
	w.store(b)
	w.history = nil
}

// Bookkeeping that a request carries never matters.
func TestOnUpdateIsBlindToTheBookkeepingOfTheRequest(t *testing.T) {
	value := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "0", "9", recordText, "2026-03-01T11:57:00Z", `{"uid":"5f3c","generation":8}`}))
	rapid.Check(t, func(t *rapid.T) {
		stored := newSet(*drawReplicas(t), startingAt(rapid.Int32Range(0, 1).Draw(t, "start")), drawControls(t))
		if rapid.Bool().Draw(t, "stored bookkeeping") {
			remembering(pending(rapid.Int32Range(0, 9).Draw(t, "prior"), *drawReplicas(t), earlier, fenced, pruned))(stored)
		}
		updated := newSet(*drawReplicas(t), startingAt(rapid.Int32Range(0, 1).Draw(t, "new start")), drawControls(t))
		want := policy.OnUpdate(stored, updated, defaults, now)

		forged := updated.DeepCopy()
		maps.Copy(forged.Annotations, rapid.MapOf(rapid.SampledFrom(policy.BookkeepingKeys()), value).Draw(t, "forged"))
		if diff := cmp.Diff(want, policy.OnUpdate(stored, forged, defaults, now)); diff != "" {
			t.Fatalf("with %v (-without +with):\n%s", forged.Annotations, diff)
		}
	})
}

func drawControls(t *rapid.T) setOption {
	return with(
		policy.KeyEnabled, rapid.SampledFrom([]string{"true", "true", "false", "odd"}).Draw(t, "enabled"),
		policy.KeyScope, rapid.SampledFrom([]string{"scaled-down", "all", "odd"}).Draw(t, "scope"),
		policy.KeyScaleToZero, rapid.SampledFrom([]string{"keep", "prune"}).Draw(t, "scale-to-zero"),
		policy.KeyDelay, rapid.SampledFrom([]string{"0s", "1h", "odd"}).Draw(t, "delay"),
	)
}
