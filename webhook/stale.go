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

// ordinals are a range: so many from start on.
type ordinals struct{ start, replicas int32 }

// within says whether o adds nothing to p.
func (o ordinals) within(p ordinals) bool {
	return o.start >= p.start && int64(o.start)+int64(o.replicas) <= int64(p.start)+int64(p.replicas)
}

func (o ordinals) contains(ordinal int64) bool {
	return ordinal >= int64(o.start) && ordinal < int64(o.start)+int64(o.replicas)
}

// find finds the old volumes that the stored set meets when it gets these ordinals, by a
// scale-up or by a move of its range. annotations are those that hold after the request. An error means that it could not be
// told.
func (g *staleGuard) find(ctx context.Context, stored *appsv1.StatefulSet, annotations map[string]string, next ordinals) (oldVolumes, error) {
	controls := policy.ReadControls(annotations, g.defaults)
	from, ok := policy.Replicas(stored)
	if !controls.Enabled || !controls.ForbidStale || !ok || next.within(ordinals{policy.Start(stored), from}) {
		return oldVolumes{}, nil
	}
	if controls.DryRun {
		return oldVolumes{}, nil // they will never be deleted: nobody could ever scale up
	}
	plan := policy.NewPlan(stored, g.defaults)
	plan.Controls = controls
	// A scale-down a moment ago may not be accounted for yet. Whether the set passed through
	// zero only the pruner knows; until it has said so, old volumes are taken for old.
	plan.Bookkeeping = policy.Observe(stored, policy.Seen{Known: stored.Generation - 1}, g.defaults, g.now())
	if hold := plan.SetGates(stored.UID, g.now()); hold != nil && hold.Decision == policy.Keep {
		return oldVolumes{}, nil // what is kept for good may be used again
	}
	ctx, cancel := context.WithTimeout(ctx, staleLimit)
	defer cancel()
	snapshot, _, err := live.Snapshot(ctx, g.client, stored)
	if err != nil {
		return oldVolumes{}, err
	}
	return oldOnes(plan.Verdicts(snapshot), next), nil
}

// oldOnes are those in the new range that will be deleted.
func oldOnes(verdicts []policy.Verdict, next ordinals) (found oldVolumes) {
	for _, v := range verdicts {
		if !next.contains(v.Ordinal) || v.Decision == policy.Keep {
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
