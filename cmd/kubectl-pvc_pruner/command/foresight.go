package command

import (
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// SetPlan is what becomes of the claims of a StatefulSet, as plan shows it.
type SetPlan struct {
	Namespace   string `json:"namespace"`
	StatefulSet string `json:"statefulSet"`
	Replicas    int32  `json:"replicas"`
	// Hypothetical: the set is not opted in, and this is what would happen if it were, with
	// scope all unless it says otherwise.
	Hypothetical bool `json:"hypothetical,omitempty"`
	// Held is why nothing of the set is deleted now; nil if nothing holds it.
	Held   *Held       `json:"held,omitempty"`
	Claims []ClaimPlan `json:"claims"`
	Totals Totals      `json:"totals"`
}

// Held is what holds a whole set.
type Held struct {
	Decision policy.Decision `json:"decision"`
	Reason   policy.Reason   `json:"reason"`
	Message  string          `json:"message"`
	Until    *metav1.Time    `json:"until,omitempty"`
}

// ClaimPlan is what becomes of one claim.
type ClaimPlan struct {
	Name     string `json:"name"`
	Ordinal  int64  `json:"ordinal"`
	Template string `json:"template"`
	// Bytes that it holds, or asks for while it is not bound.
	Bytes         int64           `json:"bytes"`
	StorageClass  string          `json:"storageClass,omitempty"`
	ReclaimPolicy string          `json:"reclaimPolicy,omitempty"`
	Verdict       policy.Decision `json:"verdict"`
	Reason        policy.Reason   `json:"reason"`
	Message       string          `json:"message,omitempty"`
	// Subject is the object that decides it, such as "pod/db-3".
	Subject string `json:"subject,omitempty"`
	// When it may go at the earliest; absent: nobody knows, or never.
	When *metav1.Time `json:"when,omitempty"`
}

// Totals are bytes: of claims that go now, that go soon or wait for something, and that stay.
type Totals struct {
	Now  int64 `json:"nowBytes"`
	Soon int64 `json:"soonBytes"`
	Kept int64 `json:"keptBytes"`
}

func (t *Totals) add(d policy.Decision, bytes int64) {
	switch d {
	case policy.Delete:
		t.Now += bytes
	case policy.Wait:
		t.Soon += bytes
	default:
		t.Kept += bytes
	}
}

// policyPlan reads a set as the pruner does, with the cluster-wide defaults that its record
// names. A set that is not opted in is planned as if it were, by the rules of admission.
func policyPlan(set *appsv1.StatefulSet, now time.Time) (plan policy.Plan, hypothetical bool) {
	defaults := policy.DefaultControls(policy.DefaultDelay)
	if record := policy.ReadBookkeeping(set.Annotations).Record; record != nil {
		defaults = policy.DefaultsFrom(record.Defaults)
	}
	defaults.Snapshots = true // no annotation tells; an Event does where it is not so
	if _, controlled := set.Annotations[policy.KeyEnabled]; controlled {
		return policy.NewPlan(set, defaults), false
	}
	return policy.NewPlan(ifOptedIn(set, defaults, now), defaults), true
}

// ifOptedIn is the set as admission would store it if it were opted in now, with scope all:
// without that, only what is scaled down afterwards may go, of which nothing is there yet.
func ifOptedIn(set *appsv1.StatefulSet, defaults policy.Controls, now time.Time) *appsv1.StatefulSet {
	updated := set.DeepCopy()
	if updated.Annotations == nil {
		updated.Annotations = map[string]string{}
	}
	updated.Annotations[policy.KeyEnabled] = "true"
	if updated.Annotations[policy.KeyScope] == "" {
		updated.Annotations[policy.KeyScope] = string(policy.ScopeAll)
	}
	stored, err := policy.OnUpdate(set, updated, defaults, now).Annotations()
	if err != nil {
		return set // it could not be stored either
	}
	maps.Copy(updated.Annotations, stored)
	return updated
}

// Foresee plans one set of the namespace that s is of. reclaim may be nil.
func Foresee(s policy.Snapshot, set *appsv1.StatefulSet, reclaim map[string]corev1.PersistentVolumeReclaimPolicy, now time.Time) SetPlan {
	plan, hypothetical := policyPlan(set, now)
	if plan.Controls.IgnoreWorkloads {
		s.Workloads = nil
	}
	s.Set = plan.Set
	replicas, _ := policy.Replicas(set)
	out := SetPlan{Namespace: set.Namespace, StatefulSet: set.Name, Replicas: replicas, Hypothetical: hypothetical, Claims: []ClaimPlan{}}
	hold := plan.SetGates(set.UID, now)
	if hold == nil && plan.Controls.DryRun {
		hold = &policy.Hold{Decision: policy.Keep, Reason: policy.ReasonDryRun, Message: "dry run: it is only reported"}
	}
	if hold != nil {
		out.Held = &Held{Decision: hold.Decision, Reason: hold.Reason, Message: hold.Message, Until: timeOrNil(hold.Until)}
	}
	for _, f := range policy.Foresee(plan.Account(s), hold) {
		c := claimPlan(f, reclaim)
		out.Claims = append(out.Claims, c)
		out.Totals.add(c.Verdict, c.Bytes)
	}
	return out
}

func claimPlan(f policy.Foreseen, reclaim map[string]corev1.PersistentVolumeReclaimPolicy) ClaimPlan {
	c := ClaimPlan{
		Name: f.Claim.Name, Ordinal: f.Ordinal, Template: f.Template, Bytes: f.Size(),
		ReclaimPolicy: string(reclaim[f.Claim.Spec.VolumeName]),
		Verdict:       f.Decision, Reason: f.Reason, Message: f.Message, Subject: f.Subject, When: timeOrNil(f.Until),
	}
	if f.Claim.Spec.StorageClassName != nil {
		c.StorageClass = *f.Claim.Spec.StorageClassName
	}
	return c
}

func timeOrNil(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return &metav1.Time{Time: t.UTC()}
}
