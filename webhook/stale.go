package webhook

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// staleLimit bounds the look for old volumes.
const staleLimit = time.Second

// staleGuard refuses scale-ups that would pick up volumes which wait to be pruned, for
// sets that ask for that (stale-volumes: forbid): a database whose decommissioned members
// may not come back.
type staleGuard struct {
	client   kubernetes.Interface
	defaults policy.Controls
	now      func() time.Time
}

// refuse returns nil when a scale-up of the stored set to so many replicas meets no old
// volume. annotations are those that hold after the request. An error means that it could
// not be told.
func (g *staleGuard) refuse(ctx context.Context, stored *appsv1.StatefulSet, annotations map[string]string, to int32) (*admission.Response, error) {
	controls := policy.ReadControls(annotations, g.defaults)
	from, ok := policy.Replicas(stored)
	if !controls.Enabled || !controls.ForbidStale || !ok || to <= from {
		return nil, nil
	}
	plan := policy.NewPlan(stored, g.defaults)
	plan.Controls = controls
	// A scale-down a moment ago may not be accounted for yet.
	plan.Bookkeeping = policy.Observe(stored, nil, false, g.defaults, g.now())
	if hold := plan.SetGates(stored.UID, g.now()); hold != nil && hold.Decision == policy.Keep {
		return nil, nil // what is kept for good may be used again
	}
	ctx, cancel := context.WithTimeout(ctx, staleLimit)
	defer cancel()
	snapshot, _, err := live.Snapshot(ctx, g.client, stored)
	if err != nil {
		return nil, err
	}
	end := int64(policy.Start(stored)) + int64(to)
	var names []string
	why := ""
	for _, v := range plan.Verdicts(snapshot) {
		if v.Ordinal >= end || v.Decision == policy.Keep {
			continue
		}
		names = append(names, v.Claim.Name)
		if why == "" && v.Decision == policy.Wait {
			why = v.Claim.Name + " waits: " + v.Message
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	text := fit("old volumes are still there, and "+policy.KeyStaleVolumes+" is \"forbid\": ", names, int64(len(names)), "; scale up again when pvc-pruner has deleted them")
	resp := admission.Denied(text)
	if why != "" {
		resp.Result.Message += " (" + why + ")"
	}
	resp = resp.WithWarnings(text)
	return &resp, nil
}

// unknownStale says that it could not be told whether old volumes are there.
const unknownStale = "pvc-pruner cannot tell whether old volumes are there, and " + policy.KeyStaleVolumes + " is \"forbid\""
