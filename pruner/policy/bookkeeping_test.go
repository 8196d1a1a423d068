package policy_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const recordText = `{"uid":"5f3c","start":2,"generation":7}`

// written is a complete set of bookkeeping annotations, in the words in which they are stored.
func written() map[string]string {
	return map[string]string{
		policy.KeyPriorReplicas:  "5",
		policy.KeyTargetReplicas: "3",
		policy.KeyScaledDownAt:   "2026-03-01T11:57:00Z",
		policy.KeyRecord:         recordText,
		policy.KeyFence:          `{"from":3}`,
		policy.KeyLastPrune:      `{"claims":2}`,
	}
}

func TestBookkeepingIsStoredInTheseWords(t *testing.T) {
	b := pending(5, 3, earlier, from(2), fenced, pruned)
	annotations, err := b.Annotations()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(written(), annotations); diff != "" {
		t.Errorf("Annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(b, policy.ReadBookkeeping(annotations)); diff != "" {
		t.Errorf("ReadBookkeeping (-want +got):\n%s", diff)
	}
}

func TestNoBookkeepingIsStoredAsNoAnnotation(t *testing.T) {
	annotations, err := policy.Bookkeeping{}.Annotations()
	if err != nil || len(annotations) != 0 {
		t.Errorf("Annotations = %v, %v", annotations, err)
	}
	if diff := cmp.Diff(policy.Bookkeeping{}, policy.ReadBookkeeping(nil)); diff != "" {
		t.Errorf("ReadBookkeeping (-want +got):\n%s", diff)
	}
}

func TestWindowIsStoredInUTCAndWholeSeconds(t *testing.T) {
	b := pending(5, 3, earlier.Add(900*time.Millisecond).In(time.FixedZone("", 3600)))
	annotations, err := b.Annotations()
	if err != nil || annotations[policy.KeyScaledDownAt] != "2026-03-01T11:57:00Z" {
		t.Errorf("Annotations = %v, %v", annotations, err)
	}
}

func TestMalformedPartOfBookkeepingReadsAsAbsent(t *testing.T) {
	noPrior := func(b *policy.Bookkeeping) { b.Prior = nil }
	noWindow := func(b *policy.Bookkeeping) { b.Window = nil }
	noRecord := func(b *policy.Bookkeeping) { b.Record = nil }
	for name, tt := range map[string]struct {
		key, value string
		without    bookOption
	}{
		"a prior count that is no number":           {policy.KeyPriorReplicas, "five", noPrior},
		"an empty prior count":                      {policy.KeyPriorReplicas, "", noPrior},
		"a negative prior count":                    {policy.KeyPriorReplicas, "-1", noPrior},
		"a prior count with a sign":                 {policy.KeyPriorReplicas, "+5", noPrior},
		"a prior count with a leading zero":         {policy.KeyPriorReplicas, "05", noPrior},
		"a prior count with a space":                {policy.KeyPriorReplicas, "5 ", noPrior},
		"a prior count beyond 32 bits":              {policy.KeyPriorReplicas, "2147483648", noPrior},
		"a target that is no number":                {policy.KeyTargetReplicas, "3.0", noWindow},
		"an empty target":                           {policy.KeyTargetReplicas, "", noWindow},
		"a time that is none":                       {policy.KeyScaledDownAt, "yesterday", noWindow},
		"an empty time":                             {policy.KeyScaledDownAt, "", noWindow},
		"a time in seconds":                         {policy.KeyScaledDownAt, "1772366220", noWindow},
		"a time without a zone":                     {policy.KeyScaledDownAt, "2026-03-01T11:57:00", noWindow},
		"a time that we would write otherwise":      {policy.KeyScaledDownAt, "2026-03-01T12:57:00+01:00", noWindow},
		"a fraction of a second":                    {policy.KeyScaledDownAt, "2026-03-01T11:57:00.9Z", noWindow},
		"a time beyond four digits of years":        {policy.KeyScaledDownAt, "9999-12-31T23:59:59-23:59", noWindow},
		"a record that is no JSON":                  {policy.KeyRecord, "{", noRecord},
		"a record that is another JSON":             {policy.KeyRecord, `"5f3c"`, noRecord},
		"an empty record":                           {policy.KeyRecord, "", noRecord},
		"a record without UID":                      {policy.KeyRecord, `{"start":2,"generation":7}`, noRecord},
		"a record whose UID is empty":               {policy.KeyRecord, `{"uid":"","start":2,"generation":7}`, noRecord},
		"a record whose start is negative":          {policy.KeyRecord, `{"uid":"5f3c","start":-1,"generation":7}`, noRecord},
		"a record whose start is beyond 32 bits":    {policy.KeyRecord, `{"uid":"5f3c","start":2147483648,"generation":7}`, noRecord},
		"a record whose generation is a text":       {policy.KeyRecord, `{"uid":"5f3c","start":2,"generation":"7"}`, noRecord},
		"a record with something after it":          {policy.KeyRecord, recordText + "x", noRecord},
		"an empty fence":                            {policy.KeyFence, "", func(b *policy.Bookkeeping) { b.Fence = "" }},
		"a fence and a summary are not looked into": {policy.KeyFence, "{", func(b *policy.Bookkeeping) { b.Fence = "{" }},
	} {
		t.Run(name, func(t *testing.T) {
			annotations := written()
			annotations[tt.key] = tt.value
			want := pending(5, 3, earlier, from(2), fenced, pruned)
			tt.without(&want)
			if diff := cmp.Diff(want, policy.ReadBookkeeping(annotations)); diff != "" {
				t.Errorf("%s=%q (-want +got):\n%s", tt.key, tt.value, diff)
			}
		})
	}
}

func TestHalfAWindowIsNone(t *testing.T) {
	for _, missing := range []string{policy.KeyTargetReplicas, policy.KeyScaledDownAt} {
		annotations := written()
		delete(annotations, missing)
		if b := policy.ReadBookkeeping(annotations); b.Window != nil || b.Pending() {
			t.Errorf("without %s: %+v", missing, b.Window)
		}
	}
}

func TestBoundAndCurrent(t *testing.T) {
	type result struct{ Bound, Current bool }
	for name, tt := range map[string]struct {
		b    policy.Bookkeeping
		set  []setOption
		want result
	}{
		"about this object in this version":          {idle(5), nil, result{true, true}},
		"about an older version of it":               {idle(5, upTo(generation-1)), nil, result{true, false}},
		"about a later version of it":                {idle(5, upTo(generation+1)), nil, result{true, false}},
		"about another range of ordinals":            {idle(5, from(1)), nil, result{true, false}},
		"about the same range that does not begin 0": {idle(5, from(4)), []setOption{startingAt(4)}, result{true, true}},
		"about another object of the same name":      {idle(5, ofObject("6a7b")), nil, result{}},
		"about nothing yet":                          {unbound(5), nil, result{}},
		"a record without a count":                   {policy.Bookkeeping{Record: idle(5).Record}, nil, result{}},
		"an empty UID binds nothing":                 {idle(5, ofObject("")), []setOption{noUID}, result{}},
	} {
		t.Run(name, func(t *testing.T) {
			set := newSet(3, tt.set...)
			if diff := cmp.Diff(tt.want, result{tt.b.Bound(set), tt.b.Current(set)}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompleted(t *testing.T) {
	summary := policy.Summary{At: thisSec, Ordinals: []int64{3, 4}, Claims: 4, Bytes: 1 << 30}
	lastPrune := func(b *policy.Bookkeeping) {
		b.LastPrune = `{"at":"2026-03-01T12:00:00Z","ordinals":[3,4],"claims":4,"bytes":1073741824}`
	}
	for name, tt := range map[string]struct {
		before  policy.Bookkeeping
		summary policy.Summary
		want    policy.Bookkeeping
	}{
		"the next window starts from the count that is left":   {pending(5, 3, earlier), summary, idle(3, lastPrune)},
		"the summary of the last prune is replaced":            {pending(5, 3, earlier, pruned), summary, idle(3, lastPrune)},
		"a prune that deleted nothing leaves the last summary": {pending(5, 3, earlier, pruned), policy.Summary{At: thisSec}, idle(3, pruned)},
		"the fence is not touched":                             {pending(5, 3, earlier, fenced), policy.Summary{}, idle(3, fenced)},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tt.before.Completed(3, tt.summary)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBookkeepingIsEqualWhateverEarlierPrunesDid(t *testing.T) {
	b := pending(5, 3, earlier)
	if !b.Equal(pending(5, 3, earlier, pruned)) {
		t.Error("the summary of the last prune makes a difference")
	}
	for name, other := range map[string]policy.Bookkeeping{
		"another prior count": pending(6, 3, earlier), "another target": pending(5, 2, earlier), "another time": pending(5, 3, thisSec),
		"no window": idle(5), "another generation": pending(5, 3, earlier, upTo(8)), "another start": pending(5, 3, earlier, from(1)),
		"another object": pending(5, 3, earlier, ofObject("6a7b")), "a fence": pending(5, 3, earlier, fenced), "nothing": {},
	} {
		if b.Equal(other) {
			t.Errorf("%s makes no difference", name)
		}
	}
}

func FuzzReadBookkeeping(f *testing.F) {
	f.Add("5", "3", "2026-03-01T11:57:00Z", recordText, `{"from":3}`, `{"claims":2}`)
	f.Add("", "", "", "", "", "")
	f.Add("-1", "+3", "2026-03-01T11:57:00.5Z", "{}", "{", "x")
	f.Add("2147483647", "2147483648", "9999-12-31T23:59:59-23:59", `{"uid":"a\ud800","start":-1}`, "\x00", "\xff")
	f.Add("05", "0", "0000-01-01T00:00:00+23:59", `{"uid":"a","start":2147483647,"generation":-9223372036854775808}`, "", "")
	f.Add("1e3", "٣", "2026-02-30T00:00:00Z", `{"uid":"5f3c","uid":"","start":1e3}`, "", "")
	f.Fuzz(func(t *testing.T, prior, target, since, record, fence, last string) {
		b := policy.ReadBookkeeping(map[string]string{
			policy.KeyPriorReplicas: prior, policy.KeyTargetReplicas: target, policy.KeyScaledDownAt: since,
			policy.KeyRecord: record, policy.KeyFence: fence, policy.KeyLastPrune: last,
		})
		if b.Prior != nil && *b.Prior < 0 || b.Window != nil && b.Window.Target < 0 || b.Record != nil && b.Record.Start < 0 {
			t.Errorf("a negative number was read: %+v", b)
		}
		annotations, err := b.Annotations()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(b, policy.ReadBookkeeping(annotations)); diff != "" {
			t.Errorf("read, written and read again (-first +second):\n%s", diff)
		}
		again, err := policy.ReadBookkeeping(annotations).Annotations()
		if err != nil || !maps.Equal(annotations, again) {
			t.Errorf("written twice: %v, then %v, %v", annotations, again, err)
		}
	})
}
