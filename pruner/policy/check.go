package policy

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Check is what one gate says. The first that is not passed decides.
type Check struct {
	// Gate is what it demands, in words.
	Gate   string `json:"gate"`
	Passed bool   `json:"passed"`
	// Decision, Reason, Subject and Message are those of a verdict; "" where it is passed.
	Decision Decision `json:"decision,omitempty"`
	Reason   Reason   `json:"reason,omitempty"`
	Subject  string   `json:"subject,omitempty"`
	Message  string   `json:"message,omitempty"`
}

// CheckSet asks every gate of SetGates, in its order.
func (p Plan) CheckSet(uid types.UID, now time.Time) []Check {
	checks := []Check{checkSet("the StatefulSet is there to stay", gateObject(p.Set, uid))}
	for _, gate := range setGates {
		if gate.needsWindow && !p.Bookkeeping.Pending() {
			continue // gatePending has said so
		}
		checks = append(checks, checkSet(gate.demand, gate.ask(p, now)))
	}
	for i := range checks {
		if !checks[i].Passed {
			checks[i].Subject = "statefulset/" + p.Set.Name
		}
	}
	return checks
}

func checkSet(demand string, h *Hold) Check {
	if h == nil {
		return Check{Gate: demand, Passed: true}
	}
	return Check{Gate: demand, Decision: h.Decision, Reason: h.Reason, Message: h.Message}
}

// CheckClaim asks every gate that a verdict on the claim rests on, in their order. There is
// none for a claim that is nil or that the set does not build.
func (p Plan) CheckClaim(s Snapshot, claim *corev1.PersistentVolumeClaim) []Check {
	if claim == nil {
		return nil
	}
	template, ordinal, ok := Candidate(p.Set, claim.Name)
	if !ok {
		return nil
	}
	const looked = "its ordinal is one that may be pruned"
	if reason, message := p.outside(ordinal); reason != "" {
		return []Check{{Gate: looked, Decision: Keep, Reason: reason, Subject: "statefulset/" + p.Set.Name, Message: message}}
	}
	checks := []Check{{Gate: looked, Passed: true}}
	v := Verdict{Claim: claim, Template: template, Ordinal: ordinal, Decision: Delete, Reason: ReasonUnused}
	for _, gate := range claimGates {
		c := Check{Gate: gate.demand, Passed: true}
		if f := gate.ask(p, s, v); f != nil {
			c = Check{Gate: gate.demand, Decision: f.decision, Reason: f.reason, Subject: f.subject, Message: f.message}
		}
		checks = append(checks, c)
	}
	return checks
}
