package policy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestOnCreate(t *testing.T) {
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want policy.Bookkeeping
	}{
		"an opted-in set starts with its own count, bound to nothing yet": {newSet(3, noUID), unbound(3)},
		"a restored or copied manifest arms nothing":                      {newSet(2, remembering(pending(5, 2, earlier, fenced, pruned))), unbound(2)},
		"a set created at zero":                                           {newSet(0), unbound(0)},
		"scope all makes no difference yet":                               {newSet(3, with(policy.KeyScope, "all")), unbound(3)},
		"a set that is not opted in gets none":                            {newSet(3, optedOut), policy.Bookkeeping{}},
		"nor does one whose manifest says what we wrote elsewhere":        {newSet(3, optedOut, remembering(pending(5, 3, earlier, fenced))), policy.Bookkeeping{}},
		"an odd opt-in is none":                                           {newSet(3, with(policy.KeyEnabled, "yes")), policy.Bookkeeping{}},
		"without a count there is nothing to remember":                    {newSet(3, noReplicas), policy.Bookkeeping{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policy.OnCreate(tt.set)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

type update struct {
	stored, updated *appsv1.StatefulSet
	want            policy.Bookkeeping
}

func (u update) check(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(u.want, policy.OnUpdate(u.stored, u.updated, defaults, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOnUpdateOptingIn(t *testing.T) {
	for name, tt := range map[string]update{
		"opting in arms nothing": {
			newSet(3, optedOut), newSet(3), idle(3),
		},
		"scaling down in the same request counts from the old count": {
			newSet(5, optedOut), newSet(3), pending(5, 3, thisSec, upTo(8)),
		},
		"scaling up in the same request counts from the new count": {
			newSet(3, optedOut), newSet(5), idle(5, upTo(8)),
		},
		"what was remembered before an opt-out is forgotten": {
			newSet(3, optedOut, remembering(pending(9, 3, earlier, pruned))), newSet(3), idle(3),
		},
		"a fence that still stands is kept": {
			newSet(3, optedOut, remembering(pending(9, 3, earlier, fenced))), newSet(3), idle(3, fenced),
		},
		"an odd opt-in was none": {
			newSet(3, with(policy.KeyEnabled, "TRUE"), remembering(pending(9, 3, earlier))), newSet(3), idle(3),
		},
		"with scope all, older orphans get a window": {
			newSet(3, optedOut), newSet(3, with(policy.KeyScope, "all")), pending(3, 3, thisSec),
		},
		"moving the range in the same request arms nothing": {
			newSet(5, optedOut), newSet(3, startingAt(2)), idle(3, from(2), upTo(8)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateWithoutValidRecord(t *testing.T) {
	elsewhere := pending(9, 3, earlier, ofObject("6a7b"))
	for name, tt := range map[string]update{
		"a record of another object arms nothing": {
			newSet(3, remembering(elsewhere)), newSet(3), idle(3),
		},
		"a record of another object counts for nothing in a scale-down": {
			newSet(5, remembering(elsewhere)), newSet(3), pending(5, 3, thisSec, upTo(8)),
		},
		"a record of another object counts for nothing in a scale-up": {
			newSet(3, remembering(elsewhere)), newSet(5), idle(5, upTo(8)),
		},
		"a count without a record is that of a manifest": {
			newSet(3, remembering(unbound(9))), newSet(2), pending(3, 2, thisSec, upTo(8)),
		},
		"a record without a count is void": {
			newSet(3, remembering(policy.Bookkeeping{Record: idle(3).Record})), newSet(2), pending(3, 2, thisSec, upTo(8)),
		},
		"a set that has none yet": {
			newSet(3), newSet(3), idle(3),
		},
		"with scope all, older orphans get a window": {
			newSet(3, with(policy.KeyScope, "all"), remembering(elsewhere)), newSet(3, with(policy.KeyScope, "all")), pending(3, 3, thisSec),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateScaling(t *testing.T) {
	for name, tt := range map[string]update{
		"a scale-down opens a window, at the generation that the registry will give": {
			newSet(5, remembering(idle(5))), newSet(3), pending(5, 3, thisSec, upTo(8)),
		},
		"a second scale-down keeps the highest count and starts the window again": {
			newSet(4, remembering(pending(5, 4, earlier))), newSet(2), pending(5, 2, thisSec, downSince(earlier), upTo(8)),
		},
		"a scale-down from a count that was not recorded": {
			newSet(7, remembering(idle(5))), newSet(3), pending(7, 3, thisSec, upTo(8)),
		},
		"a partial scale-up starts the window again for what is left": {
			newSet(2, remembering(pending(5, 2, earlier))), newSet(4), pending(5, 4, thisSec, downSince(earlier), upTo(8)),
		},
		"a scale-up to the prior count cancels": {
			newSet(2, remembering(pending(5, 2, earlier))), newSet(5), idle(5, upTo(8)),
		},
		"a scale-up above the prior count cancels and raises it": {
			newSet(2, remembering(pending(5, 2, earlier))), newSet(6), idle(6, upTo(8)),
		},
		"a scale-up while nothing is pending raises the prior count": {
			newSet(3, remembering(idle(3))), newSet(8), idle(8, upTo(8)),
		},
		"with scope all, a scale-up leaves a window for what is above": {
			newSet(2, with(policy.KeyScope, "all"), remembering(pending(5, 2, earlier))), newSet(5, with(policy.KeyScope, "all")),
			pending(5, 5, thisSec, downSince(earlier), upTo(8)),
		},
		"with scope all, a scale-up while nothing is pending opens none": {
			newSet(3, with(policy.KeyScope, "all"), remembering(idle(3))), newSet(5, with(policy.KeyScope, "all")), idle(5, upTo(8)),
		},
		"a range that does not begin at 0 is scaled like any other": {
			newSet(5, startingAt(100), remembering(idle(5, from(100)))), newSet(2, startingAt(100)),
			pending(5, 2, thisSec, from(100), upTo(8)),
		},
		"what is carried along stays": {
			newSet(5, remembering(idle(5, fenced, pruned))), newSet(3), pending(5, 3, thisSec, fenced, pruned, upTo(8)),
		},
		"a pause does not stop the record": {
			newSet(5, with(policy.KeyPaused, "true"), remembering(idle(5))), newSet(3, with(policy.KeyPaused, "true")),
			pending(5, 3, thisSec, upTo(8)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateAtZero(t *testing.T) {
	prune := with(policy.KeyScaleToZero, "prune")
	for name, tt := range map[string]update{
		"a scale to zero is recorded": {
			newSet(3, remembering(idle(3))), newSet(0), pending(3, 0, thisSec, upTo(8)),
		},
		"leaving zero, what was kept stays kept": {
			newSet(0, remembering(pending(3, 0, earlier))), newSet(1), idle(1, upTo(8)),
		},
		"leaving zero for the prior count cancels": {
			newSet(0, remembering(pending(3, 0, earlier))), newSet(3), idle(3, upTo(8)),
		},
		"leaving zero that was left already, unseen": {
			newSet(1, remembering(pending(3, 0, earlier))), newSet(2), idle(2, upTo(8)),
		},
		"leaving zero under prune, the rest goes": {
			newSet(0, prune, remembering(pending(3, 0, earlier))), newSet(1, prune), pending(3, 1, thisSec, downSince(earlier), upTo(8)),
		},
		"leaving zero and asking for prune in one request": {
			newSet(0, remembering(pending(3, 0, earlier))), newSet(1, prune), pending(3, 1, thisSec, downSince(earlier), upTo(8)),
		},
		"leaving zero and asking for keep in one request": {
			newSet(0, prune, remembering(pending(3, 0, earlier))), newSet(1), idle(1, upTo(8)),
		},
		"staying at zero changes nothing": {
			newSet(0, remembering(pending(3, 0, earlier))), newSet(0), pending(3, 0, earlier),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateMovingTheRange(t *testing.T) {
	for name, tt := range map[string]update{
		"a range moved up arms nothing": {
			newSet(3, remembering(idle(3))), newSet(3, startingAt(5)), idle(3, from(5), upTo(8)),
		},
		"a range moved down arms nothing": {
			newSet(3, startingAt(5), remembering(idle(3, from(5)))), newSet(3), idle(3, upTo(8)),
		},
		"a range moved while a prune is pending cancels it": {
			newSet(3, remembering(pending(5, 3, earlier))), newSet(3, startingAt(1)), idle(3, from(1), upTo(8)),
		},
		"a range moved and scaled down at once arms nothing": {
			newSet(6, remembering(idle(6))), newSet(3, startingAt(3)), idle(3, from(3), upTo(8)),
		},
		"a range moved with scope all arms nothing": {
			newSet(3, with(policy.KeyScope, "all"), remembering(pending(5, 3, earlier))), newSet(3, with(policy.KeyScope, "all"), startingAt(1)),
			idle(3, from(1), upTo(8)),
		},
		"a range whose move was not recorded arms nothing later": {
			newSet(3, startingAt(5), remembering(pending(5, 3, earlier))), newSet(2, startingAt(5)), idle(2, from(5), upTo(8)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateWidening(t *testing.T) {
	restarted, goesOn := pending(5, 3, thisSec, downSince(earlier)), pending(5, 3, earlier)
	for name, tt := range map[string]struct {
		before, after setOption
		want          policy.Bookkeeping
	}{
		"a shorter delay":           {with(), with(policy.KeyDelay, "1m"), restarted},
		"a longer delay":            {with(), with(policy.KeyDelay, "1h"), goesOn},
		"scope all":                 {with(), with(policy.KeyScope, "all"), restarted},
		"back from scope all":       {with(policy.KeyScope, "all"), with(), goesOn},
		"one more template":         {with(policy.KeyTemplates, "data"), with(policy.KeyTemplates, "data,wal"), restarted},
		"one template less":         {with(policy.KeyTemplates, "data,wal"), with(policy.KeyTemplates, "data"), goesOn},
		"a pause":                   {with(), with(policy.KeyPaused, "true"), goesOn},
		"a pause lifted":            {with(policy.KeyPaused, "true"), with(), restarted},
		"a dry run":                 {with(), with(policy.KeyDryRun, "true"), goesOn},
		"the dry run is over":       {with(policy.KeyDryRun, "true"), with(), restarted},
		"an odd value is corrected": {with(policy.KeyDelay, "soon"), with(), restarted},
		"prune at zero":             {with(), with(policy.KeyScaleToZero, "prune"), restarted},
		"no snapshot any more":      {with(policy.KeySnapshotClass, "fast"), with(), restarted},
		"nothing of ours":           {with("example.com/a", "b"), with("example.com/a", "c"), goesOn},
		"old volumes are forbidden": {with(), with(policy.KeyStaleVolumes, "forbid"), restarted},
		"old volumes are reused":    {with(policy.KeyStaleVolumes, "forbid"), with(), goesOn},
	} {
		t.Run(name, func(t *testing.T) {
			update{newSet(3, tt.before, remembering(pending(5, 3, earlier))), newSet(3, tt.after), tt.want}.check(t)
		})
	}
}

func TestOnUpdateWideningWhileNothingIsPending(t *testing.T) {
	all := with(policy.KeyScope, "all")
	for name, tt := range map[string]update{
		"a shorter delay opens no window": {
			newSet(3, remembering(idle(3))), newSet(3, with(policy.KeyDelay, "0s")), idle(3),
		},
		"scope all opens one for older orphans": {
			newSet(3, remembering(idle(3))), newSet(3, all), pending(3, 3, thisSec),
		},
		"a pause lifted under scope all opens one": {
			newSet(3, all, with(policy.KeyPaused, "true"), remembering(idle(3))), newSet(3, all), pending(3, 3, thisSec),
		},
		"scope all for a record that nobody wrote opens one": {
			newSet(3), newSet(3, all), pending(3, 3, thisSec),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateOptingOut(t *testing.T) {
	for name, tt := range map[string]update{
		"everything is forgotten": {
			newSet(3, remembering(pending(5, 3, earlier, pruned))), newSet(3, optedOut), policy.Bookkeeping{},
		},
		"a fence that still stands is the pruner's to remove": {
			newSet(3, remembering(pending(5, 3, earlier, fenced))), newSet(3, optedOut), policy.Bookkeeping{Fence: `{"from":3}`},
		},
		"an odd value opts out": {
			newSet(3, remembering(pending(5, 3, earlier))), newSet(3, with(policy.KeyEnabled, "True")), policy.Bookkeeping{},
		},
		"scaling down in the same request arms nothing": {
			newSet(5, remembering(idle(5))), newSet(3, optedOut), policy.Bookkeeping{},
		},
		"a set that stays out has none": {
			newSet(3, optedOut), newSet(2, optedOut), policy.Bookkeeping{},
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateOfSomethingElse(t *testing.T) {
	for name, tt := range map[string]update{
		"a rollout leaves a running window, for the pruner to account for": {
			newSet(3, remembering(pending(5, 3, earlier))), newSet(3), pending(5, 3, earlier),
		},
		"generations that passed unseen are left for the pruner to account for": {
			newSet(3, atGeneration(9), remembering(pending(5, 3, earlier))), newSet(3), pending(5, 3, earlier),
		},
		"a target that is no longer the count is not the window's": {
			newSet(4, atGeneration(8), remembering(pending(5, 3, earlier))), newSet(4), pending(5, 4, thisSec, downSince(earlier)),
		},
		"a count that is not there changes nothing": {
			newSet(3, remembering(pending(5, 3, earlier))), newSet(3, noReplicas), pending(5, 3, earlier),
		},
		"a stored count that is not there changes nothing": {
			newSet(3, noReplicas, remembering(pending(5, 3, earlier))), newSet(2), pending(5, 3, earlier),
		},
		"so are they where the count changes too": {
			newSet(4, atGeneration(9), remembering(idle(5))), newSet(3), pending(5, 3, thisSec),
		},
		"but what came before a moved range is of no interest": {
			newSet(4, atGeneration(9), remembering(idle(5))), newSet(3, startingAt(1)), idle(3, from(1), upTo(10)),
		},
		"nor what was kept at zero": {
			newSet(0, atGeneration(9), remembering(idle(5))), newSet(1), idle(1, upTo(10)),
		},
	} {
		t.Run(name, tt.check)
	}
}

func TestOnUpdateTakesNothingFromTheRequest(t *testing.T) {
	stored := newSet(5, remembering(idle(5, pruned)))
	for name, option := range map[string]setOption{
		"dropped":                    with(),
		"forged":                     remembering(pending(9, 3, earlier, fenced)),
		"forged for another object":  remembering(idle(3, ofObject("6a7b"))),
		"forged for a later version": remembering(pending(9, 3, earlier, upTo(8))),
		"turned into nonsense":       with(policy.KeyPriorReplicas, "many", policy.KeyRecord, "{", policy.KeyFence, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			update{stored, newSet(3, option), pending(5, 3, thisSec, pruned, upTo(8))}.check(t)
		})
	}
}
