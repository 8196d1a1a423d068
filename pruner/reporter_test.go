package pruner

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8stesting "k8s.io/client-go/testing"
)

// events that were written, in order.
func (c *fakeCluster) events() []eventsv1.Event {
	var events []eventsv1.Event
	for _, action := range c.fake.Actions() {
		if call, ok := action.(k8stesting.CreateActionImpl); ok {
			events = append(events, *call.Object.(*eventsv1.Event))
		}
	}
	return events
}

func TestEventIsAboutTheSet(t *testing.T) {
	c := newFakeCluster()
	newReporter(c, atEpoch).say(quietly(t), newSet(5, 2), notice{reason: EventPruned, note: "deleted data-db-2"})
	want := []eventsv1.Event{{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "db-", Namespace: namespace},
		EventTime:  metav1.NewMicroTime(epoch), ReportingController: "pvc-pruner", ReportingInstance: "pvc-pruner",
		Action: "Prune", Reason: "Pruned", Type: "Normal", Note: "deleted data-db-2",
		Regarding: corev1.ObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Namespace: namespace, Name: "db", UID: ownUID},
	}}
	if diff := cmp.Diff(want, c.events()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventType(t *testing.T) {
	for reason, want := range map[string]string{
		EventScheduled: "Normal", EventCancelled: "Normal", EventWaiting: "Normal", EventSkipped: "Normal", EventDryRun: "Normal",
		EventPruned: "Normal", EventVolumeRetained: "Normal",
		EventBlocked: "Warning", EventFailed: "Warning", EventFenceNotEnforced: "Warning", EventInvalidAnnotation: "Warning",
	} {
		if got := (notice{reason: reason}).eventType(); got != want {
			t.Errorf("%s is %s", reason, got)
		}
	}
}

// saying is one call of say, some time after the call before.
type spoken struct {
	after time.Duration
	notice
	want bool
}

func TestWhatWasSaidIsNotSaidAgain(t *testing.T) {
	waiting := func(about string) notice {
		return notice{reason: EventWaiting, about: about, note: about, settles: true}
	}
	skipped := func(about string) notice { return notice{reason: EventSkipped, about: about, note: about} }
	once := notice{reason: EventPruned, note: "x"}
	for name, sayings := range map[string][]spoken{
		"the same, at once and much later":            {{0, skipped("a"), true}, {0, skipped("a"), false}, {59 * time.Minute, skipped("a"), false}},
		"the same, after an hour":                     {{0, skipped("a"), true}, {time.Hour, skipped("a"), true}, {time.Minute, skipped("a"), false}},
		"the same in other words":                     {{0, skipped("a"), true}, {0, notice{reason: EventSkipped, about: "a", note: "other words"}, false}},
		"something else":                              {{0, skipped("a"), true}, {0, skipped("b"), true}, {0, skipped("a"), true}},
		"another reason":                              {{0, skipped("a"), true}, {0, waiting("a"), true}, {0, skipped("a"), false}},
		"what happens once is always said":            {{0, once, true}, {0, once, true}},
		"what changes quickly waits until it settles": {{0, waiting("a"), true}, {0, waiting("b"), false}, {19 * time.Second, waiting("c"), false}, {time.Second, waiting("d"), true}},
		"what settled to what it was is not repeated": {{0, waiting("a"), true}, {5 * time.Second, waiting("b"), false}, {time.Minute, waiting("a"), false}},
		"what settled long ago is, after an hour":     {{0, waiting("a"), true}, {time.Hour, waiting("a"), true}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := epoch
			c := newFakeCluster()
			r := newReporter(c, func() time.Time { return clock })
			for i, s := range sayings {
				clock = clock.Add(s.after)
				before := len(c.events())
				r.say(quietly(t), newSet(5, 2), s.notice)
				if said := len(c.events()) > before; said != s.want {
					t.Errorf("notice %d (%s): said %v", i, s.note, said)
				}
			}
		})
	}
}

func TestEachSetIsToldOfAlone(t *testing.T) {
	c := newFakeCluster()
	r := newReporter(c, atEpoch)
	n := notice{reason: EventSkipped, about: "a"}
	for _, set := range []*appsv1.StatefulSet{newSet(5, 2), newSet(5, 2, asAnotherObject), newSet(5, 2)} {
		r.say(quietly(t), set, n)
	}
	if got := len(c.events()); got != 2 {
		t.Errorf("%d Events", got)
	}
	r.forget(ownUID)
	if r.say(quietly(t), newSet(5, 2), n); len(c.events()) != 3 || len(r.said) != 2 {
		t.Errorf("%d Events after one set was forgotten, %d sets known", len(c.events()), len(r.said))
	}
}

func TestEventThatCannotBeWrittenIsLoggedAndHoldsUpNothing(t *testing.T) {
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	c := newFakeCluster()
	c.fail("create", "events", errors.New("quota"))
	newReporter(c, atEpoch).say(logr.NewContext(t.Context(), log), newSet(5, 2), notice{reason: EventPruned, note: "deleted data-db-2"})
	want := []string{
		`"level"=0 "msg"="Reported" "event"="Pruned" "note"="deleted data-db-2"`,
		`"msg"="Event not written" "error"="quota" "event"="Pruned"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNoteIsClippedAtTheEndOfACharacter(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a short one":                  {"short", "short"},
		"one that just fits":           {strings.Repeat("a", 20), strings.Repeat("a", 20)},
		"one byte too long":            {strings.Repeat("a", 21), strings.Repeat("a", 17) + "…"},
		"two-byte characters":          {strings.Repeat("é", 20), strings.Repeat("é", 8) + "…"},
		"three-byte characters":        {strings.Repeat("…", 20), strings.Repeat("…", 5) + "……"[:3]},
		"four-byte characters":         {strings.Repeat("😀", 20), strings.Repeat("😀", 4) + "…"},
		"a character across the limit": {strings.Repeat("a", 16) + "é" + "bcdef", strings.Repeat("a", 16) + "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := clip(tt.text, 20)
			if diff := cmp.Diff(tt.want, got); diff != "" || len(got) > 20 || !utf8.ValidString(got) {
				t.Errorf("%d bytes (-want +got):\n%s", len(got), diff)
			}
		})
	}
}

func TestEventStaysWithinTheLimitsOfTheAPI(t *testing.T) {
	set := newSet(5, 2)
	set.Name = strings.Repeat("a", 238) + ".-" + strings.Repeat("b", 13)
	event := newReporter(nil, atEpoch).event(set, notice{note: strings.Repeat("é", 2000)})
	if want := strings.Repeat("a", 238) + "-"; event.GenerateName != want {
		t.Errorf("name begins with %q", event.GenerateName)
	}
	if len(event.Note) > 1024 || len(event.Note) < 1020 {
		t.Errorf("note of %d bytes", len(event.Note))
	}
}
