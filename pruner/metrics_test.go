package pruner

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

func newTestMetrics(t *testing.T) (*metrics, *prometheus.Registry) {
	t.Helper()
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	return m, registry
}

func expect(t *testing.T, g prometheus.Gatherer, text string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(g, strings.NewReader(text), names...); err != nil {
		t.Error(err)
	}
}

const heldHelp = `
# HELP pvc_pruner_held_claims PersistentVolumeClaims of pending prunes that are not deleted now, by decision and reason. A reason that holds a whole StatefulSet counts it once.
# TYPE pvc_pruner_held_claims gauge
`

func TestHeldClaimsAreSummedUpOverAllSets(t *testing.T) {
	m, registry := newTestMetrics(t)
	verdict := func(decision policy.Decision, reason policy.Reason) policy.Verdict {
		return policy.Verdict{Decision: decision, Reason: reason}
	}
	m.hold("a", nil, []policy.Verdict{
		verdict(policy.Wait, policy.ReasonPodExists), verdict(policy.Wait, policy.ReasonPodExists),
		verdict(policy.Keep, policy.ReasonKeepAnnotation), verdict(policy.Delete, policy.ReasonUnused),
	})
	m.hold("b", nil, []policy.Verdict{verdict(policy.Wait, policy.ReasonPodExists)})
	m.hold("c", &policy.Hold{Decision: policy.Wait, Reason: policy.ReasonUndoWindow}, nil)
	m.hold("d", &policy.Hold{Decision: policy.Keep, Reason: policy.ReasonNothingPending}, nil)
	expect(t, registry, heldHelp+`
pvc_pruner_held_claims{decision="Keep",reason="KeepAnnotation"} 1
pvc_pruner_held_claims{decision="Wait",reason="PodExists"} 3
pvc_pruner_held_claims{decision="Wait",reason="UndoWindow"} 1
`, "pvc_pruner_held_claims")

	m.hold("a", nil, []policy.Verdict{verdict(policy.Wait, policy.ReasonInUse)}) // replaces
	m.hold("b", nil, nil)
	m.hold("c", &policy.Hold{Decision: policy.Keep, Reason: policy.ReasonNothingPending}, nil)
	expect(t, registry, heldHelp+`
pvc_pruner_held_claims{decision="Wait",reason="ClaimInUse"} 1
`, "pvc_pruner_held_claims")
	if len(m.sets) != 1 {
		t.Errorf("%d sets are remembered", len(m.sets))
	}
}

func TestMetricsAreWellFormed(t *testing.T) {
	m, registry := newTestMetrics(t)
	m.failures.WithLabelValues("read").Inc()
	m.prunes.WithLabelValues("completed").Inc()
	m.hold("a", &policy.Hold{Decision: policy.Wait, Reason: policy.ReasonUndoWindow}, nil)
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestMetricsRegisteredTwiceAreAnError(t *testing.T) {
	_, registry := newTestMetrics(t)
	if _, err := newMetrics(registry); err == nil {
		t.Error("no error")
	}
}
