package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func TestRange(t *testing.T) {
	type ordinals struct{ From, To int64 }
	all := with(policy.KeyScope, "all")
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want ordinals
	}{
		"the ordinals that were scaled down":                   {newSet(3, remembering(pending(5, 3, earlier))), ordinals{3, 5}},
		"counted from the start":                               {newSet(3, startingAt(100), remembering(pending(5, 3, earlier, from(100)))), ordinals{103, 105}},
		"all of them at zero":                                  {newSet(0, remembering(pending(3, 0, earlier))), ordinals{0, 3}},
		"none while nothing was scaled down":                   {newSet(3, remembering(idle(3))), ordinals{3, 3}},
		"none where the count is above what was accounted for": {newSet(5, remembering(idle(3))), ordinals{5, 3}},
		"none without a count":                                 {newSet(3, noReplicas, remembering(pending(5, 3, earlier))), ordinals{0, 0}},
		"none without bookkeeping":                             {newSet(3), ordinals{0, 0}},
		"with scope all, every ordinal above":                  {newSet(3, startingAt(2), all, remembering(pending(5, 3, earlier))), ordinals{5, -1}},
		"with scope all, none without bookkeeping":             {newSet(3, all), ordinals{0, 0}},
		"with an odd scope, those that were scaled down":       {newSet(3, with(policy.KeyScope, "everything"), remembering(pending(5, 3, earlier))), ordinals{3, 5}},
		"beyond 32 bits": {
			newSet(math.MaxInt32-1, startingAt(math.MaxInt32), remembering(pending(math.MaxInt32, math.MaxInt32-1, earlier))),
			ordinals{2*math.MaxInt32 - 1, 2 * math.MaxInt32},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var got ordinals
			got.From, got.To = policy.NewPlan(tt.set, defaults).Range()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlannedClaimNamesAreThoseOfTheTemplatesThatMayBePruned(t *testing.T) {
	type result struct {
		Names []string
		Total int64
	}
	for name, tt := range map[string]struct {
		option setOption
		want   result
	}{
		"all templates":         {with(), result{[]string{"data-db-3", "wal-db-3", "data-db-4", "wal-db-4"}, 4}},
		"one of the templates":  {with(policy.KeyTemplates, "wal"), result{[]string{"wal-db-3", "wal-db-4"}, 2}},
		"none of the templates": {with(policy.KeyTemplates, "logs"), result{nil, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(3, tt.option)
			set.Spec.VolumeClaimTemplates = templates("data", "wal")
			var got result
			got.Names, got.Total = policy.NewPlan(set, defaults).ClaimNames(3, 5, 10)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(templates("data", "wal"), set.Spec.VolumeClaimTemplates); diff != "" {
				t.Errorf("the set was changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDue(t *testing.T) {
	type result struct {
		Due time.Time
		OK  bool
	}
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want result
	}{
		"after the default delay":                  {newSet(3, remembering(pending(5, 3, earlier))), result{earlier.Add(10 * time.Minute), true}},
		"after the set's own delay":                {newSet(3, with(policy.KeyDelay, "7d"), remembering(pending(5, 3, earlier))), result{earlier.Add(168 * time.Hour), true}},
		"at once where there is no delay":          {newSet(3, with(policy.KeyDelay, "0s"), remembering(pending(5, 3, earlier))), result{earlier, true}},
		"at once where old volumes are in the way": {newSet(3, with(policy.KeyStaleVolumes, "forbid", policy.KeyDelay, "7d"), remembering(pending(5, 3, earlier))), result{earlier, true}},
		"never while nothing is pending":           {newSet(3, remembering(idle(3))), result{}},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			got.Due, got.OK = policy.NewPlan(tt.set, defaults).Due()
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func beingDeleted(set *appsv1.StatefulSet) { set.DeletionTimestamp = &metav1.Time{Time: earlier} }

func replicas(n int32) setOption { return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n } }

func TestSetGates(t *testing.T) {
	wait := func(reason policy.Reason, message string) *policy.Hold {
		return &policy.Hold{Decision: policy.Wait, Reason: reason, Message: message}
	}
	keep := func(reason policy.Reason, message string) *policy.Hold {
		return &policy.Hold{Decision: policy.Keep, Reason: reason, Message: message}
	}
	recordBehind := wait(policy.ReasonRecordBehind, "the change of replicas is not accounted for yet")
	scaledToZero := keep(policy.ReasonScaledToZero, `scaled to zero; all claims are kept while pvc-pruner.io/scale-to-zero is "keep"`)
	notOptedIn := keep(policy.ReasonNotOptedIn, "not opted in")
	for name, tt := range map[string]struct {
		options []setOption
		want    *policy.Hold
	}{
		"nothing holds a set whose window is over":    {nil, nil},
		"nor one in dry run, which is judged as well": {[]setOption{with(policy.KeyDryRun, "true")}, nil},
		"a set that is being deleted":                 {[]setOption{beingDeleted}, keep(policy.ReasonDeleting, "the StatefulSet is being deleted; its claims stay")},
		"a set that is not opted in":                  {[]setOption{optedOut}, notOptedIn},
		"a set that is opted out":                     {[]setOption{with(policy.KeyEnabled, "false")}, notOptedIn},
		"a control that cannot be read": {
			[]setOption{with(policy.KeyScope, "none")},
			keep(policy.ReasonInvalidAnnotation, `pvc-pruner.io/scope: "none" is not accepted; `+acceptedScope),
		},
		"two controls that cannot be read": {
			[]setOption{with(policy.KeyScope, "none", policy.KeyPaused, "no")},
			keep(policy.ReasonInvalidAnnotation, `pvc-pruner.io/paused: "no" is not accepted; `+acceptedOnOff+`; pvc-pruner.io/scope: "none" is not accepted; `+acceptedScope),
		},
		"nothing is pending":           {[]setOption{with(policy.KeyScaledDownAt, "")}, keep(policy.ReasonNothingPending, "no scale-down is pending")},
		"a pause":                      {[]setOption{with(policy.KeyPaused, "true")}, keep(policy.ReasonPaused, `paused; nothing is deleted while pvc-pruner.io/paused is "true"`)},
		"a pause lifted":               {[]setOption{with(policy.KeyPaused, "false")}, nil},
		"scaled to zero":               {[]setOption{replicas(0), remembering(pending(5, 0, earlier))}, scaledToZero},
		"scaled to zero to prune":      {[]setOption{replicas(0), remembering(pending(5, 0, earlier)), with(policy.KeyScaleToZero, "prune")}, nil},
		"no count at all":              {[]setOption{noReplicas}, scaledToZero},
		"no count, and to prune":       {[]setOption{noReplicas, with(policy.KeyScaleToZero, "prune")}, recordBehind},
		"a record of an older version": {[]setOption{atGeneration(generation + 1)}, recordBehind},
		"a record of a later version":  {[]setOption{atGeneration(generation - 1)}, recordBehind},
		"a record of another object":   {[]setOption{remembering(pending(5, 3, earlier, ofObject("6a7b")))}, recordBehind},
		"a record of another range":    {[]setOption{startingAt(1)}, recordBehind},
		"a record that cannot be read": {[]setOption{with(policy.KeyRecord, "{")}, recordBehind},
		"no prior count":               {[]setOption{with(policy.KeyPriorReplicas, "x")}, recordBehind},
		"a window for another count":   {[]setOption{remembering(pending(5, 2, earlier))}, recordBehind},
		"a snapshot asked for": {
			[]setOption{with(policy.KeySnapshotClass, "fast")},
			keep(policy.ReasonSnapshotsOff, "a VolumeSnapshot is asked for by pvc-pruner.io/snapshot-class, and pvc-pruner may not take any: it runs without --snapshots"),
		},
		"a window that runs": {[]setOption{with(policy.KeyDelay, "10m")}, &policy.Hold{
			Decision: policy.Wait, Reason: policy.ReasonUndoWindow, Message: "the undo window ends at 2026-03-01T12:07:00Z", Until: earlier.Add(10 * time.Minute),
		}},
		"a window that runs, with old volumes in the way": {[]setOption{with(policy.KeyDelay, "10m", policy.KeyStaleVolumes, "forbid")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ready(t, tt.options...).SetGates(ownUID, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetGateOfAnotherObject(t *testing.T) {
	want := &policy.Hold{Decision: policy.Keep, Reason: policy.ReasonReplaced, Message: "another StatefulSet has this name now"}
	for _, uid := range []types.UID{"", "6a7b"} {
		if diff := cmp.Diff(want, ready(t).SetGates(uid, now)); diff != "" {
			t.Errorf("asked for %q (-want +got):\n%s", uid, diff)
		}
	}
}

func TestSetGateOfAStatusThatIsBehind(t *testing.T) {
	want := &policy.Hold{
		Decision: policy.Wait, Reason: policy.ReasonStatusBehind,
		Message: "the StatefulSet controller has not observed the change of replicas yet",
	}
	for observed, want := range map[int64]*policy.Hold{0: want, generation - 1: want, generation: nil, generation + 1: nil} {
		plan := ready(t)
		plan.Set.Status.ObservedGeneration = observed
		if diff := cmp.Diff(want, plan.SetGates(ownUID, now)); diff != "" {
			t.Errorf("observed %d of %d (-want +got):\n%s", observed, generation, diff)
		}
	}
}

func TestWindowIsOverAtItsEnd(t *testing.T) {
	plan := ready(t)
	end := earlier.Add(time.Minute)
	if hold := plan.SetGates(ownUID, end.Add(-1)); hold == nil || !hold.Until.Equal(end) {
		t.Errorf("a nanosecond before its end: %+v", hold)
	}
	if hold := plan.SetGates(ownUID, end); hold != nil {
		t.Errorf("at its end: %+v", hold)
	}
}

// What is final is said before what passes, or it would look like waiting.
func TestSetGatesInOrder(t *testing.T) {
	set := newSet(0, optedOut, beingDeleted, with(policy.KeyScope, "odd", policy.KeyPaused, "true", policy.KeySnapshotClass, "fast"))
	set.Status.ObservedGeneration = 0
	steps := []struct {
		want policy.Reason
		lift setOption
	}{
		{policy.ReasonReplaced, func(set *appsv1.StatefulSet) { set.UID = ownUID }},
		{policy.ReasonDeleting, func(set *appsv1.StatefulSet) { set.DeletionTimestamp = nil }},
		{policy.ReasonNotOptedIn, with(policy.KeyEnabled, "true")},
		{policy.ReasonInvalidAnnotation, with(policy.KeyScope, "scaled-down")},
		{policy.ReasonNothingPending, remembering(pending(5, 3, thisSec, upTo(1)))},
		{policy.ReasonPaused, with(policy.KeyPaused, "false")},
		{policy.ReasonScaledToZero, replicas(3)},
		{policy.ReasonSnapshotsOff, func(set *appsv1.StatefulSet) { delete(set.Annotations, policy.KeySnapshotClass) }},
		{policy.ReasonRecordBehind, remembering(pending(5, 3, thisSec))},
		{policy.ReasonStatusBehind, func(set *appsv1.StatefulSet) { set.Status.ObservedGeneration = generation }},
		{policy.ReasonUndoWindow, with(policy.KeyDelay, "0s")},
	}
	set.UID = "6a7b"
	for _, step := range steps {
		hold := policy.NewPlan(set, defaults).SetGates(ownUID, now)
		if hold == nil || hold.Reason != step.want {
			t.Fatalf("held by %+v, want %s", hold, step.want)
		}
		step.lift(set)
	}
	if hold := policy.NewPlan(set, defaults).SetGates(ownUID, now); hold != nil {
		t.Errorf("still held by %+v", hold)
	}
}
