package pruner

import (
	"context"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// surroundings are what may speak for a claim besides claims, sets and pods. They are read
// once for a step, and only where there is something to delete: unlike a pod, none of them
// begins to use a claim from one moment to the next.
type surroundings struct {
	workloads []policy.Workload
	snapshots []policy.VolumeSnapshot
}

func (a surroundings) of(snapshot policy.Snapshot) policy.Snapshot {
	snapshot.Workloads, snapshot.VolumeSnapshots = a.workloads, a.snapshots
	return snapshot
}

// lookAround reads the surroundings, as far as pvc-pruner may.
func (s *step) lookAround(ctx context.Context) (around surroundings, err error) {
	if s.considerWorkloads {
		if around.workloads, err = live.Workloads(ctx, s.client, s.key.Namespace); err != nil {
			return around, err
		}
	}
	if s.snapshots != nil {
		around.snapshots, err = live.VolumeSnapshots(ctx, s.snapshots, s.key.Namespace)
	}
	return around, err
}
