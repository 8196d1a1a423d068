package pruner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// A claim may change between list and DELETE for harmless reasons: since 1.37 the
// controller manager writes an Unused condition into it just after its last pod is
// gone. Then everything is read and judged again, this often, with growing pauses.
const (
	conflictRounds = 5
	conflictPause  = 100 * time.Millisecond
)

// step is one attempt to prune one StatefulSet: live reads, verdicts, a fence, deletes.
// It does not know where the plan comes from; the caller's plan function turns the live
// object into controls and bookkeeping.
type step struct {
	client kubernetes.Interface
	key    types.NamespacedName
	uid    types.UID
	plan   func(*appsv1.StatefulSet) policy.Plan
	// moved says how the live plan differs from the one that the step was planned on, as
	// far as it matters; nil if it does not.
	moved func(planned, now policy.Plan) error
	// fence is nil for callers whose StatefulSet nobody scales while they prune it.
	fence *fencer
	// considerWorkloads: the workloads of the namespace are looked at.
	considerWorkloads bool
	// snapshots is nil where VolumeSnapshots are neither looked at nor taken.
	snapshots snapshotclient.Interface
	// around is what lookAround found.
	around surroundings
	// strict: a watch that fails counts as a change, rather than being opened again.
	strict bool
	// patience is how long deleted claims are waited for.
	patience time.Duration
	now      func() time.Time
	log      logr.Logger
}

// outcome is what a step saw and did.
type outcome struct {
	// plan is the live object: with the fence, if one was put up.
	plan policy.Plan
	// hold: nothing was looked at, and why.
	hold *policy.Hold
	// fenced: our fence stands on the object of the plan.
	fenced bool
	// verdicts of the last round, less those that were deleted.
	verdicts []policy.Verdict
	// deleted claims are gone; dying ones were deleted and have not gone in time.
	deleted, dying []policy.Verdict
	// failed are the deletes that the API server refused.
	failed []failure
	// ambiguous are deletes that may or may not have happened, or still may.
	ambiguous []failure
	// completed: the record of the prune was closed.
	completed bool
	// stopped: the deletions were broken off, and why.
	stopped error
}

type failure struct {
	verdict policy.Verdict
	err     error
}

// finished says whether the prune is complete: no claim is left to delete or wait for.
func (o outcome) finished() bool {
	return o.hold == nil && o.stopped == nil && len(o.failed)+len(o.ambiguous)+len(o.dying) == 0 &&
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
	// A first look, before anybody is kept from scaling: most often all that is left
	// must wait.
	snapshot, _, err := live.Snapshot(ctx, s.client, set)
	if err != nil {
		return out, err
	}
	out.verdicts = out.plan.Verdicts(snapshot)
	if !slices.ContainsFunc(out.verdicts, promising) {
		return out, nil
	}
	if s.around, err = s.lookAround(ctx); err != nil {
		return out, err
	}
	out.verdicts = out.plan.Verdicts(s.around.of(snapshot))
	if out.plan.Controls.DryRun {
		return out, nil // nothing behind this line is done in a dry run
	}
	out.verdicts = s.takeSnapshots(ctx, out.plan, out.verdicts)
	if !slices.ContainsFunc(out.verdicts, deletable) {
		return out, nil
	}
	return s.prune(ctx, out)
}

// promising says whether a claim may turn out to be deletable when all is looked at.
func promising(v policy.Verdict) bool { return deletable(v) || lacksSnapshot(v) }

func deletable(v policy.Verdict) bool { return v.Decision == policy.Delete }

// prune deletes behind a fence, and keeps the fence until the claims are gone. The
// caller takes it down.
func (s *step) prune(ctx context.Context, out outcome) (outcome, error) {
	if s.fence != nil {
		plan, until, err := s.raiseFence(ctx, out.plan)
		if err != nil {
			out.stopped = err
			return out, nil
		}
		out.plan, out.fenced = plan, true
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, until, errFenceEnds)
		defer cancel()
	}
	guarded, g := s.watchOver(ctx, out.plan)
	defer g.stop()
	err := s.proveFence(guarded, out.plan)
	if err == nil {
		err = s.deleteAll(guarded, g, &out)
	}
	if cause := context.Cause(guarded); cause != nil {
		// The reads that failed did so because the step was broken off.
		out.stopped, err = cause, nil
	} else if errors.Is(err, errNotFenced) || errors.Is(err, errMoved) {
		out.stopped, err = err, nil
	}
	return out, err
}

func (s *step) raiseFence(ctx context.Context, plan policy.Plan) (policy.Plan, time.Time, error) {
	fenced, until, err := s.fence.raise(ctx, plan, s.plan)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return plan, until, fmt.Errorf("%w before the fence stood", errMoved)
	case err != nil:
		return plan, until, fmt.Errorf("put up the fence: %w", err)
	}
	return fenced, until, nil
}

func (s *step) proveFence(ctx context.Context, plan policy.Plan) error {
	if s.fence == nil {
		return nil
	}
	return s.fence.prove(ctx, plan)
}

// deleteAll judges and deletes until no delete meets a conflict, then waits for the
// claims to go. However the deletions end, what has been deleted is waited for.
func (s *step) deleteAll(ctx context.Context, g *guard, out *outcome) error {
	accepted, since, err := s.deleteRounds(ctx, g, out)
	out.deleted, out.dying = s.awaitGone(ctx, since, accepted)
	return err
}

// deleteRounds returns the claims that were deleted, and the version of the first list.
func (s *step) deleteRounds(ctx context.Context, g *guard, out *outcome) (accepted []policy.Verdict, since string, err error) {
	for round := range conflictRounds {
		asked := time.Now()
		snapshot, version, err := live.Snapshot(ctx, s.client, out.plan.Set)
		if err != nil {
			return accepted, since, err
		}
		if round == 0 {
			since = version
		}
		if err := s.unmoved(out.plan, snapshot); err != nil {
			return accepted, since, err
		}
		g.looked = asked
		out.verdicts = without(out.plan.Verdicts(s.around.of(snapshot)), accepted)
		attempt := s.deleteUnused(ctx, g, out.verdicts)
		accepted = append(accepted, attempt.accepted...)
		out.failed, out.ambiguous = attempt.failed, attempt.ambiguous
		out.verdicts = without(out.verdicts, attempt.accepted)
		if len(attempt.conflicts) == 0 || len(attempt.ambiguous) > 0 || !pause(ctx, conflictPause<<round) {
			break
		}
	}
	return accepted, since, nil
}

// unmoved looks for the set among those that were listed live. The watch would tell of a
// change too, but later: a scale-up may have passed between fence and proof, while our
// webhook could not be asked.
func (s *step) unmoved(plan policy.Plan, snapshot policy.Snapshot) error {
	for i := range snapshot.Sets {
		if snapshot.Sets[i].Name == plan.Set.Name {
			return s.moved(plan, s.plan(&snapshot.Sets[i]))
		}
	}
	return errVanished
}

// identity of a claim: one with the same name and another UID is another claim.
type identity struct {
	name string
	uid  types.UID
}

func identify(claim *corev1.PersistentVolumeClaim) identity { return identity{claim.Name, claim.UID} }

// without returns the verdicts whose claims are not among others.
func without(verdicts, others []policy.Verdict) []policy.Verdict {
	drop := map[identity]bool{}
	for _, o := range others {
		drop[identify(o.Claim)] = true
	}
	var rest []policy.Verdict
	for _, v := range verdicts {
		if !drop[identify(v.Claim)] {
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
