package policy

import (
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Count is a replica count that was seen, at the generation at which it was seen.
type Count struct {
	Generation int64
	Start      int32
	Replicas   int32
	// At is when it was seen for the first time. Zero: nobody knows since when it was so,
	// as for what a process finds when it starts.
	At time.Time
}

// Seen is what one process saw of a StatefulSet.
type Seen struct {
	// Counts since it last accounted for one, oldest first; the object's own may be among
	// them or not.
	Counts []Count
	// First: it looks at the object for the first time since its own start.
	First bool
	// Known is the generation up to which it has accounted for every change; 0: none.
	Known int64
}

// OnCreate is the bookkeeping of a new StatefulSet, whatever its manifest says: a
// restored or copied one arms nothing. It is not bound yet, because an object has
// no UID before it is stored; the pruner binds it at first sight.
func OnCreate(set *appsv1.StatefulSet) Bookkeeping {
	replicas, ok := Replicas(set)
	if !OptedIn(set.Annotations) || !ok {
		return Bookkeeping{}
	}
	return Bookkeeping{Prior: &replicas}
}

// OnUpdate is the bookkeeping after a request turns stored into updated. It starts
// from what is stored: what the request carries in its place changes nothing.
func OnUpdate(stored, updated *appsv1.StatefulSet, defaults Controls, now time.Time) Bookkeeping {
	b := ReadBookkeeping(stored.Annotations)
	if !OptedIn(updated.Annotations) {
		return Bookkeeping{Fence: b.Fence} // a fence that still stands is the pruner's to remove
	}
	was := ReadControls(stored.Annotations, defaults)
	if !was.Enabled {
		b = Bookkeeping{Fence: b.Fence} // opting in starts afresh
	}
	from, okFrom := Replicas(stored)
	to, okTo := Replicas(updated)
	if !okFrom || !okTo {
		return b
	}
	s := step{
		uid: stored.UID, start: Start(updated), moved: Start(stored) != Start(updated),
		from: from, to: to,
		controls: ReadControls(updated.Annotations, defaults), defaults: conditions(updated, defaults), now: now, since: now,
	}
	s.generation = b.accountedUpTo(stored, s)
	s.widened = was.Enabled && s.controls.Widened(was)
	s.restart = s.widened || from != to || b.otherDefaults(s.defaults)
	return b.advance(s)
}

// accountedUpTo is the generation up to which the bookkeeping accounts for changes
// after a step of the stored object that admission sees.
func (b Bookkeeping) accountedUpTo(stored *appsv1.StatefulSet, s step) int64 {
	afresh := s.moved || s.from == 0 && s.leavesZero(b.Window) // what passed before does not matter
	switch {
	case b.Bound(stored) && b.Record.Generation != stored.Generation && !afresh:
		// What passed in between is in no annotation (a scale to zero and away from it,
		// say); the pruner, which saw it or knows that it did not, accounts for it.
		return b.Record.Generation
	case s.from != s.to || s.moved:
		return stored.Generation + 1 // the registry adds one for a changed spec, after admission
	}
	return stored.Generation
}

// Observe is the bookkeeping after the pruner has seen the stored object. This is how
// changes through the scale subresource, which carries no annotations, are accounted for.
// At a first look the pruner may have missed an up and down.
func Observe(set *appsv1.StatefulSet, seen Seen, defaults Controls, now time.Time) Bookkeeping {
	b := ReadBookkeeping(set.Annotations)
	if !OptedIn(set.Annotations) {
		return Bookkeeping{Fence: b.Fence}
	}
	if _, ok := Replicas(set); !ok {
		return b
	}
	stored := b
	counts, moved := b.unaccounted(set, seen.Counts)
	s := step{
		uid: set.UID, start: Start(set), generation: set.Generation,
		controls: ReadControls(set.Annotations, defaults), defaults: conditions(set, defaults), now: now, moved: moved,
		since: set.CreationTimestamp.Time,
		from:  counts[0].Replicas,
	}
	s.restart = b.missed(set, counts, seen.First) || b.otherDefaults(s.defaults)
	if b.mayHaveBeenZero(set, seen, defaults) {
		b = Bookkeeping{Fence: b.Fence, LastPrune: b.LastPrune}
		counts = counts[len(counts)-1:]
		s.from = counts[0].Replicas
	}
	for _, count := range counts {
		s.to = count.Replicas
		if count.At.After(s.since) {
			s.since = count.At
		}
		b = b.advance(s)
		s.from, s.moved = s.to, false
	}
	if !b.Pending() && b.sameButGeneration(stored) {
		return stored // a rollout of an idle set is none of our business
	}
	return b
}

// unaccounted are the counts seen since the recorded generation, for the range of
// ordinals that the set has now; the last is the object's own. Counts from before a
// move of the range say nothing on this one, be it that it moved away and back.
func (b Bookkeeping) unaccounted(set *appsv1.StatefulSet, seen []Count) (counts []Count, moved bool) {
	own := Count{Generation: set.Generation, Start: Start(set), Replicas: *set.Spec.Replicas}
	for _, c := range seen {
		switch {
		case c == Count{c.Generation, own.Start, own.Replicas, c.At} && c.Generation == own.Generation:
			own.At = c.At
		case c.Generation >= set.Generation, b.Bound(set) && c.Generation <= b.Record.Generation:
		case c.Start != Start(set):
			counts, moved = nil, true
		default:
			counts = append(counts, c)
		}
	}
	return append(counts, own), moved
}

// step is one change of a StatefulSet, as far as the bookkeeping is concerned.
type step struct {
	uid        types.UID
	start      int32
	moved      bool // spec.ordinals.start changes in this step
	from, to   int32
	generation int64
	controls   Controls
	defaults   string // the cluster-wide ones
	restart    bool   // a running undo window starts again
	widened    bool   // a control lets more go than before
	now        time.Time
	// since is the earliest moment at which the step may have happened.
	since time.Time
}

// advance is the one place where the rules of bookkeeping stand.
func (b Bookkeeping) advance(s step) Bookkeeping {
	bound := b.Prior != nil && b.Record != nil && b.Record.UID == s.uid
	prior, running := b.before(s, bound)
	all := s.controls.Scope == ScopeAll
	// With scope all, older orphans become candidates at opt-in, after a window of their own.
	adopts := all && (!bound || s.widened || running != nil)
	b.Window = nil
	if s.to < prior || adopts {
		b.Window = s.window(running)
	}
	prior = max(prior, s.to)
	b.Prior = &prior
	b.Record = &Record{UID: s.uid, Start: s.start, Generation: s.generation, ScaledDownAt: b.firstDown(s, running)}
	if b.Window != nil {
		b.Record.Defaults = s.defaults
	}
	return b
}

// firstDown is the earliest moment at which the first of the scale-downs that are pending
// may have happened, if that was before the window began.
func (b Bookkeeping) firstDown(s step, running *Window) string {
	if b.Window == nil {
		return ""
	}
	first := formatTime(s.since)
	if running != nil {
		first = formatTime(running.Since)
		if b.Record.ScaledDownAt != "" {
			first = b.Record.ScaledDownAt
		}
	}
	if first == formatTime(b.Window.Since) {
		return ""
	}
	return first
}

// before is the count that was accounted for before a step, and the window that is
// still running.
func (b Bookkeeping) before(s step, bound bool) (prior int32, running *Window) {
	switch {
	case s.moved, bound && b.Record.Start != s.start:
		return s.to, nil // never guess across a moved range
	case !bound:
		return s.from, nil
	case s.leavesZero(b.Window):
		return s.to, nil // what was kept at zero stays kept
	}
	return max(*b.Prior, s.from), b.Window
}

// leavesZero says whether the step leaves a count of zero, at which everything was
// kept: what was there before it does not matter any more.
func (s step) leavesZero(running *Window) bool {
	return !s.controls.PruneAtZero && s.to > 0 && (s.from == 0 || running != nil && running.Target == 0)
}

// window goes on for the same count and starts anew for another one.
func (s step) window(running *Window) *Window {
	if running != nil && running.Target == s.to && !s.restart {
		return running
	}
	return &Window{Target: s.to, Since: s.now.UTC().Truncate(time.Second)}
}

// conditions are what else a window runs for, in one line: the cluster-wide defaults, and
// whether Kubernetes itself deletes the claims.
func conditions(set *appsv1.StatefulSet, defaults Controls) string {
	text := defaults.DefaultsText()
	if BuiltInDeletes(set) {
		text = strings.TrimSpace(text + " whenScaled=Delete")
	}
	return text
}

// otherDefaults says whether the running window began under other conditions.
func (b Bookkeeping) otherDefaults(now string) bool {
	return b.Window != nil && b.Record != nil && b.Record.Defaults != now
}

// missed says whether changes may have happened that were not seen one by one, in
// which case the running window says nothing on how long the count has been what
// it is: at the first look after a start when the generation is another one, and
// later when it jumped by more than one between two looks.
func (b Bookkeeping) missed(set *appsv1.StatefulSet, counts []Count, first bool) bool {
	if b.Window == nil || !b.Bound(set) {
		return false
	}
	last := b.Record.Generation
	if first || last > set.Generation {
		return last != set.Generation
	}
	for _, c := range counts {
		if c.Generation > last+1 {
			return true
		}
		last = c.Generation
	}
	return false
}

// MayHaveBeenZero says whether the set may have passed through zero, where everything was
// kept, without anybody noticing: claims that were in use before must then stay. It is so
// when changes were not seen one by one and the count is now below what is accounted for.
func MayHaveBeenZero(set *appsv1.StatefulSet, seen Seen, defaults Controls) bool {
	return ReadBookkeeping(set.Annotations).mayHaveBeenZero(set, seen, defaults)
}

func (b Bookkeeping) mayHaveBeenZero(set *appsv1.StatefulSet, seen Seen, defaults Controls) bool {
	if ReadControls(set.Annotations, defaults).PruneAtZero || !b.Bound(set) || b.Record.Start != Start(set) {
		return false
	}
	inUse := *b.Prior
	if b.Window != nil {
		inUse = b.Window.Target // the rest was given up before
	}
	counts, moved := b.unaccounted(set, seen.Counts)
	if replicas, ok := Replicas(set); !ok || replicas >= inUse || moved {
		return false
	}
	last := max(b.Record.Generation, seen.Known)
	for _, c := range counts {
		if c.Generation > last+1 {
			return true
		}
		last = c.Generation
	}
	return false
}

func (b Bookkeeping) sameButGeneration(o Bookkeeping) bool {
	return b.Prior != nil && o.Prior != nil && *b.Prior == *o.Prior &&
		b.Record != nil && o.Record != nil && b.Record.UID == o.Record.UID && b.Record.Start == o.Record.Start &&
		(b.Window == nil) == (o.Window == nil)
}
