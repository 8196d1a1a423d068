package pruner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// listed is how many claims one text names, and maxList how many bytes they may take:
// what comes after them says when, and how to undo it.
const (
	listed  = 20
	maxList = 600
)

// scheduledNotice says what will go, when, and how to undo it; ok is false where
// nothing can go because no template's claims may.
func scheduledNotice(p policy.Plan) (n notice, ok bool) {
	window, due := p.Bookkeeping.Window, dueText(p)
	from, to := p.Range()
	names, total := p.ClaimNames(from, max(to, from+1), listed)
	if total == 0 {
		return notice{}, false
	}
	what := nameList(names, total)
	if to < 0 {
		what = fmt.Sprintf("every unused claim from ordinal %d on", from)
	}
	note := fmt.Sprintf("replicas is %d: %s will be deleted %s, once unused", window.Target, what, due)
	if p.Controls.DryRun {
		note = fmt.Sprintf("replicas is %d; dry run, nothing is deleted; otherwise %s would be deleted %s, once unused", window.Target, what, due)
	}
	if end, _ := p.Due(); end.After(window.Since) && *p.Bookkeeping.Prior > window.Target {
		note += fmt.Sprintf("; to keep, scale back to %d before", *p.Bookkeeping.Prior)
	}
	return notice{
		reason: EventScheduled, note: note,
		about: fmt.Sprint(window.Target, window.Since.Unix(), *p.Bookkeeping.Prior, due),
	}, true
}

// unseenNotice tells that a scale-down counts for nothing, because a scale to zero may have
// come before it (policy.MayHaveBeenZero).
func unseenNotice(p policy.Plan) notice {
	from, to := p.Range()
	names, total := p.ClaimNames(from, max(to, from), listed)
	return notice{
		reason: EventSkipped, about: "unseen",
		note: fmt.Sprintf("changes of replicas were not seen; one may have been to zero, where everything is kept: %s stay", nameList(names, total)),
	}
}

func dueText(p policy.Plan) string {
	due, _ := p.Due()
	return "at " + due.UTC().Format(time.RFC3339)
}

// cancelledNotice says what a scale-up keeps; ok is false where nothing could have gone.
func cancelledNotice(p policy.Plan, c cancellation) (n notice, ok bool) {
	start := int64(policy.Start(p.Set))
	names, total := p.ClaimNames(start+int64(c.from), start+int64(min(c.to, c.prior)), listed)
	if total == 0 {
		return notice{}, false
	}
	return notice{
		reason: EventCancelled,
		note:   fmt.Sprintf("replicas went from %d to %d: not pruning %s, as far as they still exist", c.from, c.to, nameList(names, total)),
	}, true
}

// optedOutNotice says which claims stay because the set was opted out; before is the plan
// that was pending.
func optedOutNotice(before policy.Plan) notice {
	from, to := before.Range()
	what := fmt.Sprintf("every unused claim from ordinal %d on", from)
	if to >= 0 {
		what = nameList(before.ClaimNames(from, to, listed))
	}
	return notice{reason: EventCancelled, note: "opted out: not pruning " + what + ", as far as they still exist"}
}

// holdNotice says why nothing is looked at, if that is worth an Event.
func holdNotice(p policy.Plan, h policy.Hold) (notice, bool) {
	n := notice{note: h.Message, about: string(h.Reason) + h.Message}
	if window := p.Bookkeeping.Window; window != nil {
		n.about += window.Since.String() // said again at the next scale-down
	}
	switch h.Reason {
	case policy.ReasonScaledToZero, policy.ReasonSnapshotsOff:
		n.reason = EventSkipped
	case policy.ReasonPaused:
		n.reason = EventWaiting
	default:
		return notice{}, false
	}
	return n, true
}

// managedNotice warns of a set that another operator works on, if it is opted in.
func managedNotice(p policy.Plan) (n notice, ok bool) {
	text := policy.ManagedBy(p.Set)
	if !p.Controls.Enabled || text == "" {
		return notice{}, false
	}
	return notice{reason: EventOperatorManaged, note: text, about: text}, true
}

