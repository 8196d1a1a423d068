package pruner

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var exactly = cmp.AllowUnexported(notice{})

func TestScheduledNotice(t *testing.T) {
	forOrphans := func(set *appsv1.StatefulSet) {
		two := int32(2)
		remembering(policy.Bookkeeping{
			Prior: &two, Window: &policy.Window{Target: 2, Since: scaledDown}, Record: &policy.Record{UID: ownUID, Generation: generation},
		})(set)
		set.Annotations[policy.KeyScope] = "all"
	}
	for name, tt := range map[string]struct {
		set  *appsv1.StatefulSet
		want string
	}{
		"says what goes, when, and how to undo it": {
			newSet(5, 2),
			"replicas is 2: data-db-2, data-db-3, data-db-4 will be deleted at 1999-12-31T23:10:00Z, once unused; to keep, scale back to 5 before",
		},
		"names the first claims of many": {
			newSet(1000, 2, with(policy.KeyDelay, "7d")),
			"replicas is 2: data-db-2, data-db-3, data-db-4, data-db-5, data-db-6, data-db-7, data-db-8, data-db-9, data-db-10, data-db-11, " +
				"data-db-12, data-db-13, data-db-14, data-db-15, data-db-16, data-db-17, data-db-18, data-db-19, data-db-20, data-db-21 " +
				"and 978 more will be deleted at 2000-01-07T23:00:00Z, once unused; to keep, scale back to 1000 before",
		},
		"with scope all, names the first ordinal": {
			newSet(5, 2, with(policy.KeyScope, "all")),
			"replicas is 2: every unused claim from ordinal 2 on will be deleted at 1999-12-31T23:10:00Z, once unused; to keep, scale back to 5 before",
		},
		"for older orphans, has no count to scale back to": {
			newSet(2, 2, forOrphans),
			"replicas is 2: every unused claim from ordinal 2 on will be deleted at 1999-12-31T23:10:00Z, once unused",
		},
		"in a dry run, says so": {
			newSet(3, 2, with(policy.KeyDryRun, "true")),
			"replicas is 2; dry run, nothing is deleted; otherwise data-db-2 would be deleted at 1999-12-31T23:10:00Z, once unused; to keep, scale back to 3 before",
		},
		"with old volumes forbidden, has no delay": {
			newSet(3, 2, with(policy.KeyStaleVolumes, "forbid")),
			"replicas is 2: data-db-2 will be deleted at 1999-12-31T23:00:00Z, once unused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := scheduledNotice(planOf(tt.set))
			got.about = ""
			if diff := cmp.Diff(notice{reason: EventScheduled, note: tt.want}, got, exactly); diff != "" || !ok {
				t.Errorf("ok: %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestNothingIsScheduledWhereNoClaimCanGo(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"no template may be pruned":     newSet(5, 2, with(policy.KeyTemplates, "wal")),
		"there is no template":          newSet(5, 2, func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil }),
		"with scope all, there is none": newSet(5, 2, with(policy.KeyScope, "all"), func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil }),
	} {
		t.Run(name, func(t *testing.T) {
			if n, ok := scheduledNotice(planOf(set)); ok {
				t.Errorf("notice %+v", n)
			}
		})
	}
}

func TestWindowIsAnnouncedAnewWhenItIsAnotherOne(t *testing.T) {
	about := func(set *appsv1.StatefulSet) string {
		n, _ := scheduledNotice(planOf(set))
		return n.about
	}
	same := about(newSet(5, 2))
	if again := about(newSet(5, 2, atGeneration(8))); again != same {
		t.Error("the same window is announced twice")
	}
	for name, set := range map[string]*appsv1.StatefulSet{
		"another count": newSet(5, 3), "another prior count": newSet(6, 2),
		"another beginning": newSet(5, 2, with(policy.KeyScaledDownAt, "1999-12-31T23:00:01Z")), "another end": newSet(5, 2, with(policy.KeyDelay, "1h")),
	} {
		if about(set) == same {
			t.Errorf("%s is not announced", name)
		}
	}
}

func TestCancelledNotice(t *testing.T) {
	for name, tt := range map[string]struct {
		c    cancellation
		want string // "" where there is nothing to say
	}{
		"wholly":      {cancellation{2, 5, 5}, "replicas went from 2 to 5: not pruning data-db-2, data-db-3, data-db-4, as far as they still exist"},
		"in part":     {cancellation{2, 3, 5}, "replicas went from 2 to 3: not pruning data-db-2, as far as they still exist"},
		"and beyond":  {cancellation{2, 9, 4}, "replicas went from 2 to 9: not pruning data-db-2, data-db-3, as far as they still exist"},
		"nothing old": {cancellation{4, 9, 4}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var want notice
			if tt.want != "" {
				want = notice{reason: EventCancelled, note: tt.want}
			}
			got, ok := cancelledNotice(planOf(newSet(5, 2)), tt.c)
			if diff := cmp.Diff(want, got, exactly); diff != "" || ok != (tt.want != "") {
				t.Errorf("ok is %v (-want +got):\n%s", ok, diff)
			}
		})
	}
}

