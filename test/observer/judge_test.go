package observer

import (
	"strings"
	"testing"
	"time"
)

// TestWhatIsJudged shows that the observer sees what it is there for: each history is that
// of a set of five which was scaled to three, and of the deletion of the claim of ordinal 3.
func TestWhatIsJudged(t *testing.T) {
	began := time.Now()
	five := setVersion{revision: 1, seen: began, replicas: 5, enabled: true}
	three := setVersion{revision: 2, seen: began.Add(time.Second), replicas: 3, enabled: true}
	fenced := three
	fenced.revision, fenced.fence = 3, "a fence"
	next := func(after time.Duration, change func(*setVersion)) setVersion {
		v := fenced
		v.revision, v.seen = 4, fenced.seen.Add(after)
		change(&v)
		return v
	}
	toZero := func(v *setVersion) { v.replicas = 0 }
	unfenced := func(v *setVersion) { v.replicas, v.fence = 0, "" }
	for name, test := range map[string]struct {
		last setVersion
		want string // part of the only reason, or none
	}{
		"nothing happened":                    {last: next(0, func(*setVersion) {})},
		"scaled up":                           {last: next(0, func(v *setVersion) { v.replicas = 4 }), want: "in range"},
		"scaled up after a hold":              {last: next(4*time.Second, func(v *setVersion) { v.replicas = 4 }), want: "in range"},
		"scaled to zero":                      {last: next(0, toZero), want: "scaled to zero"},
		"scaled to zero after a hold":         {last: next(4*time.Second, toZero)},
		"scaled to zero when no fence stands": {last: next(4*time.Second, unfenced), want: "scaled to zero"},
		"paused":                              {last: next(0, func(v *setVersion) { v.paused = true }), want: "paused"},
		"paused after a hold":                 {last: next(4*time.Second, func(v *setVersion) { v.paused = true })},
		"opted out":                           {last: next(0, func(v *setVersion) { v.enabled = false }), want: "not opted in"},
		"moved":                               {last: next(0, func(v *setVersion) { v.start = 4 }), want: "below start"},
		"moved a little":                      {last: next(0, func(v *setVersion) { v.start, v.replicas = 1, 2 }), want: "never scaled down"},
		"another window":                      {last: next(0, func(v *setVersion) { v.replicas, v.delay = 2, time.Hour }), want: "undo window"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &life{name: "data-db-3", created: 1, marked: 5, gone: 6, markedSeen: test.last.seen.Add(2 * time.Second)}
			h := history{sets: map[string][]setVersion{"db": {five, three, fenced, test.last}}, claims: []*life{claim}}
			got := judge(h, nil)
			if test.want == "" && len(got) > 0 {
				t.Errorf("judged %q, want nothing", got)
			}
			if test.want != "" && !strings.Contains(strings.Join(got, "\n"), test.want) {
				t.Errorf("judged %q, want %q", got, test.want)
			}
		})
	}
}

func TestAPodOnADyingClaimIsJudged(t *testing.T) {
	began := time.Now()
	versions := []setVersion{{revision: 1, seen: began, replicas: 5, enabled: true}, {revision: 2, seen: began, replicas: 3, enabled: true}}
	for name, test := range map[string]struct {
		pod  life
		want string
	}{
		"gone before":      {pod: life{created: 1, gone: 4}},
		"created after":    {pod: life{created: 10}},
		"there all along":  {pod: life{created: 1}, want: "deleted under pod"},
		"created under it": {pod: life{created: 6}, want: "started on it"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := test.pod
			pod.claims = []string{"data-db-3"}
			claim := &life{name: "data-db-3", created: 1, marked: 5, gone: 8, markedSeen: began.Add(time.Second)}
			got := strings.Join(judge(history{sets: map[string][]setVersion{"db": versions}, claims: []*life{claim}, pods: []*life{&pod}}, nil), "\n")
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("judged %q, want %q", got, test.want)
			}
		})
	}
}
