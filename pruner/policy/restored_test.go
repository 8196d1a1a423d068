package policy_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// A window that begins again must not make a claim that somebody restored meanwhile look
// like one of those that were left behind; those of the set itself go all the same.
func TestClaimRestoredBeforeTheWindowBeganAgainIsKept(t *testing.T) {
	const controller = "kube-controller-manager"
	for name, tt := range map[string]struct {
		made   time.Time
		by     string
		want   policy.Decision
		paused bool // before; lifting it starts the window again
	}{
		"restored, window never restarted":             {earlier.Add(time.Minute), "velero", policy.Keep, false},
		"restored, then the pause is lifted":           {earlier.Add(time.Minute), "velero", policy.Keep, true},
		"left behind, then the pause is lifted":        {earlier.Add(-time.Minute), "velero", policy.Delete, true},
		"made by the set meanwhile":                    {earlier.Add(time.Minute), controller, policy.Delete, true},
		"made by the set itself long after the window": {now.Add(time.Minute), controller, policy.Keep, true},
	} {
		t.Run(name, func(t *testing.T) {
			stored := newSet(3, with(policy.KeyDelay, "0s"), remembering(pending(5, 3, earlier)))
			if tt.paused {
				stored.Annotations[policy.KeyPaused] = "true"
			}
			live := newSet(3, with(policy.KeyDelay, "0s"))
			remembering(policy.OnUpdate(stored, live, defaults, now))(live)
			plan := policy.NewPlan(live, defaults)
			claim := newClaim("data-db-3", madeAt(tt.made, tt.by))
			got := plan.Verdicts(policy.Snapshot{Set: live, Claims: []corev1.PersistentVolumeClaim{claim}})
			if len(got) != 1 || got[0].Decision != tt.want {
				t.Errorf("verdicts are %+v, want %s", got, tt.want)
			}
		})
	}
}
