package pruner

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// A claim may change between list and DELETE for harmless reasons: since 1.37 the
// controller manager writes an Unused condition into it just after its last pod is
// gone. Then everything is read and judged again, this often, with growing pauses.
const (
	conflictRounds = 5
	conflictPause  = 100 * time.Millisecond
)

// step is one attempt to prune one StatefulSet: live reads, verdicts, deletes. It
// does not know where the plan comes from; the caller's plan function turns the live
// object into controls and bookkeeping.
type step struct {
	client kubernetes.Interface
	key    types.NamespacedName
	uid    types.UID
	plan   func(*appsv1.StatefulSet) policy.Plan
	now    func() time.Time
	log    logr.Logger
}

// outcome is what a step saw and did.
type outcome struct {
	// plan is the live object, read at the beginning.
	plan policy.Plan
	// hold: nothing was looked at, and why.
	hold *policy.Hold
	// verdicts of the last round, less those that were deleted.
	verdicts []policy.Verdict
	// deleted claims are gone; dying ones were deleted and have not gone in time.
	deleted, dying []policy.Verdict
	// failed are the deletes that the API server refused.
	failed []failure
	// stopped: the deletions were broken off, and why.
	stopped error
}

type failure struct {
	verdict policy.Verdict
	err     error
}

// finished says whether the prune is complete: no claim is left to delete or wait for.
func (o outcome) finished() bool {
	return o.hold == nil && o.stopped == nil && len(o.failed) == 0 && len(o.dying) == 0 &&
		!o.plan.Controls.DryRun && policy.Finished(o.verdicts)
}

// run carries out the step. An error means that something could not be read; what
// was deleted before is in the outcome all the same.
func (s *step) run(ctx context.Context) (outcome, error) {
	set, err := s.client.AppsV1().StatefulSets(s.key.Namespace).Get(ctx, s.key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return outcome{hold: &policy.Hold{Decision: policy.Keep, Reason: policy.ReasonDeleting, Message: "the StatefulSet is gone"}}, nil
	}
	if err != nil {
		return outcome{}, fmt.Errorf("get StatefulSet: %w", err)
	}
	out := outcome{plan: s.plan(set)}
	if out.hold = out.plan.SetGates(s.uid, s.now()); out.hold != nil {
		return out, nil
	}
	guarded, stop := s.guard(ctx, out.plan)
	defer stop()
	err = s.prune(guarded, &out)
	if cause := context.Cause(guarded); cause != nil {
		// The reads that failed did so because the step was broken off.
		out.stopped, err = cause, nil
	}
	return out, err
}

// prune judges and deletes until no delete meets a conflict, then waits for the
// claims to go.
func (s *step) prune(ctx context.Context, out *outcome) error {
	var accepted []policy.Verdict
	var since string
	for round := range conflictRounds {
		snapshot, version, err := s.readSnapshot(ctx, out.plan.Set)
		if err != nil {
			return err
		}
		if round == 0 {
			since = version
		}
		out.verdicts = without(out.plan.Verdicts(snapshot), accepted)
		if out.plan.Controls.DryRun {
			return nil
		}
		attempt := s.deleteUnused(ctx, out.verdicts)
		accepted = append(accepted, attempt.accepted...)
		out.failed = attempt.failed
		out.verdicts = without(out.verdicts, attempt.accepted)
		if len(attempt.conflicts) == 0 || !pause(ctx, conflictPause<<round) {
			break
		}
	}
	gone, err := s.awaitGone(ctx, since, accepted)
	out.deleted = gone
	out.dying = without(accepted, gone)
	return err
}

// without returns the verdicts whose claims are not among others, by UID.
func without(verdicts, others []policy.Verdict) []policy.Verdict {
	drop := map[types.UID]bool{}
	for _, o := range others {
		drop[o.Claim.UID] = true
	}
	var rest []policy.Verdict
	for _, v := range verdicts {
		if !drop[v.Claim.UID] {
			rest = append(rest, v)
		}
	}
	return rest
}

// pause waits, and says whether the context still lives.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
