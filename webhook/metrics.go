package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	last     prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pvc_pruner_admission_requests_total",
			Help: "Admission requests answered, by endpoint and decision: allowed, denied, fenced (refused while claims are being deleted, the dry runs of the pruner included), or error for those that could not be judged.",
		}, []string{"endpoint", "decision"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "pvc_pruner_admission_duration_seconds", Help: "Time to answer an admission request, by endpoint.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"endpoint"}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "pvc_pruner_admission_last_request_timestamp_seconds",
			Help: "When the last admission request came, in seconds since 1970; 0 if none ever did, as where the API server cannot reach the port of the webhook.",
		}),
	}
	return m, errors.Join(registry.Register(m.requests), registry.Register(m.duration), registry.Register(m.last))
}

// measure counts and times the answers of a handler, and logs those that refuse.
func (m *metrics) measure(endpoint string, h admission.Handler) admission.Handler {
	return admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		began := time.Now()
		m.last.Set(float64(began.UnixMilli()) / 1000)
		resp := h.Handle(ctx, req)
		m.duration.WithLabelValues(endpoint).Observe(time.Since(began).Seconds())
		m.requests.WithLabelValues(endpoint, decision(resp)).Inc()
		if !resp.Allowed {
			level := 0
			if req.DryRun != nil && *req.DryRun {
				level = 1 // among these are the proofs of every prune
			}
			ctrl.LoggerFrom(ctx).V(level).Info("Refused request", "operation", req.Operation, "subResource", req.SubResource, "cause", resp.Result.Message)
		}
		return resp
	})
}

func decision(resp admission.Response) string {
	switch {
	case resp.Allowed:
		return "allowed"
	case resp.Result.Code == http.StatusForbidden:
		return "denied"
	case resp.Result.Code == http.StatusConflict:
		return "fenced"
	}
	return "error"
}