func invalidNotice(problems []policy.Problem) notice {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	note := strings.Join(texts, "; ")
	return notice{reason: EventInvalidAnnotation, note: note + "; nothing is deleted until it is corrected", about: note}
}

// verdictNotices say, once for each kind of Event, which claims stay and why.
func verdictNotices(verdicts []policy.Verdict) []notice {
	var notices []notice
	for _, reason := range []string{EventSkipped, EventWaiting, EventBlocked} {
		var notes, about []string
		for _, v := range verdicts {
			if eventFor(v) != reason {
				continue
			}
			notes = append(notes, v.Claim.Name+": "+v.Message)
			about = append(about, v.Claim.Name+string(v.Reason)+v.Subject)
		}
		if len(notes) > 0 {
			notices = append(notices, notice{
				reason: reason, note: strings.Join(notes, "; "), about: strings.Join(about, ";"), settles: true,
			})
		}
	}
	return notices
}

func eventFor(v policy.Verdict) string {
	switch {
	case v.Reason == policy.ReasonTerminating:
		return EventBlocked
	case v.Reason == policy.ReasonBuiltIn, v.Decision == policy.Keep:
		return EventSkipped
	case v.Decision == policy.Wait:
		return EventWaiting
	}
	return ""
}

func dryRunNotice(p policy.Plan, verdicts []policy.Verdict) notice {
	var unused []policy.Verdict
	for _, v := range verdicts {
		if promising(v) {
			unused = append(unused, v)
		}
	}
	about := names(unused)
	note := fmt.Sprintf("dry run: would delete %s (%s)", nameList(about, int64(len(about))), bytesText(total(unused)))
	if p.Controls.SnapshotClass != "" {
		note += ", after a VolumeSnapshot of class " + p.Controls.SnapshotClass
	}
	return notice{reason: EventDryRun, about: strings.Join(about, ";") + dueText(p), note: note}
}

func prunedNotice(p policy.Plan, deleted []policy.Verdict) notice {
	gone := names(deleted)
	note := fmt.Sprintf("deleted %s (%s), unused since replicas became %d",
		nameList(gone, int64(len(gone))), bytesText(total(deleted)), p.Bookkeeping.Window.Target)
	if manager := policy.ReplicasManager(p.Set); manager != "" {
		note += "; replicas was last set by " + manager
	}
	return notice{reason: EventPruned, note: note}
}

func retainedNotice(claim, volume string) notice {
	return notice{
		reason: EventVolumeRetained,
		note: fmt.Sprintf("PersistentVolume %s of the deleted claim %s stays: its reclaim policy is Retain; "+
			"its data can be used again through a new claim, and is yours to delete", volume, claim),
	}
}

func failedNotice(failed []failure) notice {
	texts := make([]string, 0, len(failed))
	for _, f := range failed {
		texts = append(texts, f.verdict.Claim.Name+": "+f.err.Error())
	}
	note := strings.Join(texts, "; ")
	return notice{reason: EventFailed, note: "not deleted: " + note, about: note}
}

func names(verdicts []policy.Verdict) []string {
	out := make([]string, 0, len(verdicts))
	for _, v := range verdicts {
		out = append(out, v.Claim.Name)
	}
	return out
}

func total(verdicts []policy.Verdict) (bytes int64) {
	for _, v := range verdicts {
		bytes += v.Size()
	}
	return bytes
}

// ordinals of the verdicts, ascending, each once.
func ordinals(verdicts []policy.Verdict) []int64 {
	out := make([]int64, 0, len(verdicts))
	for _, v := range verdicts {
		out = append(out, v.Ordinal)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// nameList writes "a, b and 12 more".
func nameList(names []string, total int64) string {
	if total == 0 {
		return "no claim"
	}
	shown := names[:min(len(names), listed)]
	for len(shown) > 1 && len(strings.Join(shown, ", ")) > maxList {
		shown = shown[:len(shown)-1]
	}
	text := strings.Join(shown, ", ")
	if rest := total - int64(len(shown)); rest > 0 {
		text += fmt.Sprintf(" and %d more", rest)
	}
	return text
}

func bytesText(n int64) string { return resource.NewQuantity(n, resource.BinarySI).String() }
