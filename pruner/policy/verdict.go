package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Verdict is the decision on one claim.
type Verdict struct {
	Claim    *corev1.PersistentVolumeClaim
	Template string
	Ordinal  int64
	Decision Decision
	Reason   Reason
	// Subject is the object that decides it, such as "pod/db-3"; "" where none does.
	Subject string
	// Message says it in words: it names the pod, set, owner or finalizer.
	Message string
}

// Verdicts decides on every claim in the plan's range, ascending by ordinal and
// then by the order of the templates. It is to be asked only when SetGates holds
// nothing; s.Set must be the object of the plan.
func (p Plan) Verdicts(s Snapshot) []Verdict {
	from, to := p.Range()
	return p.judge(s, func(claim *corev1.PersistentVolumeClaim, template string, ordinal int64) (Verdict, bool) {
		if ordinal < from || to >= 0 && ordinal >= to {
			return Verdict{}, false
		}
		return p.verdict(s, claim, template, ordinal), true
	})
}

// judge asks for a verdict on each claim that the set could build, and returns those that it
// gets in order.
func (p Plan) judge(s Snapshot, decide func(*corev1.PersistentVolumeClaim, string, int64) (Verdict, bool)) []Verdict {
	order := map[string]int{}
	for i := range p.Set.Spec.VolumeClaimTemplates {
		order[p.Set.Spec.VolumeClaimTemplates[i].Name] = i
	}
	var verdicts []Verdict
	for i := range s.Claims {
		template, ordinal, ok := Candidate(p.Set, s.Claims[i].Name)
		if !ok {
			continue
		}
		if v, judged := decide(&s.Claims[i], template, ordinal); judged {
			verdicts = append(verdicts, v)
		}
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(a.Ordinal, b.Ordinal), cmp.Compare(order[a.Template], order[b.Template]))
	})
	return verdicts
}

func (p Plan) verdict(s Snapshot, claim *corev1.PersistentVolumeClaim, template string, ordinal int64) Verdict {
	v := Verdict{Claim: claim, Template: template, Ordinal: ordinal, Decision: Delete, Reason: ReasonUnused}
	for _, gate := range claimGates {
		if f := gate.ask(p, s, v); f != nil {
			v.Decision, v.Reason, v.Subject, v.Message = f.decision, f.reason, f.subject, f.message
			return v
		}
	}
	return v
}

// Terminating is the verdict on a claim that is on its way out, as far as it has come.
func (v Verdict) Terminating() Verdict {
	held := strings.Join(v.Claim.Finalizers, ", ")
	v.Decision, v.Reason, v.Subject, v.Message = Wait, ReasonTerminating, held, "already terminating"
	if held != "" {
		v.Message += ", held by the finalizers " + held
	}
	return v
}

// Size is what the claim holds, or has asked for while it is not bound, in bytes.
func (v Verdict) Size() int64 {
	size := v.Claim.Status.Capacity[corev1.ResourceStorage]
	if size.IsZero() {
		size = v.Claim.Spec.Resources.Requests[corev1.ResourceStorage]
	}
	return size.Value()
}

// Finished says whether nothing is left to wait for among the verdicts: each claim
// is gone or finally kept.
func Finished(verdicts []Verdict) bool {
	return !slices.ContainsFunc(verdicts, func(v Verdict) bool { return v.Decision != Keep })
}

// NextLook is how long to wait before looking again at something that announces no
// end of its own (a foreign pod, a finalizer): a quarter of the time it has taken so
// far, but neither more often than twice a minute nor less than every five minutes.
func NextLook(waited time.Duration) time.Duration {
	return min(max(waited/4, 30*time.Second), 5*time.Minute)
}
