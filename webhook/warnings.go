package webhook

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// listed is how many claim names are made up for a warning; fewer fit in.
const listed = 20

// setWarnings say what a change of a StatefulSet means for its claims: which will be
// deleted, when, and how to undo it; or why none will. stored is nil on CREATE.
func setWarnings(stored *appsv1.StatefulSet, after policy.Plan, defaults policy.Controls, now time.Time) []string {
	var before policy.Plan
	if stored != nil {
		before = policy.NewPlan(stored, defaults)
	}
	if len(after.Set.Spec.VolumeClaimTemplates) == 0 {
		return nil
	}
	warnings := controlWarnings(before, after)
	if w := cancelled(before, after, now); w != "" {
		warnings = append(warnings, w)
	}
	if w := tooLate(before, after, now); w != "" {
		warnings = append(warnings, w)
	}
	if w := outlook(before, after, now); w != "" {
		warnings = append(warnings, w)
	}
	return warnings
}

// controlWarnings name annotations that will not do what their author may think.
func controlWarnings(before, after policy.Plan) []string {
	var warnings []string
	if unknown := unknownTemplates(after); len(unknown) > 0 && !slices.Equal(before.Controls.Templates, after.Controls.Templates) {
		warnings = append(warnings, fit(policy.KeyTemplates+" names ", unknown, int64(len(unknown)), ", which this StatefulSet has no volumeClaimTemplate for"))
	}
	if c := after.Controls; c.SnapshotClass != "" && !c.Snapshots && c.SnapshotClass != before.Controls.SnapshotClass {
		warnings = append(warnings, "pvc-pruner runs without --snapshots: no claim is deleted while "+policy.KeySnapshotClass+" is set")
	}
	if !before.Controls.Enabled && after.Controls.Enabled {
		warnings = append(warnings, optInWarnings(after.Set)...)
	}
	return warnings
}

// optInWarnings name others who have a hand in the set that is opted in.
func optInWarnings(set *appsv1.StatefulSet) (warnings []string) {
	if text := policy.ManagedBy(set); text != "" {
		warnings = append(warnings, text)
	}
	if policy.BuiltInDeletes(set) {
		warnings = append(warnings, builtIn)
	}
	return warnings
}

const builtIn = "persistentVolumeClaimRetentionPolicy.whenScaled is Delete: Kubernetes itself deletes claims at a scale-down, " +
	"at once and without an undo; set it to Retain to leave that to pvc-pruner"

