package webhook

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// lookupDeadline bounds the look into the cache, which waits while it fills.
const lookupDeadline = time.Second

// scaler answers for the scale subresource. A Scale carries no annotations, so all it
// can do is to say what will happen: the pruner accounts for the change when it sees
// it on the StatefulSet. Everything that goes wrong here allows.
type scaler struct {
	self     string
	defaults policy.Controls
	now      func() time.Time
	sets     client.Reader
}

// Handle implements admission.Handler.
func (s *scaler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.UserInfo.Username == s.self {
		return admission.Allowed("")
	}
	from, err := decode[autoscalingv1.Scale](req.OldObject)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Scale not understood; allowed")
		return admission.Allowed("")
	}
	to, err := decode[autoscalingv1.Scale](req.Object)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Scale not understood; allowed")
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, lookupDeadline)
	defer cancel()
	set := &appsv1.StatefulSet{}
	if err := s.sets.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, set); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "StatefulSet of a Scale not found; allowed")
		}
		return admission.Allowed("")
	}
	return admission.Allowed("").WithWarnings(s.warnings(set, from.Spec.Replicas, to.Spec.Replicas)...)
}

// warnings says what the change means, as far as the cached set tells.
func (s *scaler) warnings(cached *appsv1.StatefulSet, from, to int32) []string {
	if !policy.OptedIn(cached.Annotations) {
		return nil
	}
	stored, updated := cached.DeepCopy(), cached.DeepCopy()
	stored.Spec.Replicas, updated.Spec.Replicas = &from, &to
	after := policy.NewPlan(updated, s.defaults)
	after.Bookkeeping = policy.OnUpdate(stored, updated, s.defaults, s.now())
	return setWarnings(stored, after, s.defaults, s.now())
}
