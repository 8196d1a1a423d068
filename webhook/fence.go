package webhook

import (
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const (
	// holdLimit is the longest that a request waits for a fence.
	holdLimit = 3 * time.Second
	// holdPause lies between two looks at the fence.
	holdPause = 50 * time.Millisecond
	// lookLimit bounds one look.
	lookLimit = time.Second
)

// gatekeeper holds changes that would reach behind a fence until it is gone.
//
// Letting a change through after a hold is safe: taking the fence away changed the
// StatefulSet's resourceVersion, so the API server's compare-and-swap fails and it asks
// again about the new object.
type gatekeeper struct {
	sets appsclient.StatefulSetsGetter
	now  func() time.Time
}

// change is a request that a fence may hold.
type change struct {
	set             types.NamespacedName
	start, replicas int32
	// moved: the request changes which ordinals are in range. Even where that adds none, it
	// may say that what is behind the fence shall stay (a scale to zero) or stay for another
	// undo window, and a DELETE that is in flight then must not come after it.
	moved bool
	// controls: the request changes a control annotation. Opting out while a DELETE is
	// in flight would take the fence's protection away.
	controls bool
	// brake: it opts out or pauses, which must work in the end.
	brake  bool
	dryRun bool
}

func (c change) held(f *policy.Fence, now time.Time) bool {
	return f.Stands(now) && (c.forbidden(f) || c.moved)
}

// forbidden says whether the change would be wrong as long as the fence stands; any other
// that is held is only too early.
func (c change) forbidden(f *policy.Fence) bool { return f.Crosses(c.start, c.replicas) || c.controls }

// passes says whether the change must work in the end, although the fence still stands:
// the pruner's watch sees it and stops.
func (c change) passes(f *policy.Fence) bool {
	return !f.Crosses(c.start, c.replicas) && (c.brake || !c.controls)
}

// hold returns nil when the change may go on as it was asked for, and otherwise what to
// answer. From the moment at which a fence was seen, not knowing refuses.
func (g *gatekeeper) hold(ctx context.Context, c change, fence *policy.Fence) *admission.Response {
	if !c.held(fence, g.now()) {
		return nil
	}
	if c.dryRun { // it must not wait; it is also how the pruner proves its fence
		if c.forbidden(fence) {
			return fenced(c, fence)
		}
		return nil
	}
	log := ctrl.LoggerFrom(ctx)
	log.Info("Holding request until the fence is gone", "fence", fence)
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, holdLimit)
	defer cancel()
	fence, written := g.await(ctx, c, fence)
	if fence == nil {
		log.Info("Released request", "after", time.Since(began).String())
		if !written {
			return nil
		}
		// No word on what it means: the API server asks again about the object as it is now.
		released := admission.Allowed("")
		return &released
	}
	if c.passes(fence) {
		return nil
	}
	return fenced(c, fence)
}

// await looks at the set until no fence holds the change any more. It returns the fence
// that still does when the time is over; else nil, and whether the set was written to
// meanwhile, as it is unless its fence has just ended by itself.
func (g *gatekeeper) await(ctx context.Context, c change, fence *policy.Fence) (still *policy.Fence, written bool) {
	first := *fence
	ticker := time.NewTicker(holdPause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return fence, false
		case <-ticker.C:
		}
		set, err := g.look(ctx, c.set)
		switch {
		case apierrors.IsNotFound(err):
			return nil, true
		case err != nil:
			ctrl.LoggerFrom(ctx).V(1).Info("Fence not read", "cause", err.Error())
		case set.Annotations[policy.KeyFence] == "":
			return nil, true
		default:
			if f := policy.ReadFence(set.Annotations); f != nil {
				fence = f
			}
		}
		if !c.held(fence, g.now()) {
			return nil, *fence != first
		}
	}
}

// look reads the StatefulSet live.
func (g *gatekeeper) look(ctx context.Context, key types.NamespacedName) (*appsv1.StatefulSet, error) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return g.sets.StatefulSets(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
}

// fenced refuses with 409: for clients that means to try again, and by then the fence
// is gone. It names the holder, by which the pruner recognises its own fence.
func fenced(c change, f *policy.Fence) *admission.Response {
	text := fmt.Sprintf("pvc-pruner is deleting claims of ordinal %d and above right now; try again in a few seconds, at the latest at %s (fence %s)",
		f.From, f.Until.UTC().Format(time.RFC3339), f.Holder)
	resp := admission.Denied(text)
	resp.Result.Code, resp.Result.Reason = http.StatusConflict, metav1.StatusReasonConflict
	if !c.dryRun {
		resp = resp.WithWarnings(text)
	}
	return &resp
}
