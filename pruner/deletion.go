package pruner

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// deleteDeadline bounds one DELETE. A call without an end would let a deletion that
// was decided long ago happen now.
const deleteDeadline = 5 * time.Second

// attempt is what became of the deletes of one round.
type attempt struct {
	accepted  []policy.Verdict // deleted, or gone already
	conflicts []policy.Verdict // changed since they were read
	failed    []failure
}

// deleteUnused deletes the claims whose verdict is Delete, in the order given, and
// before each makes sure that the step still stands. This is the only place that
// deletes claims.
func (s *step) deleteUnused(ctx context.Context, verdicts []policy.Verdict) attempt {
	var a attempt
	for _, v := range verdicts {
		if v.Decision != policy.Delete {
			continue
		}
		if ctx.Err() != nil {
			return a
		}
		switch err := s.deleteClaim(ctx, v); {
		case err == nil, apierrors.IsNotFound(err):
			s.log.Info("Deleted claim", "claim", v.Claim.Name, "claimUID", v.Claim.UID, "ordinal", v.Ordinal, "reason", v.Reason)
			a.accepted = append(a.accepted, v)
		case apierrors.IsConflict(err):
			s.log.V(1).Info("Claim changed since it was read", "claim", v.Claim.Name)
			a.conflicts = append(a.conflicts, v)
		default:
			a.failed = append(a.failed, failure{verdict: v, err: err})
		}
	}
	return a
}

// deleteClaim deletes exactly the claim that was judged, in the version that was
// judged. A DELETE that is under way when the step is broken off is finished rather
// than cut, so that its end is known.
func (s *step) deleteClaim(ctx context.Context, v policy.Verdict) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteDeadline)
	defer cancel()
	background := metav1.DeletePropagationBackground
	return s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).Delete(ctx, v.Claim.Name, metav1.DeleteOptions{
		PropagationPolicy: &background,
		Preconditions: &metav1.Preconditions{
			UID: &v.Claim.UID, ResourceVersion: &v.Claim.ResourceVersion,
		},
	})
}
