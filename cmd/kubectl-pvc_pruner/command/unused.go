package command

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// UnusedClaim is a claim of a StatefulSet that no replica of it uses.
type UnusedClaim struct {
	Namespace string `json:"namespace"`
	// StatefulSet is "" if the one that it was made for is not there.
	StatefulSet string `json:"statefulSet,omitempty"`
	ClaimPlan
}

// findUnused finds the claims above the range of their StatefulSet, and those whose set is
// gone, in one namespace, or in all that have claims if that is "". The biggest come first.
func (r *reader) findUnused(ctx context.Context, namespace string) ([]UnusedClaim, error) {
	claims, err := r.client.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	if claims.Continue != "" {
		return nil, live.ErrPartialList
	}
	unused := []UnusedClaim{}
	seen := map[string]bool{}
	for i := range claims.Items {
		if ns := claims.Items[i].Namespace; !seen[ns] {
			seen[ns] = true
			s, err := r.namespaceOf(ctx, ns)
			if err != nil {
				return nil, fmt.Errorf("namespace %s: %w", ns, err)
			}
			unused = append(unused, r.unusedOf(ns, s)...)
		}
	}
	slices.SortFunc(unused, func(a, b UnusedClaim) int {
		return cmp.Or(-cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return unused, nil
}

// unusedOf are the unused claims of a namespace.
func (r *reader) unusedOf(namespace string, s policy.Snapshot) (unused []UnusedClaim) {
	listed := map[string]bool{}
	for i := range s.Sets {
		for _, c := range Foresee(s, &s.Sets[i], r.reclaim, r.now()).Claims {
			start := int64(policy.Start(&s.Sets[i]))
			replicas, ok := policy.Replicas(&s.Sets[i])
			if !ok || c.Ordinal < start+int64(replicas) || listed[c.Name] {
				continue
			}
			listed[c.Name] = true // a name that two sets could build is kept by either
			unused = append(unused, UnusedClaim{Namespace: namespace, StatefulSet: s.Sets[i].Name, ClaimPlan: c})
		}
	}
	for i := range s.Claims {
		if abandoned(s, &s.Claims[i]) {
			v := policy.Verdict{
				Claim: &s.Claims[i], Ordinal: -1, Decision: policy.Keep, Reason: policy.ReasonSetGone,
				Message: "made for a StatefulSet that is gone; pvc-pruner never deletes it",
			}
			unused = append(unused, UnusedClaim{Namespace: namespace, ClaimPlan: claimPlan(policy.Foreseen{Verdict: v}, r.reclaim)})
		}
	}
	return unused
}

// ordinalName is a name as the StatefulSet controller builds it: template, set, ordinal.
var ordinalName = regexp.MustCompile(`^[a-z0-9].*-[a-z0-9.-]*[a-z0-9]-(0|[1-9][0-9]{0,9})$`)

// abandoned says whether a claim was made by the StatefulSet controller for a set that is not
// there any more, and nobody uses it. A name alone proves nothing: the controller manager
// must have made it, and neither a pod (as for ephemeral volumes) nor anything else own it.
func abandoned(s policy.Snapshot, claim *corev1.PersistentVolumeClaim) bool {
	if !ordinalName.MatchString(claim.Name) || !policy.MadeByController(claim) || metav1.GetControllerOf(claim) != nil {
		return false
	}
	for i := range s.Sets {
		if _, _, ok := policy.Candidate(&s.Sets[i], claim.Name); ok {
			return false
		}
	}
	return !slices.ContainsFunc(s.Pods, func(pod corev1.Pod) bool { return policy.Uses(&pod, claim.Name) })
}