func unknownTemplates(p policy.Plan) []string {
	var unknown []string
	for _, name := range p.Controls.Templates {
		if !slices.ContainsFunc(p.Set.Spec.VolumeClaimTemplates, func(t corev1.PersistentVolumeClaim) bool { return t.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// cancelled says which claims a change keeps that were about to be deleted.
func cancelled(before, after policy.Plan, now time.Time) string {
	if !deletes(before) || policy.BuiltInDeletes(before.Set) {
		return ""
	}
	from, to := before.Range()
	if deletes(after) {
		if still, _ := after.Range(); to < 0 || still < to {
			to = still
		}
	}
	names, total := claims(before, from, to)
	if total == 0 {
		return ""
	}
	if after.Controls.Enabled && after.Controls.Paused {
		return "" // put off, as the outlook says
	}
	rest := " any more"
	if due, ok := before.Due(); ok && !now.Before(due) {
		rest += ", as far as they are not being deleted already"
	}
	return fit("pvc-pruner will not delete ", names, total, rest)
}

// justNow is how long after a prune somebody who scales up may believe that it undoes it.
const justNow = time.Hour

// tooLate says that a scale-up does not bring back what was deleted a short time ago.
func tooLate(before, after policy.Plan, now time.Time) string {
	last := policy.ReadSummary(after.Set.Annotations)
	if before.Set == nil || last == nil || now.Sub(last.At) > justNow {
		return ""
	}
	start := int64(policy.Start(after.Set))
	from, okFrom := policy.Replicas(before.Set)
	to, okTo := policy.Replicas(after.Set)
	if !okFrom || !okTo || policy.Start(before.Set) != policy.Start(after.Set) {
		return ""
	}
	var ordinals []string
	for _, o := range last.Ordinals {
		if o >= start+int64(from) && o < start+int64(to) {
			ordinals = append(ordinals, strconv.FormatInt(o, 10))
		}
	}
	if len(ordinals) == 0 {
		return ""
	}
	return fit("pvc-pruner deleted claims of the ordinals ", ordinals, int64(len(ordinals)),
		" at "+last.At.UTC().Format(time.RFC3339)+": those begin with empty volumes")
}

// pending says whether a prune of this very object is due now or later. Annotations of
// another one, or parts of some, say nothing.
func pending(p policy.Plan) bool {
	return p.Set != nil && p.Bookkeeping.Pending() && p.Bookkeeping.Bound(p.Set)
}

// claims names those of the ordinals from (included) to (excluded, or -1 for no end: how
// far orphans reach is not known here).
func claims(p policy.Plan, from, to int64) (names []string, total int64) {
	if to < 0 {
		return []string{fmt.Sprintf("every unused claim from ordinal %d on", from)}, 1
	}
	return p.ClaimNames(from, to, listed)
}

func keysOf(problems []policy.Problem) []string {
	keys := make([]string, 0, len(problems))
	for _, p := range problems {
		keys = append(keys, p.Key)
	}
	return keys
}

// deletes says whether, as things stand, a pending prune will delete something.
func deletes(p policy.Plan) bool {
	if !pending(p) {
		return false
	}
	replicas, ok := policy.Replicas(p.Set)
	c := p.Controls
	return ok && c.Enabled && !c.Paused && !c.DryRun && len(c.Invalid) == 0 &&
		(c.SnapshotClass == "" || c.Snapshots) && (replicas > 0 || c.PruneAtZero)
}

// outlook says what will become of the claims beyond the range, where a change has a
// bearing on it.
func outlook(before, after policy.Plan, now time.Time) string {
	if !after.Controls.Enabled || !pending(after) || sameOutlook(before, after) {
		return ""
	}
	c := after.Controls
	replicas, _ := policy.Replicas(after.Set)
	switch {
	case policy.BuiltInDeletes(after.Set):
		return builtIn
	case replicas == 0 && !c.PruneAtZero:
		return "scaled to zero: pvc-pruner keeps all claims (" + policy.KeyScaleToZero + " is \"keep\")"
	case c.Paused:
		return pausedText(after.Set)
	case len(c.Invalid) > 0:
		return fit("pvc-pruner deletes nothing until this is corrected: ", keysOf(c.Invalid), int64(len(c.Invalid)), "")
	case c.SnapshotClass != "" && !c.Snapshots:
		return "" // said when it was set
	}
	return schedule(after, now)
}

func pausedText(set *appsv1.StatefulSet) string {
	if set.Annotations[policy.KeyPaused] == "" {
		return "pvc-pruner is paused by its flag --paused: no claim is deleted"
	}
	return "pvc-pruner is paused: no claim is deleted while " + policy.KeyPaused + " is \"true\""
}

func sameOutlook(before, after policy.Plan) bool {
	if !pending(before) || deletes(before) != deletes(after) {
		return false
	}
	was, _ := before.Due()
	is, _ := after.Due()
	fromWas, toWas := before.Range()
	fromIs, toIs := after.Range()
	return was.Equal(is) && fromWas == fromIs && toWas == toIs
}

func schedule(after policy.Plan, now time.Time) string {
	from, to := after.Range()
	prior := *after.Bookkeeping.Prior
	names, total := claims(after, from, to)
	if total == 0 {
		return ""
	}
	intro := "pvc-pruner will delete "
	if after.Controls.DryRun {
		intro = "dry run, nothing is deleted; otherwise pvc-pruner would delete "
	}
	due, _ := after.Due()
	if !due.After(now) {
		return fit(intro, names, total, " as soon as unused; there is no undo window")
	}
	when := fmt.Sprintf(" at %s (in %s), once unused", due.UTC().Format(time.RFC3339), policy.FormatDelay(due.Sub(now.Truncate(time.Second))))
	if replicas, _ := policy.Replicas(after.Set); prior > replicas {
		when += fmt.Sprintf("; to keep, scale back to %d before", prior)
	}
	return fit(intro, names, total, when)
}
