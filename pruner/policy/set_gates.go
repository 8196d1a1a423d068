package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Plan is a StatefulSet as the pruner sees it: the object with its annotations read.
type Plan struct {
	Set         *appsv1.StatefulSet
	Controls    Controls
	Bookkeeping Bookkeeping
}

// NewPlan reads the annotations of a stored StatefulSet.
func NewPlan(set *appsv1.StatefulSet, defaults Controls) Plan {
	return Plan{
		Set:         set,
		Controls:    ReadControls(set.Annotations, defaults),
		Bookkeeping: ReadBookkeeping(set.Annotations),
	}
}

// Range are the ordinals whose claims may go, from (included) to (excluded, or -1
// for no end). It is empty (0, 0) where there is nothing to derive it from.
func (p Plan) Range() (from, to int64) {
	replicas, ok := Replicas(p.Set)
	if !ok || p.Bookkeeping.Prior == nil {
		return 0, 0
	}
	start := int64(Start(p.Set))
	if p.Controls.Scope == ScopeAll {
		return start + int64(replicas), -1
	}
	return start + int64(replicas), start + int64(*p.Bookkeeping.Prior)
}

// ClaimNames lists the names of claims that may be pruned, as the function of that
// name does: those of templates that are excluded are not among them.
func (p Plan) ClaimNames(from, to int64, limit int) (names []string, total int64) {
	set := *p.Set
	set.Spec.VolumeClaimTemplates = slices.DeleteFunc(slices.Clone(set.Spec.VolumeClaimTemplates),
		func(t corev1.PersistentVolumeClaim) bool { return !p.Controls.AllowsTemplate(t.Name) })
	return ClaimNames(&set, from, to, limit)
}

// Due is when the undo window ends; ok is false while nothing is pending.
func (p Plan) Due() (due time.Time, ok bool) {
	if p.Bookkeeping.Window == nil {
		return time.Time{}, false
	}
	if p.Controls.ForbidStale {
		return p.Bookkeeping.Window.Since, true
	}
	return p.Bookkeeping.Window.Since.Add(p.Controls.Delay), true
}

// Hold is a reason not to delete any claim of a set now.
type Hold struct {
	Decision Decision // Keep or Wait
	Reason   Reason
	Message  string
	// Until is when a look is worth while again; zero: when something changes.
	Until time.Time
}

// SetGates returns what holds the whole set, or nil. uid is that of the object that
// the caller set out to prune: one with the same name and another UID is not it.
func (p Plan) SetGates(uid types.UID, now time.Time) *Hold {
	if h := gateObject(p.Set, uid); h != nil {
		return h
	}
	for _, gate := range setGates {
		if h := gate.ask(p, now); h != nil {
			return h
		}
	}
	return nil
}

// setGates in order: the first that finds something decides.
var setGates = [...]struct {
	demand      string // what the gate demands, in words
	ask         func(Plan, time.Time) *Hold
	needsWindow bool // it may be asked only while a prune is pending
}{
	{"the StatefulSet is opted in", gateOptedIn, false},
	{"its annotations can be understood", gateInvalid, false},
	{"a scale-down is pending", gatePending, false},
	{"it is not paused", gatePaused, false},
	{"it is not scaled to zero, or may be pruned there", gateScaledToZero, false},
	{"the VolumeSnapshots that it asks for can be taken", gateSnapshotsOff, false},
	{"no fence stands", gateFence, false},
	{"the change of replicas is accounted for", gateRecord, true},
	{"the StatefulSet controller has observed it", gateStatus, false},
	{"the undo window is over", gateWindow, true},
}

func gateObject(set *appsv1.StatefulSet, uid types.UID) *Hold {
	switch {
	case set.UID != uid:
		return &Hold{Decision: Keep, Reason: ReasonReplaced, Message: "another StatefulSet has this name now"}
	case set.DeletionTimestamp != nil:
		return &Hold{Decision: Keep, Reason: ReasonDeleting, Message: "the StatefulSet is being deleted; its claims stay"}
	}
	return nil
}

func gateOptedIn(p Plan, _ time.Time) *Hold {
	if p.Controls.Enabled {
		return nil
	}
	return &Hold{Decision: Keep, Reason: ReasonNotOptedIn, Message: "not opted in"}
}

func gateInvalid(p Plan, _ time.Time) *Hold {
	if len(p.Controls.Invalid) == 0 {
		return nil
	}
	texts := make([]string, 0, len(p.Controls.Invalid))
	for _, problem := range p.Controls.Invalid {
		texts = append(texts, problem.String())
	}
	return &Hold{Decision: Keep, Reason: ReasonInvalidAnnotation, Message: strings.Join(texts, "; ")}
}

func gatePending(p Plan, _ time.Time) *Hold {
	if p.Bookkeeping.Pending() {
		return nil
	}
	return &Hold{Decision: Keep, Reason: ReasonNothingPending, Message: "no scale-down is pending"}
}

func gatePaused(p Plan, _ time.Time) *Hold {
	if !p.Controls.Paused {
		return nil
	}
	message := "paused; nothing is deleted while " + KeyPaused + " is \"true\""
	if p.Set.Annotations[KeyPaused] == "" {
		message = "paused by the flag --paused, which holds for every StatefulSet without " + KeyPaused
	}
	return &Hold{Decision: Keep, Reason: ReasonPaused, Message: message}
}

func gateScaledToZero(p Plan, _ time.Time) *Hold {
	if replicas, ok := Replicas(p.Set); ok && replicas > 0 || p.Controls.PruneAtZero {
		return nil
	}
	return &Hold{
		Decision: Keep, Reason: ReasonScaledToZero,
		Message: "scaled to zero; all claims are kept while " + KeyScaleToZero + " is \"keep\"",
	}
}

// gateFence waits for a fence that stands: another process deletes behind it, or did so
// when it crashed, or a DELETE whose end is not known may still land behind it.
func gateFence(p Plan, now time.Time) *Hold {
	fence := ReadFence(p.Set.Annotations)
	if !fence.Stands(now) {
		return nil
	}
	return &Hold{
		Decision: Wait, Reason: ReasonFenced, Until: fence.Until,
		Message: fmt.Sprintf("a fence stands until %s", fence.Until.Format(time.RFC3339)),
	}
}

// gateRecord refuses to act on bookkeeping that is about another version of the
// object: a count changed, moved or came back since, and the window is not its own.
func gateRecord(p Plan, _ time.Time) *Hold {
	replicas, ok := Replicas(p.Set)
	if ok && p.Bookkeeping.Current(p.Set) && p.Bookkeeping.Window.Target == replicas {
		return nil
	}
	return &Hold{Decision: Wait, Reason: ReasonRecordBehind, Message: "the change of replicas is not accounted for yet"}
}

func gateStatus(p Plan, _ time.Time) *Hold {
	if p.Set.Status.ObservedGeneration >= p.Set.Generation {
		return nil
	}
	return &Hold{
		Decision: Wait, Reason: ReasonStatusBehind,
		Message: "the StatefulSet controller has not observed the change of replicas yet",
	}
}

func gateWindow(p Plan, now time.Time) *Hold {
	due, _ := p.Due()
	if !now.Before(due) {
		return nil
	}
	return &Hold{
		Decision: Wait, Reason: ReasonUndoWindow, Until: due,
		Message: fmt.Sprintf("the undo window ends at %s", due.UTC().Format(time.RFC3339)),
	}
}
