package webhook

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// scaler answers for the scale subresource. A Scale carries no annotations, so the
// StatefulSet is read live. All it can do is to hold a scale-up behind a fence and to
// say what will happen: the pruner accounts for the change when it sees it on the
// StatefulSet. What goes wrong here allows, unless a fence was seen.
type scaler struct {
	defaults policy.Controls
	now      func() time.Time
	gate     *gatekeeper
	stale    *staleGuard
	cached   client.Reader
}

// Handle implements admission.Handler.
func (s *scaler) Handle(ctx context.Context, req admission.Request) admission.Response {
	from, err := decode[autoscalingv1.Scale](req.OldObject)
	to, toErr := decode[autoscalingv1.Scale](req.Object)
	if err := errors.Join(err, toErr); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Scale not understood; allowed")
		return admission.Allowed("")
	}
	key := types.NamespacedName{Namespace: req.Namespace, Name: req.Name}
	set, err := s.read(ctx, key)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			ctrl.LoggerFrom(ctx).Error(err, "StatefulSet of a Scale not read; allowed")
		}
		return admission.Allowed("")
	}
	c := change{
		set: key, start: policy.Start(set), replicas: to.Spec.Replicas, moved: to.Spec.Replicas != from.Spec.Replicas,
		dryRun: req.DryRun != nil && *req.DryRun,
	}
	if refusal := s.gate.hold(ctx, c, policy.ReadFence(set.Annotations)); refusal != nil {
		return *refusal
	}
	old, err := s.stale.find(ctx, set, set.Annotations, ordinals{policy.Start(set), to.Spec.Replicas})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Old volumes not looked for; allowed")
		return admission.Allowed("").WithWarnings(unknownStale + "; scaled all the same")
	}
	if refusal := old.refusal(); refusal != nil {
		return *refusal
	}
	return admission.Allowed("").WithWarnings(s.warnings(set, from.Spec.Replicas, to.Spec.Replicas)...)
}

// read reads the set live. Where that fails, the cached copy serves if it shows a fence:
// a cached read may protect, and nothing else.
func (s *scaler) read(ctx context.Context, key types.NamespacedName) (*appsv1.StatefulSet, error) {
	live, err := s.gate.look(ctx, key)
	if err == nil || apierrors.IsNotFound(err) {
		return live, err
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	cached := &appsv1.StatefulSet{}
	if cacheErr := s.cached.Get(ctx, key, cached); cacheErr != nil || !policy.ReadFence(cached.Annotations).Stands(s.now()) {
		return nil, err
	}
	return cached, nil
}

// warnings says what the change means.
func (s *scaler) warnings(set *appsv1.StatefulSet, from, to int32) []string {
	if !policy.OptedIn(set.Annotations) {
		return nil
	}
	stored, updated := set.DeepCopy(), set.DeepCopy()
	stored.Spec.Replicas, updated.Spec.Replicas = &from, &to
	after := policy.NewPlan(updated, s.defaults)
	after.Bookkeeping = policy.OnUpdate(stored, updated, s.defaults, s.now())
	texts := setWarnings(stored, after, s.defaults, s.now())
	if b := policy.ReadBookkeeping(set.Annotations); to < from && !b.Bound(set) && len(texts) > 0 {
		texts = append(texts, "pvc-pruner has not looked at this StatefulSet yet: claims that it was not seen with stay")
	}
	return texts
}
