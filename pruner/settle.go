package pruner

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const (
	// settleTries bounds how often the closing write follows a status that moved on.
	settleTries = 10
	// settleDeadline bounds the closing write, which also happens while we are asked to
	// end: a fence that is left behind keeps people from scaling until it ends by itself.
	settleDeadline = 5 * time.Second
)

// settle closes a step with one write: it takes the fence down, and completes the record
// where nothing is left to do. A set that has changed in what matters keeps its record;
// the next look sees to it. After a delete whose end is not known the fence stays to its
// end.
func (r *reconciler) settle(ctx context.Context, out outcome, summary policy.Summary) (completed bool, err error) {
	lower := out.fenced && len(out.ambiguous) == 0
	if out.plan.Set == nil || !lower && !out.finished() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleDeadline)
	defer cancel()
	set := out.plan.Set
	for range settleTries {
		live := policy.NewPlan(set, r.defaults)
		next := live.Bookkeeping
		if lower && next.Fence == out.plan.Bookkeeping.Fence {
			next.Fence = ""
		}
		completed = out.finished() && moved(out.plan, live) == nil
		if completed {
			replicas, _ := policy.Replicas(set)
			if next, err = next.Completed(replicas, summary); err != nil {
				return false, err
			}
		}
		if next.Equal(live.Bookkeeping) {
			return false, nil
		}
		if _, err = store(ctx, r.client, set, next); !apierrors.IsConflict(err) {
			break
		}
		fresh, getErr := r.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
		if getErr != nil {
			err = getErr
			break
		}
		set = fresh
	}
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("close the step: %w", err)
	}
	return completed, nil
}

// tally notes what a step deleted, over all steps of one prune.
func (r *reconciler) tally(out outcome) policy.Summary {
	var done progress
	r.memory.change(out.plan.Set, func(s *sighting) {
		s.done.deleted = append(s.done.deleted, out.deleted...)
		s.done.deleted = append(s.done.deleted, out.dying...)
		done = s.done
	})
	return policy.Summary{
		At: r.now().UTC().Truncate(time.Second), Ordinals: ordinals(done.deleted), Claims: len(done.deleted), Bytes: total(done.deleted),
	}
}

// unenforced says whether an error means that our own webhook did not do its part.
func unenforced(err error) bool {
	return errors.Is(err, errNotFenced) || webhookDown(err)
}
