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
// the next look sees to it.
func (r *reconciler) settle(ctx context.Context, out outcome, summary policy.Summary) (completed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleDeadline)
	defer cancel()
	live := out.plan
	for range settleTries {
		var next policy.Bookkeeping
		if next, completed, err = closing(out, live, summary); err != nil || next.Equal(live.Bookkeeping) {
			return false, err
		}
		if _, err = store(ctx, r.client, live.Set, next); !apierrors.IsConflict(err) {
			break
		}
		set, getErr := r.client.AppsV1().StatefulSets(live.Set.Namespace).Get(ctx, live.Set.Name, metav1.GetOptions{})
		if getErr != nil {
			err = getErr
			break
		}
		live = policy.NewPlan(set, r.defaults)
	}
	if err != nil {
		return false, gone(err)
	}
	return completed, nil
}

// gone is nil for a set that does not exist any more: there is nothing to close.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("close the step: %w", err)
}

// closing is the bookkeeping of the live object after the step. A fence that is not the
// step's stays, and so does its own, to its end, after a delete whose end is not known.
func closing(out outcome, live policy.Plan, summary policy.Summary) (next policy.Bookkeeping, completes bool, err error) {
	next = live.Bookkeeping
	if out.fenced && len(out.ambiguous) == 0 && next.Fence == out.plan.Bookkeeping.Fence {
		next.Fence = ""
	}
	if same := moved(out.plan, live) == nil; !same || !out.finished() {
		return next, false, nil
	}
	replicas, _ := policy.Replicas(live.Set)
	next, err = next.Completed(replicas, summary)
	return next, true, err
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
