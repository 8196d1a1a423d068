package pruner

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// Judge is what a step of the reconciler decides on a set, in a dry run.
func Judge(ctx context.Context, c kubernetes.Interface, set *appsv1.StatefulSet, defaults policy.Controls, now time.Time) (*policy.Hold, []policy.Verdict, error) {
	defaults.DryRun = true
	s := &step{
		client: c, key: client.ObjectKeyFromObject(set), uid: set.UID, now: func() time.Time { return now },
		plan:              func(live *appsv1.StatefulSet) policy.Plan { return policy.NewPlan(live, defaults) },
		considerWorkloads: true, moved: moved, log: logr.Discard(),
	}
	out, err := s.run(ctx)
	return out.hold, out.verdicts, err
}
