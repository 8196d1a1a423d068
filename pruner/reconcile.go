package pruner

import (
	"context"
	"errors"
	"fmt"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// reconciler brings one StatefulSet a step further: it accounts for what changed,
// waits, or prunes.
type reconciler struct {
	cache    client.Reader
	client   kubernetes.Interface
	defaults policy.Controls
	now      func() time.Time
	memory   *memory
	events   *reporter
	metrics  *metrics
	fence    *fencer
	// considerWorkloads and snapshots are those of Options.
	considerWorkloads bool
	snapshots         snapshotclient.Interface
}

// lookDeadline bounds one look at a set with all that follows from it. The longest is a
// prune behind its fence; a request that never ends must not hold a worker for ever.
const lookDeadline = 2 * time.Minute

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, lookDeadline)
	defer cancel()
	set := &appsv1.StatefulSet{}
	if err := r.cache.Get(ctx, req.NamespacedName, set); apierrors.IsNotFound(err) {
		r.forget(ctx, r.memory.forget(req.NamespacedName))
		return ctrl.Result{}, nil
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("get cached StatefulSet: %w", err)
	}
	if set.DeletionTimestamp != nil {
		r.forget(ctx, set)
		return ctrl.Result{}, nil
	}
	plan := policy.NewPlan(set, r.defaults)
	if len(plan.Controls.Invalid) > 0 {
		r.events.say(ctx, set, invalidNotice(plan.Controls.Invalid))
	}
	if n, ok := managedNotice(plan); ok {
		r.events.say(ctx, set, n)
	}
	stored, err := r.account(ctx, set)
	if err != nil {
		return ctrl.Result{}, r.unaccounted(ctx, set, err)
	}
	r.reportCancelled(ctx, plan)
	if fence := policy.ReadFence(stored.Annotations); fence.Stands(r.now()) {
		// Another process deletes, or did when it crashed. Whatever becomes of the set, the
		// fence has to be taken away when it is over.
		return ctrl.Result{RequeueAfter: fence.Until.Sub(r.now())}, nil
	}
	if !plan.Controls.Enabled {
		r.metrics.hold(set.UID, nil, nil)
		return ctrl.Result{}, nil
	}
	return r.advance(ctx, policy.NewPlan(stored, r.defaults))
}

// unaccounted reports why the bookkeeping of a set could not be stored. It returns the
// error to be tried again for; nil where a newer version of the set is on its way to us.
func (r *reconciler) unaccounted(ctx context.Context, set *appsv1.StatefulSet, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	r.metrics.failures.WithLabelValues("store").Inc()
	if unenforced(err) {
		r.reportUnenforced(ctx, set, err)
	}
	return err
}

// account stores the bookkeeping that follows from what was seen, if it is another
// than what is stored, and returns the object that carries it.
func (r *reconciler) account(ctx context.Context, set *appsv1.StatefulSet) (*appsv1.StatefulSet, error) {
	seen := r.memory.seen(set)
	next := policy.Observe(set, seen, r.defaults, r.now())
	if !policy.ReadFence(set.Annotations).Stands(r.now()) {
		next.Fence = "" // left behind by a process that is gone, and long over
	}
	current := policy.ReadBookkeeping(set.Annotations)
	stored := set
	if !next.Equal(current) || hasStrayKeys(set, next) {
		var err error
		if stored, err = store(ctx, r.client, set, next); err != nil {
			return nil, err
		}
	}
	r.memory.accounted(set)
	if policy.MayHaveBeenZero(set, seen, r.defaults) {
		r.events.say(ctx, set, unseenNotice(policy.NewPlan(set, r.defaults)))
	}
	return stored, nil
}

// hasStrayKeys says whether annotations of ours hold what the bookkeeping does not
// say, such as a malformed value that reads as absent.
func hasStrayKeys(set *appsv1.StatefulSet, b policy.Bookkeeping) bool {
	want, err := b.Annotations()
	if err != nil {
		return false
	}
	for _, key := range policy.BookkeepingKeys() {
		if value, ok := set.Annotations[key]; ok && want[key] == "" && value != want[key] {
			return true
		}
	}
	return false
}

