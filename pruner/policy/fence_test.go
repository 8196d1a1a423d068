package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const fenceText = `{"from":3,"holder":"a1","until":"2026-03-01T12:01:00Z"}`

func TestFenceIsStoredInTheseWords(t *testing.T) {
	fence := policy.Fence{From: 3, Holder: "a1", Until: time.Date(2026, 3, 1, 13, 1, 0, 999_999, time.FixedZone("", 3600))}
	got, err := fence.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fenceText, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	unstamped, err := policy.Fence{From: 3, Holder: "a1"}.Encode()
	if diff := cmp.Diff(`{"from":3,"holder":"a1"}`, unstamped); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadFence(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 1, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		value string
		want  *policy.Fence
	}{
		"as it is stored":              {fenceText, &policy.Fence{From: 3, Holder: "a1", Until: until}},
		"not stamped yet":              {`{"from":3,"holder":"a1"}`, &policy.Fence{From: 3, Holder: "a1"}},
		"none":                         {"", nil},
		"no JSON":                      {"{", nil},
		"another JSON":                 {`"a1"`, nil},
		"without a holder":             {`{"from":3}`, nil},
		"with a time that is none":     {`{"from":3,"holder":"a1","until":"soon"}`, nil},
		"with an ordinal that is none": {`{"from":"3","holder":"a1"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, policy.ReadFence(map[string]string{policy.KeyFence: tt.value})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFenceStandsUntilItsEnd(t *testing.T) {
	fence := &policy.Fence{Until: now}
	for name, tt := range map[string]struct {
		fence *policy.Fence
		at    time.Time
		want  bool
	}{
		"before its end":      {fence, now.Add(-1), true},
		"at its end":          {fence, now, false},
		"no fence":            {nil, now, false},
		"one without a stamp": {&policy.Fence{Holder: "a1"}, now, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.fence.Stands(tt.at); got != tt.want {
				t.Errorf("stands: %v", got)
			}
		})
	}
}

func TestCrosses(t *testing.T) {
	for name, tt := range map[string]struct {
		from            int64
		start, replicas int32
		want            bool
	}{
		"up to the fence":                 {3, 0, 3, false},
		"one ordinal behind it":           {3, 0, 4, true},
		"far behind it":                   {3, 0, math.MaxInt32, true},
		"down":                            {3, 0, 2, false},
		"to nothing":                      {0, 5, 0, false},
		"counted from a start":            {103, 100, 3, false},
		"counted from a start, behind it": {103, 100, 4, true},
		"a range that moved behind it":    {3, 3, 1, true},
		"a range beyond 32 bits":          {math.MaxInt32, math.MaxInt32, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&policy.Fence{From: tt.from}).Crosses(tt.start, tt.replicas); got != tt.want {
				t.Errorf("crosses: %v", got)
			}
		})
	}
}

func TestFenceIsPutUpBehindTheRangeThatStays(t *testing.T) {
	for name, tt := range map[string]struct {
		options []setOption
		want    int64
	}{
		"scaled down":          {nil, 3},
		"counted from a start": {[]setOption{startingAt(100)}, 103},
		"with scope all":       {[]setOption{with(policy.KeyScope, "all")}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			want := policy.Fence{From: tt.want, Holder: "a1"}
			if diff := cmp.Diff(want, policy.FenceFor(ready(t, tt.options...), "a1")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestStamp(t *testing.T) {
	type result struct {
		Value string
		OK    bool
		Error string
	}
	fenced := func(value string) *appsv1.StatefulSet { return newSet(3, with(policy.KeyFence, value)) }
	stamped := result{`{"from":3,"holder":"a1","until":"2026-03-01T12:01:00.7Z"}`, true, ""}
	for name, tt := range map[string]struct {
		stored, updated *appsv1.StatefulSet
		want            result
	}{
		"a fence that is put up":                   {newSet(3), fenced(`{"from":3,"holder":"a1"}`), stamped},
		"an end that the holder wrote is not kept": {newSet(3), fenced(`{"from":3,"holder":"a1","until":"2099-01-01T00:00:00Z"}`), stamped},
		"a fence in place of another":              {fenced(`{"from":3,"holder":"b2"}`), fenced(`{"from":3,"holder":"a1"}`), stamped},
		"a fence on a new object":                  {nil, fenced(`{"from":3,"holder":"a1"}`), stamped},
		"a fence that stood before":                {fenced(fenceText), fenced(fenceText), result{}},
		"a fence that is taken down":               {fenced(fenceText), newSet(3), result{}},
		"no fence":                                 {newSet(3), newSet(3), result{}},
		"what is no fence":                         {newSet(3), fenced("{"), result{"", false, `pvc-pruner.io/fence: "{" is no fence`}},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			var err error
			if got.Value, got.OK, err = policy.Stamp(tt.stored, tt.updated, now); err != nil {
				got.Error = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetGateOfAFence(t *testing.T) {
	until := thisSec.Add(time.Minute)
	fence := func(until time.Time) setOption {
		value, err := policy.Fence{From: 3, Holder: "a1", Until: until}.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return with(policy.KeyFence, value)
	}
	standing := &policy.Hold{
		Decision: policy.Wait, Reason: policy.ReasonFenced, Message: "a fence stands until 2026-03-01T12:01:00Z", Until: until,
	}
	for name, tt := range map[string]struct {
		options []setOption
		want    *policy.Hold
	}{
		"one that stands":                    {[]setOption{fence(until)}, standing},
		"one that has ended":                 {[]setOption{fence(thisSec)}, nil},
		"one that cannot be read":            {[]setOption{with(policy.KeyFence, "{")}, nil},
		"before the record is looked at":     {[]setOption{fence(until), atGeneration(8)}, standing},
		"but not before what keeps for good": {[]setOption{fence(until), beingDeleted}, &policy.Hold{Decision: policy.Keep, Reason: policy.ReasonDeleting, Message: "the StatefulSet is being deleted; its claims stay"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ready(t, tt.options...).SetGates(ownUID, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestControlsChanged(t *testing.T) {
	type annotations map[string]string
	for name, tt := range map[string]struct {
		before, after annotations
		want          bool
	}{
		"nothing":                        {annotations{policy.KeyDelay: "1h"}, annotations{policy.KeyDelay: "1h"}, false},
		"a value":                        {annotations{policy.KeyDelay: "1h"}, annotations{policy.KeyDelay: "2h"}, true},
		"an opt-out":                     {annotations{policy.KeyEnabled: "true"}, nil, true},
		"an empty value for none":        {nil, annotations{policy.KeyDelay: ""}, true},
		"bookkeeping":                    {nil, annotations{policy.KeyFence: fenceText}, false},
		"something that is none of ours": {nil, annotations{"example.com/x": "y"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.ControlsChanged(tt.before, tt.after); got != tt.want {
				t.Errorf("changed: %v", got)
			}
		})
	}
}
