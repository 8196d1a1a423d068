package pruner

import (
	"context"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		r.events.say(ctx, set, prunedNotice(out.plan, deleted))
		r.reportRetained(ctx, set, deleted)
	}
	if failed := slices.Concat(out.failed, out.ambiguous); len(failed) > 0 {
		r.metrics.failures.WithLabelValues("delete").Add(float64(len(failed)))
		r.events.say(ctx, set, failedNotice(failed))
	}
	if unenforced(out.stopped) {
		r.reportUnenforced(ctx, set, out.stopped)
	}
	if out.stopped != nil {
		return // the verdicts are about a set that has changed since
	}
	if out.plan.Controls.DryRun && out.hold == nil {
		r.events.say(ctx, set, dryRunNotice(out.plan, out.verdicts))
	}
	for _, n := range verdictNotices(slices.Concat(out.verdicts, out.dying)) {
		n.settles = !out.completed // there is no later look
		r.events.say(ctx, set, n)
	}
}

// reportCancelled tells that a pending prune was ended, by a scale-up or by opting out.
func (r *reconciler) reportCancelled(ctx context.Context, plan policy.Plan) {
	var notices []notice
	if c := r.memory.takeCancelled(plan.Set); c != nil {
		if n, ok := cancelledNotice(plan, *c); ok {
			notices = append(notices, n)
		}
		r.metrics.prunes.WithLabelValues("cancelled").Inc()
	}
	if last := r.memory.takeOptedOut(client.ObjectKeyFromObject(plan.Set)); last != nil && !plan.Controls.Enabled {
		if before := policy.NewPlan(last, r.defaults); before.Bookkeeping.Pending() && before.Bookkeeping.Bound(last) {
			r.metrics.prunes.WithLabelValues("cancelled").Inc()
			notices = append(notices, optedOutNotice(before))
		}
	}
	for _, n := range notices {
		r.events.say(ctx, plan.Set, n)
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

// reportUnenforced tells that our own webhook does not do its part. Without it there
// is neither bookkeeping nor a fence, and nothing is deleted.
func (r *reconciler) reportUnenforced(ctx context.Context, set *appsv1.StatefulSet, err error) {
	r.metrics.failures.WithLabelValues("fence").Inc()
	r.events.say(ctx, set, notice{
		reason: EventFenceNotEnforced, about: "webhook",
		note: "nothing is deleted until the admission webhook of pvc-pruner answers; scaling goes on: " + err.Error(),
	})
}

// webhookDown says whether a write failed because the API server could not ask our
// webhook about it.
func webhookDown(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "failed calling webhook")
}