// advance goes on with a set whose bookkeeping is up to date: it waits or prunes.
func (r *reconciler) advance(ctx context.Context, plan policy.Plan) (ctrl.Result, error) {
	set := plan.Set
	hold := plan.SetGates(set.UID, r.now())
	if !plan.Bookkeeping.Pending() {
		r.memory.change(set, func(s *sighting) { s.done = progress{} })
	} else if hold == nil || hold.Decision == policy.Wait {
		if n, ok := scheduledNotice(plan); ok {
			r.events.say(ctx, set, n)
		}
	}
	if hold != nil {
		return r.held(ctx, plan, hold), nil
	}
	if rest := r.memory.resting(set, r.now()); rest > 0 {
		return ctrl.Result{RequeueAfter: rest}, nil
	}
	s := &step{
		client: r.client, key: client.ObjectKeyFromObject(set), uid: set.UID, now: r.now,
		plan:              func(live *appsv1.StatefulSet) policy.Plan { return policy.NewPlan(live, r.defaults) },
		considerWorkloads: r.considerWorkloads, snapshots: r.snapshots,
		moved: moved, fence: r.fence, patience: goneDeadline, log: ctrl.LoggerFrom(ctx),
	}
	out, err := s.run(ctx)
	if err != nil {
		r.metrics.failures.WithLabelValues("read").Inc()
	}
	result, err := r.conclude(ctx, out, err)
	if err != nil {
		r.memory.tire(set, r.now())
	} else {
		r.memory.refresh(set)
	}
	return result, err
}

// held waits for what holds the whole set: until a time, or for an event.
func (r *reconciler) held(ctx context.Context, plan policy.Plan, hold *policy.Hold) ctrl.Result {
	r.metrics.hold(plan.Set.UID, hold, nil)
	if n, ok := holdNotice(plan, *hold); ok && plan.Bookkeeping.Pending() {
		r.events.say(ctx, plan.Set, n)
	}
	if !hold.Until.IsZero() {
		return ctrl.Result{RequeueAfter: max(hold.Until.Sub(r.now()), time.Millisecond)}
	}
	return ctrl.Result{}
}

// conclude closes a step, reports it, and says when to look again. stepErr is what could
// not be read.
func (r *reconciler) conclude(ctx context.Context, out outcome, stepErr error) (ctrl.Result, error) {
	if out.hold != nil {
		if out.plan.Set == nil {
			return ctrl.Result{}, nil // it is gone; the event of that is on its way to us
		}
		r.report(ctx, out)
		return r.held(ctx, out.plan, out.hold), nil
	}
	if stepErr != nil && out.stopped == nil {
		out.stopped = stepErr // not finished, whatever was judged before
	}
	var completed bool
	var err error
	if out.plan.Set != nil {
		summary := r.tally(out)
		if completed, err = r.settle(ctx, out, summary); completed {
			r.completed(out, summary)
		}
		out.completed = completed
		r.report(ctx, out)
	}
	switch {
	case stepErr != nil:
		return ctrl.Result{}, errors.Join(stepErr, err)
	case err != nil:
		return ctrl.Result{}, err
	}
	return r.lookAgain(ctx, out, completed)
}

// completed counts a prune that is over.
func (r *reconciler) completed(out outcome, summary policy.Summary) {
	r.memory.change(out.plan.Set, func(s *sighting) { s.done = progress{} })
	r.metrics.prunes.WithLabelValues("completed").Inc()
	if summary.Claims > 0 {
		r.metrics.reclaimed.Observe(r.now().Sub(out.plan.Bookkeeping.Window.Since).Seconds())
	}
}

// lookAgain says when a set whose step is closed is to be looked at again.
func (r *reconciler) lookAgain(ctx context.Context, out outcome, completed bool) (ctrl.Result, error) {
	switch {
	case errors.Is(out.stopped, errMoved):
		ctrl.LoggerFrom(ctx).Info("Broke off", "cause", out.stopped.Error())
		return ctrl.Result{}, nil // the change is on its way to us
	case errors.Is(out.stopped, errFenceEnds):
		return ctrl.Result{RequeueAfter: time.Second}, nil // more claims than one fence has time for
	case out.stopped != nil:
		return ctrl.Result{}, fmt.Errorf("prune: %w", out.stopped)
	case len(out.ambiguous) > 0:
		return ctrl.Result{RequeueAfter: max(time.Until(policy.ReadFence(out.plan.Set.Annotations).Until), time.Second)}, nil
	case len(out.failed) > 0:
		return ctrl.Result{}, fmt.Errorf("delete %d claims: %w", len(out.failed), out.failed[0].err)
	case completed, out.finished(): // finished, but changed since: the change is on its way to us
		return ctrl.Result{}, nil
	}
	due, _ := out.plan.Due()
	return ctrl.Result{RequeueAfter: policy.NextLook(r.now().Sub(due))}, nil
}

// forget drops all memory of a set that is gone or going. Its claims stay.
func (r *reconciler) forget(ctx context.Context, set *appsv1.StatefulSet) {
	if set == nil {
		return
	}
	r.memory.forget(client.ObjectKeyFromObject(set))
	r.events.forget(set.UID)
	r.metrics.hold(set.UID, nil, nil)
	plan := policy.NewPlan(set, r.defaults)
	if from, to := plan.Range(); plan.Bookkeeping.Pending() && to > from {
		kept, count := plan.ClaimNames(from, to, listed)
		ctrl.LoggerFrom(ctx).Info("The StatefulSet went away while a prune was pending; its claims are kept",
			"claims", nameList(kept, count))
	}
}