func TestHoldNotice(t *testing.T) {
	for reason, want := range map[policy.Reason]string{
		policy.ReasonScaledToZero: EventSkipped, policy.ReasonSnapshotsOff: EventSkipped, policy.ReasonPaused: EventWaiting,
		policy.ReasonUndoWindow: "", policy.ReasonNothingPending: "", policy.ReasonRecordBehind: "", policy.ReasonStatusBehind: "",
		policy.ReasonFenced: "", policy.ReasonDeleting: "", policy.ReasonReplaced: "", policy.ReasonNotOptedIn: "", policy.ReasonInvalidAnnotation: "",
	} {
		got, ok := holdNotice(policy.Plan{}, policy.Hold{Reason: reason, Message: "why"})
		if got.reason != want || ok != (want != "") || ok && got.note != "why" {
			t.Errorf("%s: %+v, %v", reason, got, ok)
		}
	}
}

func TestInvalidNotice(t *testing.T) {
	got := invalidNotice([]policy.Problem{{Key: policy.KeyScope, Value: "x", Accepted: "accepted is y"}, {Key: policy.KeyPaused, Value: "", Accepted: "accepted is z"}})
	note := `pvc-pruner.io/scope: "x" is not accepted; accepted is y; pvc-pruner.io/paused: "" is not accepted; accepted is z`
	want := notice{reason: EventInvalidAnnotation, about: note, note: note + "; nothing is deleted until it is corrected"}
	if diff := cmp.Diff(want, got, exactly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func about(ordinal int, decision policy.Decision, reason policy.Reason, message string) policy.Verdict {
	return policy.Verdict{Claim: newClaim(ordinal), Ordinal: int64(ordinal), Decision: decision, Reason: reason, Subject: "s", Message: message}
}

func TestVerdictsAreToldOnceForEachKindOfEvent(t *testing.T) {
	got := verdictNotices([]policy.Verdict{
		about(2, policy.Wait, policy.ReasonPodExists, "pod db-2 still exists"),
		about(3, policy.Keep, policy.ReasonKeepAnnotation, "keep: annotated"),
		about(4, policy.Delete, policy.ReasonUnused, ""),
		about(5, policy.Wait, policy.ReasonTerminating, "held by x"),
		about(6, policy.Wait, policy.ReasonInUse, "pod restic uses it"),
		about(7, policy.Wait, policy.ReasonBuiltIn, "Kubernetes deletes it"),
	})
	want := []notice{
		{reason: EventSkipped, about: "data-db-3KeepAnnotations;data-db-7BuiltInRetentions", note: "data-db-3: keep: annotated; data-db-7: Kubernetes deletes it", settles: true},
		{reason: EventWaiting, about: "data-db-2PodExistss;data-db-6ClaimInUses", note: "data-db-2: pod db-2 still exists; data-db-6: pod restic uses it", settles: true},
		{reason: EventBlocked, about: "data-db-5Terminatings", note: "data-db-5: held by x", settles: true},
	}
	if diff := cmp.Diff(want, got, exactly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none := verdictNotices([]policy.Verdict{about(4, policy.Delete, policy.ReasonUnused, "")}); none != nil {
		t.Errorf("told of what is deleted: %+v", none)
	}
}

func TestDryRunNotice(t *testing.T) {
	got := dryRunNotice(planOf(newSet(5, 2)), []policy.Verdict{
		about(2, policy.Delete, policy.ReasonUnused, ""), about(3, policy.Wait, policy.ReasonPodExists, "x"), about(4, policy.Delete, policy.ReasonUnused, ""),
	})
	want := notice{reason: EventDryRun, note: "dry run: would delete data-db-2, data-db-4 (2Gi)", about: "data-db-2;data-db-4at 1999-12-31T23:10:00Z"}
	if diff := cmp.Diff(want, got, exactly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := dryRunNotice(planOf(newSet(5, 2)), nil).note; got != "dry run: would delete no claim (0)" {
		t.Errorf("note %q", got)
	}
}

func TestPrunedNotice(t *testing.T) {
	deleted := []policy.Verdict{about(2, policy.Delete, policy.ReasonUnused, ""), about(3, policy.Delete, policy.ReasonUnused, "")}
	when := metav1.NewTime(epoch)
	byHelm := func(set *appsv1.StatefulSet) {
		set.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "helm", Time: &when, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}}
	}
	const note = "deleted data-db-2, data-db-3 (2Gi), unused since replicas became 2"
	for want, set := range map[string]*appsv1.StatefulSet{note: newSet(5, 2), note + "; replicas was last set by helm": newSet(5, 2, byHelm)} {
		if diff := cmp.Diff(notice{reason: EventPruned, note: want}, prunedNotice(planOf(set), deleted), exactly); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestRetainedNotice(t *testing.T) {
	want := notice{reason: EventVolumeRetained, note: "PersistentVolume pv-2 of the deleted claim data-db-2 stays: its reclaim policy is Retain; " +
		"its data can be used again through a new claim, and is yours to delete"}
	if diff := cmp.Diff(want, retainedNotice("data-db-2", "pv-2"), exactly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFailedNotice(t *testing.T) {
	got := failedNotice([]failure{{verdict: about(2, "", "", ""), err: errors.New("no right")}, {verdict: about(3, "", "", ""), err: errors.New("quota")}})
	const note = "data-db-2: no right; data-db-3: quota"
	if diff := cmp.Diff(notice{reason: EventFailed, about: note, note: "not deleted: " + note}, got, exactly); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNameList(t *testing.T) {
	many := make([]string, 25)
	for i := range many {
		many[i] = fmt.Sprint(i)
	}
	twenty := "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19"
	for name, tt := range map[string]struct {
		names []string
		total int64
		want  string
	}{
		"none":                            {nil, 0, "no claim"},
		"one":                             {many[:1], 1, "0"},
		"as many as are listed":           {many[:20], 20, twenty},
		"one more":                        {many[:21], 21, twenty + " and 1 more"},
		"more than are named":             {many[:20], 1 << 40, twenty + " and 1099511627756 more"},
		"some that are not named for now": {many[:2], 3, "0, 1 and 1 more"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := nameList(tt.names, tt.total); got != tt.want {
				t.Errorf("nameList = %q", got)
			}
		})
	}
}

func TestOrdinalsAreAscendingAndEachOnce(t *testing.T) {
	got := ordinals([]policy.Verdict{about(10, "", "", ""), about(9, "", "", ""), about(10, "", "", "")})
	if diff := cmp.Diff([]int64{9, 10}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Whatever the names, each Event can be written, and says first what it is about.
func TestNotesWithHugeNamesFitIntoAnEvent(t *testing.T) {
	huge := newSet(1<<30, 2)
	huge.Name = strings.Repeat("s", 200)
	huge.Spec.VolumeClaimTemplates = templates(strings.Repeat("a", 40), strings.Repeat("b", 40))
	plan := planOf(huge)
	var verdicts []policy.Verdict
	for range 500 {
		claim := newClaim(2)
		claim.Name = strings.Repeat("é", 126)
		verdicts = append(verdicts, policy.Verdict{Claim: claim, Decision: policy.Keep, Reason: policy.ReasonKeepAnnotation, Message: strings.Repeat("m", 300)})
	}
	scheduled, _ := scheduledNotice(plan)
	cancelled, _ := cancelledNotice(plan, cancellation{2, 1 << 30, 1 << 30})
	for begins, n := range map[string]notice{
		"replicas is 2: aaa":                     scheduled,
		"replicas went from 2 to 1073741824: no": cancelled,
		"dry run: would delete ":                 dryRunNotice(plan, verdicts),
		"deleted éé":                             prunedNotice(plan, verdicts),
		"éé":                                     verdictNotices(verdicts)[0],
		"not deleted: éé":                        failedNotice([]failure{{verdict: verdicts[0], err: errors.New(strings.Repeat("e", 5000))}}),
	} {
		event := newReporter(nil, atEpoch).event(huge, n)
		if len(event.Note) > maxNote || !strings.HasPrefix(event.Note, begins) {
			t.Errorf("%s: %d bytes: %q", n.reason, len(event.Note), event.Note)
		}
	}
}
