package pruner

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// ErrConcurrentModification ends a Prune during which the StatefulSet was scaled, moved,
// replaced or deleted. What was deleted before is gone; nothing is deleted afterwards.
var ErrConcurrentModification = errors.New("concurrent statefulset modification detected")

// libraryPatience is how long Prune waits for claims that it deleted to disappear.
const libraryPatience = 2 * time.Minute

// PersistentVolumePruner deletes the claims that a StatefulSet does not use, for
// operators that scale it themselves and want one safe call: without webhook, without
// annotations and without an undo window.
//
// It takes no fence (see the package comment of webhook): whoever calls Prune must not
// scale the StatefulSet up before it returns. A scale-up that happens all the same is
// noticed by a watch and ends the deletions, but one that lands together with a DELETE
// may start a pod on a claim that is going.
type PersistentVolumePruner struct {
	// Namespace and StatefulSet name the set.
	Namespace, StatefulSet string
	// ClientSet needs the rights to get and watch statefulsets, to list statefulsets and
	// pods, and to list, watch and delete persistentvolumeclaims in the namespace.
	ClientSet kubernetes.Interface
	// Logger tells what is deleted, and what stays and why. The zero value is silent.
	Logger logr.Logger
}

// Prune deletes every claim of the set's templates whose ordinal is at or above
// start+replicas, found by its exact name, ascending by ordinal, and waits until the
// claims are gone.
//
// A claim that must stay (a pod names it or has its ordinal, another StatefulSet could
// use its name, another controller owns it, it is annotated to be kept, it is being
// cloned or snapshotted) stays, which is no error: it is not unused. It is logged, and
// the next call looks again.
//
// Prune returns ErrConcurrentModification if the count, the first ordinal or the
// identity of the set changes while it runs. Any other error means that something could
// not be read or deleted, or was not gone in time; it is safe to call again.
func (p *PersistentVolumePruner) Prune(ctx context.Context) error {
	set, err := p.ClientSet.AppsV1().StatefulSets(p.Namespace).Get(ctx, p.StatefulSet, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get StatefulSet: %w", err)
	}
	if _, ok := policy.Replicas(set); !ok {
		return fmt.Errorf("StatefulSet %s/%s has no valid spec.replicas: nothing can be derived from it", p.Namespace, p.StatefulSet)
	}
	if set.DeletionTimestamp != nil {
		return fmt.Errorf("StatefulSet %s/%s is being deleted: its claims stay", p.Namespace, p.StatefulSet)
	}
	s := &step{
		client: p.ClientSet, key: types.NamespacedName{Namespace: p.Namespace, Name: p.StatefulSet}, uid: set.UID,
		plan: everythingUnused, moved: rangeMoved, strict: true, patience: libraryPatience, now: time.Now, log: p.logger(),
	}
	out, err := s.prune(ctx, outcome{plan: everythingUnused(set)})
	if err != nil {
		return err
	}
	return p.result(out)
}

func (p *PersistentVolumePruner) logger() logr.Logger {
	log := p.Logger
	if log.GetSink() == nil {
		log = logr.Discard()
	}
	return log.WithValues("namespace", p.Namespace, "statefulSet", p.StatefulSet)
}

// result turns what a step did into what the caller needs to know.
func (p *PersistentVolumePruner) result(out outcome) error {
	for _, v := range out.verdicts {
		if v.Decision != policy.Delete {
			p.logger().Info("Kept claim", "claim", v.Claim.Name, "decision", v.Decision, "reason", v.Reason, "message", v.Message)
		}
	}
	if errors.Is(out.stopped, errMoved) {
		return ErrConcurrentModification
	}
	errs := []error{out.stopped}
	for _, f := range append(out.failed, out.ambiguous...) {
		errs = append(errs, fmt.Errorf("delete claim %s: %w", f.verdict.Claim.Name, f.err))
	}
	if len(out.dying) > 0 {
		errs = append(errs, fmt.Errorf("deleted, but not gone after %s: %s", libraryPatience, strings.Join(names(out.dying), ", ")))
	}
	for _, v := range out.verdicts {
		if v.Decision == policy.Delete && len(out.failed)+len(out.ambiguous) == 0 && out.stopped == nil {
			errs = append(errs, fmt.Errorf("claim %s changes faster than it can be judged", v.Claim.Name))
		}
	}
	return errors.Join(errs...)
}

// everythingUnused is the plan of an operator that asked for it: all ordinals above the
// range, now.
func everythingUnused(set *appsv1.StatefulSet) policy.Plan {
	replicas, ok := policy.Replicas(set)
	plan := policy.Plan{Set: set, Controls: policy.Controls{Enabled: true, Scope: policy.ScopeAll, PruneAtZero: true}}
	if ok {
		plan.Bookkeeping = policy.Bookkeeping{Prior: &replicas, Window: &policy.Window{Target: replicas}}
	}
	return plan
}

// rangeMoved is moved for callers that have no annotations: what matters to them is
// which ordinals are in range.
func rangeMoved(planned, now policy.Plan) error {
	replicas, ok := policy.Replicas(now.Set)
	was, _ := policy.Replicas(planned.Set)
	switch {
	case now.Set.UID != planned.Set.UID, now.Set.DeletionTimestamp != nil, !ok,
		replicas != was, policy.Start(now.Set) != policy.Start(planned.Set):
		return errMoved
	}
	return nil
}
