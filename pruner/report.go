package pruner

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// progress sums up what a prune has deleted in one or several steps.
type progress struct{ deleted []policy.Verdict }

// report tells Events, metrics and the memory what a step saw and did.
func (r *reconciler) report(ctx context.Context, out outcome) {
	if out.plan.Set == nil {
		return
	}
	set := out.plan.Set
	r.metrics.hold(set.UID, out.hold, out.verdicts)
	if deleted := slices.Concat(out.deleted, out.dying); len(deleted) > 0 {
		r.metrics.claims.Add(float64(len(deleted)))
		r.metrics.bytes.Add(float64(total(deleted)))
		r.memory.change(set, func(s *sighting) { s.done.deleted = append(s.done.deleted, deleted...) })
		r.events.say(ctx, set, prunedNotice(out.plan, deleted))
		r.reportRetained(ctx, set, deleted)
	}
	if len(out.dying) > 0 && out.stopped == nil {
		r.events.say(ctx, set, dyingNotice(out.dying))
	}
	if len(out.failed) > 0 {
		r.metrics.failures.WithLabelValues("delete").Add(float64(len(out.failed)))
		r.events.say(ctx, set, failedNotice(out.failed))
	}
	if out.stopped != nil {
		return // the verdicts are about a set that has changed since
	}
	if out.plan.Controls.DryRun && out.hold == nil {
		r.events.say(ctx, set, dryRunNotice(out.plan, out.verdicts))
	}
	for _, n := range verdictNotices(out.verdicts) {
		r.events.say(ctx, set, n)
	}
}

// reportRetained looks at the volumes behind deleted claims and names those that
// Kubernetes retains. What cannot be read is not reported; nothing depends on it.
func (r *reconciler) reportRetained(ctx context.Context, set *appsv1.StatefulSet, deleted []policy.Verdict) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), eventDeadline)
	defer cancel()
	for _, v := range deleted {
		if v.Claim.Spec.VolumeName == "" {
			continue
		}
		volume, err := r.client.CoreV1().PersistentVolumes().Get(ctx, v.Claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			if !apierrors.IsNotFound(err) {
				ctrl.LoggerFrom(ctx).Error(err, "Volume of a deleted claim not read", "persistentVolume", v.Claim.Spec.VolumeName)
			}
			continue
		}
		if volume.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			r.metrics.retained.Inc()
			r.events.say(ctx, set, retainedNotice(v.Claim.Name, volume.Name))
		}
	}
}

// reportUnreachable tells that bookkeeping could not be written because admission
// does not work. Without bookkeeping nothing is deleted.
func (r *reconciler) reportUnreachable(ctx context.Context, set *appsv1.StatefulSet, err error) {
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		return
	}
	r.events.say(ctx, set, notice{
		reason: EventFenceNotEnforced, about: "webhook",
		note: "the admission webhook does not answer; scaling goes on, and nothing is deleted until it answers: " + err.Error(),
	})
}

// complete stores that the prune is finished, unless the set has changed meanwhile
// in anything that matters; then the next look sees to it.
func (r *reconciler) complete(ctx context.Context, out outcome) error {
	set := out.plan.Set
	var done progress
	r.memory.change(set, func(s *sighting) { done = s.done })
	summary := policy.Summary{
		At: r.now().UTC().Truncate(time.Second), Ordinals: ordinals(done.deleted), Claims: len(done.deleted), Bytes: total(done.deleted),
	}
	err := r.storeCompleted(ctx, out.plan, summary)
	if apierrors.IsNotFound(err) || errors.Is(err, errMoved) {
		return nil // the change is on its way to us
	}
	if err != nil {
		return fmt.Errorf("complete the record: %w", err)
	}
	r.memory.change(set, func(s *sighting) { s.done = progress{} })
	r.metrics.prunes.WithLabelValues("completed").Inc()
	if window := out.plan.Bookkeeping.Window; len(done.deleted) > 0 {
		r.metrics.reclaimed.Observe(r.now().Sub(window.Since).Seconds())
	}
	return nil
}

// completeTries bounds how often the completing write follows a status that moved on.
const completeTries = 5

func (r *reconciler) storeCompleted(ctx context.Context, planned policy.Plan, summary policy.Summary) error {
	replicas, _ := policy.Replicas(planned.Set)
	set := planned.Set
	var err error
	for range completeTries {
		b, encodeErr := policy.ReadBookkeeping(set.Annotations).Completed(replicas, summary)
		if encodeErr != nil {
			return encodeErr
		}
		if _, err = store(ctx, r.client, set, b); !apierrors.IsConflict(err) {
			return err
		}
		live, getErr := r.client.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("get StatefulSet: %w", getErr)
		}
		if why := moved(planned, policy.NewPlan(live, r.defaults)); why != nil {
			return why
		}
		set = live
	}
	return err
}
