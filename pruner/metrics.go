package pruner

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// metrics of the pruner. Only the leader's move.
type metrics struct {
	claims    prometheus.Counter
	bytes     prometheus.Counter
	retained  prometheus.Counter
	failures  *prometheus.CounterVec
	prunes    *prometheus.CounterVec
	reclaimed prometheus.Histogram

	held *prometheus.Desc

	mu   sync.Mutex
	sets map[types.UID]map[heldKey]int
}

// heldKey is what keeps a claim, or a whole pending set, from being pruned.
type heldKey struct {
	decision policy.Decision
	reason   policy.Reason
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		claims: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pvc_pruner_claims_pruned_total", Help: "PersistentVolumeClaims deleted.",
		}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pvc_pruner_pruned_bytes_total", Help: "Capacity of the PersistentVolumeClaims deleted, in bytes.",
		}),
		retained: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pvc_pruner_volumes_retained_total", Help: "PersistentVolumes that stayed after their claim was deleted, because of reclaim policy Retain.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pvc_pruner_failures_total", Help: "What could not be done and will be tried again, by what it was: read, delete, store, fence.",
		}, []string{"operation"}),
		prunes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pvc_pruner_prunes_total", Help: "Pending prunes that ended, by how: completed or cancelled.",
		}, []string{"result"}),
		reclaimed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "pvc_pruner_reclaim_duration_seconds", Help: "Time from the scale-down to its last claim gone, the undo window included.",
			Buckets: []float64{1, 2, 5, 10, 30, 60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600},
		}),
		held: prometheus.NewDesc("pvc_pruner_held_claims",
			"PersistentVolumeClaims of pending prunes that are not deleted now, by decision and reason. A reason that holds a whole StatefulSet counts it once.",
			[]string{"decision", "reason"}, nil),
		sets: map[types.UID]map[heldKey]int{},
	}
	return m, errors.Join(registry.Register(m.claims), registry.Register(m.bytes), registry.Register(m.retained),
		registry.Register(m.failures), registry.Register(m.prunes), registry.Register(m.reclaimed), registry.Register(m))
}

// hold replaces what is known to be held of one set.
func (m *metrics) hold(uid types.UID, hold *policy.Hold, verdicts []policy.Verdict) {
	counts := map[heldKey]int{}
	if hold != nil && hold.Reason != policy.ReasonNothingPending {
		counts[heldKey{hold.Decision, hold.Reason}]++
	}
	for _, v := range verdicts {
		if v.Decision != policy.Delete {
			counts[heldKey{v.Decision, v.Reason}]++
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.sets, uid)
	if len(counts) > 0 {
		m.sets[uid] = counts
	}
}

// Describe implements prometheus.Collector for what is held.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) { ch <- m.held }

// Collect implements prometheus.Collector for what is held.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sums := map[heldKey]int{}
	for _, counts := range m.sets {
		for key, n := range counts {
			sums[key] += n
		}
	}
	for key, n := range sums {
		ch <- prometheus.MustNewConstMetric(m.held, prometheus.GaugeValue, float64(n), string(key.decision), string(key.reason))
	}
}
