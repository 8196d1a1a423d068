package pruner

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// deleteDeadline bounds one DELETE on both sides. A call without an end would let a
// deletion that was decided long ago happen now.
const deleteDeadline = 5 * time.Second

// attempt is what became of the deletes of one round.
type attempt struct {
	accepted  []policy.Verdict // deleted, or gone already
	conflicts []policy.Verdict // changed since they were read
	failed    []failure        // refused
	ambiguous []failure        // neither confirmed nor refused: it may still land
}

// deleteUnused deletes the claims whose verdict is Delete, in the order given, and
// before each makes sure that the step still stands. A delete whose end is not known
// ends the round. This is the only place that deletes claims.
func (s *step) deleteUnused(ctx context.Context, g *guard, verdicts []policy.Verdict) attempt {
	var a attempt
	for _, v := range verdicts {
		if v.Decision != policy.Delete {
			continue
		}
		if len(a.ambiguous) > 0 || !g.stands(ctx) {
			return a
		}
		switch err := s.deleteClaim(ctx, v); {
		case err == nil, apierrors.IsNotFound(err):
			s.log.Info("Deleted claim", "claim", v.Claim.Name, "claimUID", v.Claim.UID, "ordinal", v.Ordinal, "reason", v.Reason)
			a.accepted = append(a.accepted, v)
		case apierrors.IsConflict(err):
			s.log.V(1).Info("Claim changed since it was read", "claim", v.Claim.Name)
			a.conflicts = append(a.conflicts, v)
		case refused(err):
			a.failed = append(a.failed, failure{verdict: v, err: err})
		default:
			s.log.Info("Deletion neither confirmed nor refused", "claim", v.Claim.Name, "claimUID", v.Claim.UID, "cause", err.Error())
			a.ambiguous = append(a.ambiguous, failure{verdict: v, err: err})
		}
	}
	return a
}

// refused says whether the API server itself says that it did not do what was asked.
// A connection that broke, a deadline, or a server's error may have come after the deed.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// deleteClaim deletes exactly the claim that was judged, in the version that was
// judged. A DELETE that is under way when the step is broken off is finished rather
// than cut, so that its end is known.
func (s *step) deleteClaim(ctx context.Context, v policy.Verdict) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteDeadline)
	defer cancel()
	background := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{
		PropagationPolicy: &background,
		Preconditions:     preconditions(v.Claim),
	}
	// Through the REST client where there is one: it can tell the server the deadline
	// too, and does not send a request a second time by itself.
	if server, ok := s.client.CoreV1().RESTClient().(*rest.RESTClient); ok && server != nil {
		return server.Delete().Namespace(s.key.Namespace).Resource("persistentvolumeclaims").Name(v.Claim.Name).
			Timeout(deleteDeadline).MaxRetries(0).Body(&options).Do(ctx).Error()
	}
	return s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).Delete(ctx, v.Claim.Name, options)
}

// preconditions pin the claim that was judged, in the version that was judged. Only a
// fake API server leaves either empty.
func preconditions(claim *corev1.PersistentVolumeClaim) *metav1.Preconditions {
	p := &metav1.Preconditions{}
	if claim.UID != "" {
		p.UID = &claim.UID
	}
	if claim.ResourceVersion != "" {
		p.ResourceVersion = &claim.ResourceVersion
	}
	return p
}
