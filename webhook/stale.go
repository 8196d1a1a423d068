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

// oldVolumes are the claims that a scale-up would pick up, and what one of them waits for.
type oldVolumes struct {
	names []string
	why   string
}

// refusal returns nil where there are none.
func (o oldVolumes) refusal() *admission.Response {
	if len(o.names) == 0 {
		return nil
	}
	text := fit("old volumes are still there, and "+policy.KeyStaleVolumes+" is \"forbid\": ", o.names, int64(len(o.names)), "; scale up again when pvc-pruner has deleted them")
	resp := admission.Denied(text)
	if o.why != "" {
		resp.Result.Message += " (" + o.why + ")"
	}
	resp = resp.WithWarnings(text)
	return &resp
}

// find finds the old volumes that a scale-up of the stored set to so many replicas meets.
// annotations are those that hold after the request. An error means that it could not be
// told.
func (g *staleGuard) find(ctx context.Context, stored *appsv1.StatefulSet, annotations map[string]string, to int32) (oldVolumes, error) {
	controls := policy.ReadControls(annotations, g.defaults)
	from, ok := policy.Replicas(stored)
	if !controls.Enabled || !controls.ForbidStale || !ok || to <= from {
		return oldVolumes{}, nil
	}
	plan := policy.NewPlan(stored, g.defaults)
	plan.Controls = controls
	// A scale-down a moment ago may not be accounted for yet.
	plan.Bookkeeping = policy.Observe(stored, nil, false, g.defaults, g.now())
	if hold := plan.SetGates(stored.UID, g.now()); hold != nil && hold.Decision == policy.Keep {
		return oldVolumes{}, nil // what is kept for good may be used again
	}
	ctx, cancel := context.WithTimeout(ctx, staleLimit)
	defer cancel()
	snapshot, _, err := live.Snapshot(ctx, g.client, stored)
	if err != nil {
		return oldVolumes{}, err
	}
	return oldOnes(plan.Verdicts(snapshot), int64(policy.Start(stored))+int64(to)), nil
}

// oldOnes are those below the end of the new range that will be deleted.
func oldOnes(verdicts []policy.Verdict, end int64) (found oldVolumes) {
	for _, v := range verdicts {
		if v.Ordinal >= end || v.Decision == policy.Keep {
			continue
		}
		found.names = append(found.names, v.Claim.Name)
		if found.why == "" && v.Decision == policy.Wait {
			found.why = v.Claim.Name + " waits: " + v.Message
		}
	}
	return found
}

// unknownStale says that it could not be told whether old volumes are there.
const unknownStale = "pvc-pruner cannot tell whether old volumes are there, and " + policy.KeyStaleVolumes + " is \"forbid\""
