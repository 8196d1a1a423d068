package pruner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// freshFor is how long a live look at the set holds. A watch may stall without a sign, and
// no sooner than stallAfter is that noticed; a prune of many claims takes about a tenth of
// a second, so that only slow ones look again.
const freshFor = 250 * time.Millisecond

// guard watches a set that is being pruned, and makes sure that it is still what the
// step was planned on: replicas, ordinals, UID, deletion, opt-out, pause, dry-run or any
// other control.
type guard struct {
	*step
	planned policy.Plan
	cancel  context.CancelCauseFunc

	// watching: a watch is open, and what it held ready has been looked at.
	watching  atomic.Bool
	opened    chan struct{} // closed when a watch is open for the first time
	firstOpen sync.Once
	closed    chan struct{} // closed when the guard has ended
	// looked is when the last live look at the set was asked for.
	looked time.Time
}

// watchOver starts a guard over a set. The context that it returns ends, with the cause,
// as soon as the set is no longer what was planned on, or can be neither watched nor read.
// The watch begins at the resourceVersion of the object that was read, so no change since
// can be missed; it is open when watchOver returns.
func (s *step) watchOver(ctx context.Context, plan policy.Plan) (context.Context, *guard) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guard{step: s, planned: plan, cancel: cancel, opened: make(chan struct{}), closed: make(chan struct{})}
	go func() {
		defer close(g.closed)
		cancel(g.follow(ctx))
	}()
	select {
	case <-g.opened:
	case <-g.closed:
	}
	return ctx, g
}

// stop ends the guard and waits until its watch is closed.
func (g *guard) stop() {
	g.cancel(errStepDone)
	<-g.closed
}

// stands says whether the set may be trusted to be what was planned on. Unless it was
// looked at live a moment ago and is watched now, it is looked at again; what that finds
// ends the guard's context.
func (g *guard) stands(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if g.watching.Load() && time.Since(g.looked) < freshFor {
		return true
	}
	asked := time.Now()
	if _, err := g.look(ctx); err != nil {
		g.cancel(err)
		return false
	}
	g.looked = asked
	return ctx.Err() == nil
}

// look reads the set live. The error says how it moved, or that it could not be read.
func (g *guard) look(ctx context.Context) (*appsv1.StatefulSet, error) {
	set, err := g.client.AppsV1().StatefulSets(g.key.Namespace).Get(ctx, g.key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, errVanished
	}
	if err != nil {
		return nil, fmt.Errorf("get StatefulSet: %w", err)
	}
	return set, g.moved(g.planned, g.plan(set))
}
