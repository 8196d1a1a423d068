package policy

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Account is Verdicts for people who want to see all: it decides on every claim of the
// set, also on those that no prune looks at, which are kept. Unlike Verdicts it may be
// asked whatever SetGates holds.
func (p Plan) Account(s Snapshot) []Verdict {
	return p.judge(s, func(claim *corev1.PersistentVolumeClaim, template string, ordinal int64) (Verdict, bool) {
		v := Verdict{Claim: claim, Template: template, Ordinal: ordinal, Decision: Keep}
		if v.Reason, v.Message = p.outside(ordinal); v.Reason != "" {
			return v, true
		}
		return p.verdict(s, claim, template, ordinal), true
	})
}

// outside says why no prune looks at an ordinal; "" if one may.
func (p Plan) outside(ordinal int64) (Reason, string) {
	start := int64(Start(p.Set))
	replicas, ok := Replicas(p.Set)
	from, to := p.Range()
	switch {
	case !ok || ordinal >= start && ordinal < start+int64(replicas):
		return ReasonInRange, fmt.Sprintf("replica %s is wanted", PodName(p.Set.Name, ordinal))
	case ordinal < start:
		return ReasonBelowStart, fmt.Sprintf("ordinals begin at %d; what is below is never touched", start)
	case ordinal < from || to >= 0 && ordinal >= to:
		return ReasonNotScaledDown, "no scale-down that pvc-pruner saw left it; " + KeyScope + "=all would include it"
	case p.Bookkeeping.Window == nil && p.Controls.Scope != ScopeAll:
		return ReasonNothingPending, "no scale-down is pending"
	}
	return "", ""
}

// Foreseen is a verdict together with what holds the whole set.
type Foreseen struct {
	Verdict
	// Until is when the claim may go at the earliest; zero: nobody knows, or never.
	Until time.Time
}

// Foresee says what becomes of each claim of the set if nothing changes: a claim that
// nothing speaks for is kept or waits as long as the set is held, and one that waits is kept
// while the set is held for good.
func Foresee(verdicts []Verdict, hold *Hold) []Foreseen {
	seen := make([]Foreseen, 0, len(verdicts))
	for _, v := range verdicts {
		f := Foreseen{Verdict: v}
		if hold != nil && (v.Decision == Delete || v.Decision == Wait && hold.Decision == Keep) {
			f.Decision, f.Reason, f.Subject, f.Message = hold.Decision, hold.Reason, "", hold.Message
			f.Until = hold.Until
		}
		seen = append(seen, f)
	}
	return seen
}
