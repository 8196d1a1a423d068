package webhook

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// Paths of the endpoints, as the webhook configurations of the chart name them.
const (
	MutatePath   = "/mutate-apps-v1-statefulset"
	ValidatePath = "/validate-apps-v1-statefulset"
	ScalePath    = "/validate-apps-v1-statefulset-scale"
)

// Options of the webhook. All but Clock are required.
type Options struct {
	// Reader reads StatefulSets, from a cache: what it says ends up in warnings only.
	Reader client.Reader
	// Client asks for access reviews, and reads StatefulSets live where a fence may
	// stand. It must not be throttled: the pruner's work must not delay an answer.
	Client kubernetes.Interface
	// Self is pvc-pruner's own user name, as a SelfSubjectReview tells it. Requests of
	// this user, and of no other, carry bookkeeping of their own.
	Self string
	// Defaults hold where a StatefulSet has no annotation of its own.
	Defaults policy.Controls
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Clock tells the time; nil is time.Now.
	Clock func() time.Time
}

// Setup registers the endpoints.
func Setup(server ctrlwebhook.Server, opts Options) error {
	if opts.Reader == nil || opts.Client == nil || opts.Registry == nil || opts.Self == "" {
		return errors.New("webhook: Reader, Client, Registry and Self are required")
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	m, err := newMetrics(opts.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	gate := &gatekeeper{sets: opts.Client.AppsV1(), now: opts.Clock}
	stale := &staleGuard{client: opts.Client, defaults: opts.Defaults, now: opts.Clock}
	for path, handler := range map[string]admission.Handler{
		MutatePath:   &bookkeeper{self: opts.Self, defaults: opts.Defaults, now: opts.Clock},
		ValidatePath: &validator{self: opts.Self, defaults: opts.Defaults, now: opts.Clock, gate: gate, stale: stale, reviews: opts.Client.AuthorizationV1().SubjectAccessReviews()},
		ScalePath:    &scaler{defaults: opts.Defaults, now: opts.Clock, gate: gate, stale: stale, cached: opts.Reader},
	} {
		server.Register(path, inTime(&admission.Webhook{Handler: m.measure(path, handler)}))
	}
	return nil
}
