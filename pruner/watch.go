package pruner

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var (
	errMoved    = errors.New("the StatefulSet changed")
	errVanished = fmt.Errorf("%w: it is gone", errMoved)
	errStepDone = errors.New("the step is over")
	errStalled  = errors.New("the watch of the StatefulSet stalled")
)

// watchFor is how long one watch lasts, and stallAfter when one that does not end by
// itself counts as broken: a connection that died in silence must not look like a set
// that nobody touches.
const (
	watchFor   = 10 * time.Second
	stallAfter = 12 * time.Second
)

// maxFailures of the watch in a row are made up for by reading the set.
const maxFailures = 10

// resumeAfter is the pause before a watch that ended is opened again, so that a
// server which closes every watch at once is not hammered.
const resumeAfter = 100 * time.Millisecond

// follow returns the first reason to stop.
func (g *guard) follow(ctx context.Context) error {
	version := g.planned.Set.ResourceVersion
	for failures := 0; ; {
		next, err := g.followOnce(ctx, version)
		g.watching.Store(false)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil: // the watch ended in the ordinary way
			version, failures = next, 0
		case failures == maxFailures:
			return err // to read again and again is no substitute
		case errors.Is(err, errMoved):
			return err
		default: // expired or broken: only a live look can tell whether anything moved
			set, getErr := g.look(ctx)
			if errors.Is(getErr, errMoved) {
				return getErr
			}
			if getErr != nil {
				return fmt.Errorf("the StatefulSet can neither be watched (%w) nor read: %w", err, getErr)
			}
			version = set.ResourceVersion
			failures++
		}
		if !pause(ctx, resumeAfter) {
			return context.Cause(ctx)
		}
	}
}

// followOnce follows one watch until it ends, and returns the last version it saw.
func (g *guard) followOnce(ctx context.Context, version string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, stallAfter, errStalled)
	defer cancel()
	seconds := int64(watchFor / time.Second)
	w, err := g.client.AppsV1().StatefulSets(g.key.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector:       fields.OneTermEqualSelector("metadata.name", g.key.Name).String(),
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      &seconds,
	})
	if err != nil {
		return version, fmt.Errorf("watch StatefulSet: %w", err)
	}
	defer w.Stop()
	for {
		event, ok := g.nextEvent(ctx, w)
		if !ok {
			break
		}
		if version, err = g.followed(version, event); err != nil {
			return version, err
		}
	}
	if ctx.Err() != nil {
		return version, context.Cause(ctx)
	}
	return version, nil
}

// nextEvent waits for an event. Before it does, or when the watch has ended, what the
// watch held ready has been looked at: that makes the watch count as open.
func (g *guard) nextEvent(ctx context.Context, w watch.Interface) (watch.Event, bool) {
	select {
	case event, ok := <-w.ResultChan():
		if ok {
			return event, true
		}
	default:
	}
	g.watching.Store(true)
	g.firstOpen.Do(func() { close(g.opened) })
	select {
	case event, ok := <-w.ResultChan():
		return event, ok
	case <-ctx.Done(): // a fake watch does not end with its context
		return watch.Event{}, false
	}
}

// followed judges one event, and returns the version that it is about.
func (g *guard) followed(version string, event watch.Event) (string, error) {
	switch event.Type {
	case watch.Error:
		err := apierrors.FromObject(event.Object)
		if g.strict && !apierrors.IsGone(err) && !apierrors.IsResourceExpired(err) {
			return version, fmt.Errorf("%w: its watch failed: %w", errMoved, err)
		}
		return version, fmt.Errorf("watch StatefulSet: %w", err)
	case watch.Added, watch.Modified, watch.Bookmark, watch.Deleted: // an initial ADDED is ordinary
	}
	set, ok := event.Object.(*appsv1.StatefulSet)
	if !ok || set.Name != g.key.Name {
		return version, nil
	}
	switch event.Type {
	case watch.Deleted:
		return version, fmt.Errorf("%w: it was deleted", errMoved)
	case watch.Bookmark: // it carries nothing but a version
		return set.ResourceVersion, nil
	default:
	}
	return set.ResourceVersion, g.moved(g.planned, g.plan(set))
}

// moved says how now differs from what was planned on, nil if it does not. Status,
// labels and rollouts of pods may change under way; what verdicts rest on may not.
func moved(planned, now policy.Plan) error {
	replicas, ok := policy.Replicas(now.Set)
	plannedReplicas, _ := policy.Replicas(planned.Set)
	switch {
	case now.Set.UID != planned.Set.UID:
		return fmt.Errorf("%w: it was replaced", errMoved)
	case now.Set.DeletionTimestamp != nil:
		return fmt.Errorf("%w: it is being deleted", errMoved)
	case !ok || replicas != plannedReplicas:
		return fmt.Errorf("%w: replicas went from %d to %d", errMoved, plannedReplicas, replicas)
	case policy.Start(now.Set) != policy.Start(planned.Set):
		return fmt.Errorf("%w: its ordinals moved", errMoved)
	case now.Set.Generation != planned.Set.Generation:
		return fmt.Errorf("%w: its spec changed", errMoved)
	case !now.Controls.Equal(planned.Controls):
		return fmt.Errorf("%w: a %s annotation changed", errMoved, policy.Prefix)
	case !now.Bookkeeping.Equal(planned.Bookkeeping):
		return fmt.Errorf("%w: its bookkeeping changed", errMoved)
	}
	return nil
}
