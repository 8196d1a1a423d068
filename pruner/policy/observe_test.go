package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

type look struct {
	set   *appsv1.StatefulSet
	seen  []policy.Count
	first bool
	want  policy.Bookkeeping
}

func (l look) check(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(l.want, policy.Observe(l.set, policy.Seen{Counts: l.seen, First: l.first}, defaults, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const first, again = true, false

func made(when time.Time) setOption {
	return func(s *appsv1.StatefulSet) { s.CreationTimestamp = metav1.NewTime(when) }
}

// counted are replica counts, seen at one generation after the other.
func counted(generation int64, replicas ...int32) []policy.Count {
	var counts []policy.Count
	for i, n := range replicas {
		counts = append(counts, policy.Count{Generation: generation + int64(i), Replicas: n, At: now})
	}
	return counts
}

func TestObserveAtFirstSight(t *testing.T) {
	all := with(policy.KeyScope, "all")
	for name, tt := range map[string]look{
		"binds what a new object was given":                        {newSet(3, remembering(unbound(3))), nil, first, idle(3)},
		"an object that admission did not see arms nothing":        {newSet(3), nil, first, idle(3)},
		"a record of another object arms nothing":                  {newSet(2, remembering(pending(5, 2, earlier, ofObject("6a7b")))), nil, first, idle(2)},
		"a count without a record arms nothing":                    {newSet(2, remembering(unbound(5))), nil, first, idle(2)},
		"a record without a count arms nothing":                    {newSet(2, remembering(policy.Bookkeeping{Record: idle(2).Record})), nil, first, idle(2)},
		"a scale-down seen since the opt-in is accounted for":      {newSet(3, remembering(unbound(5))), counted(6, 5, 3), first, pending(5, 3, thisSec)},
		"a scale-up seen since the opt-in is accounted for":        {newSet(5, remembering(unbound(3))), counted(6, 3, 5), first, idle(5)},
		"scope all gives older orphans a window":                   {newSet(3, all), nil, first, pending(3, 3, thisSec, downSince(time.Time{}))},
		"scope all with a record that holds gives none":            {newSet(3, all, remembering(idle(3))), nil, first, idle(3)},
		"without a count what is stored stays":                     {newSet(3, noReplicas, remembering(pending(5, 3, earlier))), nil, first, pending(5, 3, earlier)},
		"a fence and the last summary are carried along":           {newSet(3, remembering(policy.Bookkeeping{Fence: `{"from":3}`, LastPrune: `{"claims":2}`})), nil, first, idle(3, fenced, pruned)},
		"the next look at what the first one stored has no effect": {newSet(3, remembering(idle(3))), nil, again, idle(3)},
	} {
		t.Run(name, tt.check)
	}
}

// A rollout of an idle set is not written down, and yet no gap for who saw it.
func TestObserveAfterRolloutsOfAnIdleSet(t *testing.T) {
	set := newSet(2, atGeneration(12), remembering(idle(3)))
	seen := policy.Seen{Counts: []policy.Count{{Generation: 12, Replicas: 2, At: now}}, Known: 11}
	if policy.MayHaveBeenZero(set, seen, defaults) {
		t.Error("nothing was missed")
	}
	if diff := cmp.Diff(pending(3, 2, thisSec, upTo(12)), policy.Observe(set, seen, defaults, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	seen.Known = 0 // another process
	if !policy.MayHaveBeenZero(set, seen, defaults) {
		t.Error("it may have been zero")
	}
}

func TestObserveScaling(t *testing.T) {
	for name, tt := range map[string]look{
		"a scale-down that was noticed late may be as old as the set": {
			newSet(3, atGeneration(8), remembering(idle(5)), made(earlier)), nil, first, pending(5, 3, thisSec, upTo(8), downSince(earlier)),
		},
		"one that could not be stored for a while is as old as it was seen": {
			newSet(3, atGeneration(8), remembering(idle(5)), made(earlier)),
			[]policy.Count{{Generation: 8, Replicas: 3, At: earlier.Add(time.Minute)}},
			again,
			pending(5, 3, thisSec, upTo(8), downSince(earlier.Add(time.Minute))),
		},
		"of two unseen changes one may have been to zero, where everything is kept": {
			newSet(1, atGeneration(9), remembering(idle(3))), nil, first, idle(1, upTo(9)),
		},
		"also when some of them were seen": {
			newSet(1, atGeneration(300), remembering(idle(3))), counted(299, 2, 1), again, idle(1, upTo(300)),
		},
		"also when a window is running, for what it does not cover": {
			newSet(1, atGeneration(9), remembering(pending(5, 3, earlier))), nil, first, idle(1, upTo(9)),
		},
		"what the window covers was given up before": {
			newSet(3, atGeneration(9), remembering(pending(5, 3, earlier))), nil, first, pending(5, 3, thisSec, upTo(9), downSince(earlier)),
		},
		"where nothing is kept at zero it does not matter": {
			newSet(1, with(policy.KeyScaleToZero, "prune"), atGeneration(9), remembering(idle(3)), made(earlier)), nil, first, pending(3, 1, thisSec, upTo(9), downSince(earlier)),
		},
		"a scale-down through the subresource opens a window": {
			newSet(3, atGeneration(8), remembering(idle(5))), counted(8, 3), again, pending(5, 3, thisSec, upTo(8)),
		},
		"a scale-up through the subresource raises the prior count": {
			newSet(8, atGeneration(8), remembering(idle(5))), counted(8, 8), again, idle(8, upTo(8)),
		},
		"a partial scale-up starts the window again": {
			newSet(4, atGeneration(8), remembering(pending(5, 3, earlier))), counted(8, 4), again, pending(5, 4, thisSec, downSince(earlier), upTo(8)),
		},
		"a scale-up to the prior count cancels": {
			newSet(5, atGeneration(8), remembering(pending(5, 3, earlier))), counted(8, 5), again, idle(5, upTo(8)),
		},
		"up and down again between two looks starts the window again": {
			newSet(3, atGeneration(9), remembering(pending(5, 3, earlier))), counted(8, 5, 3), again, pending(5, 3, thisSec, upTo(9)),
		},
		"up, far up and down again between two looks counts from the highest": {
			newSet(3, atGeneration(10), remembering(idle(5))), counted(8, 7, 9, 3), again, pending(9, 3, thisSec, upTo(10)),
		},
		"the counts need not hold the object's own": {
			newSet(3, atGeneration(9), remembering(idle(5))), counted(8, 7), again, pending(7, 3, thisSec, upTo(9)),
		},
		"counts that the record covers say nothing new": {
			newSet(3, atGeneration(8), remembering(idle(3))), counted(6, 9, 9, 3), again, idle(3),
		},
		"counts from after the object are for a later look": {
			newSet(3, atGeneration(8), remembering(pending(5, 3, earlier))), counted(9, 9), again, pending(5, 3, earlier, upTo(8)),
		},
		"a window that is running goes on": {
			newSet(3, remembering(pending(5, 3, earlier))), counted(7, 3), again, pending(5, 3, earlier),
		},
		"with scope all, a running window is never taken for an idle set": {
			newSet(5, atGeneration(8), with(policy.KeyScope, "all"), remembering(pending(5, 5, earlier))), counted(8, 5), again, pending(5, 5, earlier, upTo(8)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestObserveRollouts(t *testing.T) {
	for name, tt := range map[string]look{
		"a rollout of an idle set is not written down": {
			newSet(3, atGeneration(9), remembering(idle(3))), nil, again, idle(3),
		},
		"nor at first sight": {
			newSet(3, atGeneration(9), remembering(idle(3))), nil, first, idle(3),
		},
		"a rollout in a window lets it go on, and is written down": {
			newSet(3, atGeneration(8), remembering(pending(5, 3, earlier))), counted(8, 3), again, pending(5, 3, earlier, upTo(8)),
		},
		"two rollouts seen one by one let it go on": {
			newSet(3, atGeneration(9), remembering(pending(5, 3, earlier))), counted(8, 3, 3), again, pending(5, 3, earlier, upTo(9)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestObserveWhatMayHaveBeenMissed(t *testing.T) {
	for name, tt := range map[string]look{
		"after a start, another generation restarts the window": {
			newSet(3, atGeneration(8), remembering(pending(5, 3, earlier))), counted(8, 3), first, pending(5, 3, thisSec, downSince(earlier), upTo(8)),
		},
		"after a start, the same generation lets it go on": {
			newSet(3, remembering(pending(5, 3, earlier))), counted(7, 3), first, pending(5, 3, earlier),
		},
		"up and down while away restarts the window": {
			newSet(3, atGeneration(9), remembering(pending(5, 3, earlier))), counted(9, 3), first, pending(5, 3, thisSec, downSince(earlier), upTo(9)),
		},
		"a generation that jumped by two restarts the window": {
			newSet(3, atGeneration(9), remembering(pending(5, 3, earlier))), counted(9, 3), again, pending(5, 3, thisSec, downSince(earlier), upTo(9)),
		},
		"a generation that jumped before what was seen restarts the window": {
			newSet(3, atGeneration(10), remembering(pending(5, 3, earlier))), counted(9, 3, 3), again, pending(5, 3, thisSec, downSince(earlier), upTo(10)),
		},
		"a generation that jumped after what was seen restarts the window": {
			newSet(3, atGeneration(10), remembering(pending(5, 3, earlier))), counted(8, 3), again, pending(5, 3, thisSec, downSince(earlier), upTo(10)),
		},
		"a generation that went back restarts the window": {
			newSet(3, atGeneration(6), remembering(pending(5, 3, earlier))), counted(6, 3), again, pending(5, 3, thisSec, downSince(earlier), upTo(6)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestObserveAtZero(t *testing.T) {
	prune := with(policy.KeyScaleToZero, "prune")
	for name, tt := range map[string]look{
		"a scale to zero is recorded": {
			newSet(0, atGeneration(8), remembering(idle(3))), counted(8, 0), again, pending(3, 0, thisSec, upTo(8)),
		},
		"leaving zero, what was kept stays kept": {
			newSet(1, atGeneration(9), remembering(pending(3, 0, earlier, upTo(8)))), counted(9, 1), again, idle(1, upTo(9)),
		},
		"to zero and away from it between two looks": {
			newSet(1, atGeneration(9), remembering(idle(3))), counted(8, 0, 1), again, idle(1, upTo(9)),
		},
		"to zero, away and up again between two looks": {
			newSet(3, atGeneration(10), remembering(idle(3))), counted(8, 0, 1, 3), again, idle(3),
		},
		"to zero, away, up and down between two looks counts from what came after zero": {
			newSet(1, atGeneration(11), remembering(idle(3))), counted(8, 0, 1, 2, 1), again, pending(2, 1, thisSec, upTo(11)),
		},
		"under prune the rest goes": {
			newSet(1, atGeneration(9), prune, remembering(idle(3))), counted(8, 0, 1), again, pending(3, 1, thisSec, upTo(9)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestObserveMovedRange(t *testing.T) {
	at := func(start int32, counts []policy.Count) []policy.Count {
		for i := range counts {
			counts[i].Start = start
		}
		return counts
	}
	for name, tt := range map[string]look{
		"a range that moved unrecorded arms nothing": {
			newSet(3, atGeneration(8), startingAt(5), remembering(pending(5, 3, earlier))), nil, again, idle(3, from(5), upTo(8)),
		},
		"counts from before the move say nothing": {
			newSet(3, atGeneration(9), startingAt(5), remembering(idle(3))), counted(8, 9), again, idle(3, from(5), upTo(9)),
		},
		"counts from after the move do": {
			newSet(3, atGeneration(10), startingAt(5), remembering(idle(3))), append(counted(8, 9), at(5, counted(9, 6))...), again,
			pending(6, 3, thisSec, from(5), upTo(10)),
		},
		"a range that moved away and back between two looks arms nothing": {
			newSet(3, atGeneration(9), remembering(idle(5))), at(5, counted(8, 3)), again, idle(3, upTo(9)),
		},
		"nor does it with counts from before": {
			newSet(3, atGeneration(10), remembering(pending(5, 3, earlier))), append(counted(8, 5), at(5, counted(9, 3))...), again, idle(3, upTo(10)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestObserveOptedOut(t *testing.T) {
	for name, tt := range map[string]look{
		"nothing is remembered": {
			newSet(3, optedOut, remembering(pending(5, 3, earlier, pruned))), counted(8, 5, 3), again, policy.Bookkeeping{},
		},
		"a fence that still stands is kept": {
			newSet(3, optedOut, remembering(pending(5, 3, earlier, fenced))), nil, first, policy.Bookkeeping{Fence: `{"from":3}`},
		},
		"an odd opt-in is none": {
			newSet(3, with(policy.KeyEnabled, "yes"), remembering(pending(5, 3, earlier))), nil, again, policy.Bookkeeping{},
		},
	} {
		t.Run(name, tt.check)
	}
}
