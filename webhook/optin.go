package webhook

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// reviewDeadline bounds the question whether a user may delete claims.
const reviewDeadline = 3 * time.Second

// validator answers the validating webhook: it refuses annotations that cannot be
// understood or that the requester has no right to set, and says what will happen.
type validator struct {
	self     string
	defaults policy.Controls
	now      func() time.Time
	gate     *gatekeeper
	stale    *staleGuard
	reviews  authorizationclient.SubjectAccessReviewInterface
}

// Handle implements admission.Handler.
func (v *validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.UserInfo.Username == v.self {
		return admission.Allowed("")
	}
	stored, updated, err := readSets(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	var before map[string]string
	if stored != nil {
		before = stored.Annotations
	}
	if problems := policy.CheckControls(before, updated.Annotations); len(problems) > 0 {
		return refuse(problems)
	}
	if keys := policy.Privileged(before, updated.Annotations); len(keys) > 0 {
		if resp := v.review(ctx, req, keys); !resp.Allowed {
			return resp
		}
	}
	if stored != nil {
		if refusal := v.gate.hold(ctx, updateOf(req, stored, updated), policy.ReadFence(before)); refusal != nil {
			return *refusal
		}
		if refusal := v.refuseStale(ctx, stored, updated); refusal != nil {
			return *refusal
		}
	}
	return admission.Allowed("").WithWarnings(
		setWarnings(stored, policy.NewPlan(updated, v.defaults), v.defaults, v.now())...)
}

// refuseStale refuses an update that would pick up old volumes. Not knowing refuses.
func (v *validator) refuseStale(ctx context.Context, stored, updated *appsv1.StatefulSet) *admission.Response {
	to, ok := policy.Replicas(updated)
	if !ok {
		return nil
	}
	old, err := v.stale.find(ctx, stored, updated.Annotations, ordinals{policy.Start(updated), to})
	if err != nil {
		resp := admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("%s, try again: %w", unknownStale, err))
		return &resp
	}
	return old.refusal()
}

// updateOf is an update of a StatefulSet as a fence sees it.
func updateOf(req admission.Request, stored, updated *appsv1.StatefulSet) change {
	replicas, ok := policy.Replicas(updated)
	if !ok {
		replicas = math.MaxInt32
	}
	before, _ := policy.Replicas(stored)
	c := policy.ReadControls(updated.Annotations, policy.Controls{})
	return change{
		set:   types.NamespacedName{Namespace: req.Namespace, Name: req.Name},
		start: policy.Start(updated), replicas: replicas,
		moved:    replicas != before || policy.Start(updated) != policy.Start(stored),
		controls: policy.ControlsChanged(stored.Annotations, updated.Annotations),
		brake:    !c.Enabled || c.Paused,
		dryRun:   req.DryRun != nil && *req.DryRun,
	}
}

func refuse(problems []policy.Problem) admission.Response {
	texts := make([]string, 0, len(problems))
	for _, p := range problems {
		texts = append(texts, p.String())
	}
	return admission.Denied(strings.Join(texts, "; "))
}

// review allows those who may delete claims in the namespace: otherwise the right to
// edit a StatefulSet would become the right to destroy data. Not knowing refuses.
func (v *validator) review(ctx context.Context, req admission.Request, keys []string) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, reviewDeadline)
	defer cancel()
	user := req.UserInfo
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := v.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: req.Namespace, Verb: "delete", Version: "v1", Resource: "persistentvolumeclaims",
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return admission.Errored(http.StatusInternalServerError,
			fmt.Errorf("cannot tell whether %s may delete PersistentVolumeClaims in namespace %s, try again: %w", user.Username, req.Namespace, err))
	}
	if !review.Status.Allowed {
		return admission.Denied(fmt.Sprintf("%s may not set %s: that needs the right to delete PersistentVolumeClaims in namespace %s, because our annotations decide what is deleted",
			user.Username, strings.Join(keys, ", "), req.Namespace))
	}
	return admission.Allowed("")
}
