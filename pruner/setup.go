package pruner

import (
	"errors"
	"fmt"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// FieldManager is the name under which pvc-pruner writes; it owns its own keys only.
const FieldManager = "pvc-pruner"

// How long a set rests after an error: doubled each time, within these bounds. The
// upper one is also the longest wait after the webhook or the API server came back.
const (
	retryFirst = 500 * time.Millisecond
	retryLast  = 30 * time.Second
)

// Options of the pruner. Client, Workers, FenceMargin and Registry are required.
type Options struct {
	// Client reads live and deletes.
	Client kubernetes.Interface
	// Defaults hold where a StatefulSet has no annotation of its own.
	Defaults policy.Controls
	// ConsiderWorkloads keeps claims that the pod template of a CronJob, Job, Deployment,
	// DaemonSet, ReplicaSet or ReplicationController names. It needs the right to list those.
	ConsiderWorkloads bool
	// Snapshots takes VolumeSnapshots, and sees those of others. nil: none are taken, and
	// the claims of sets that ask for them stay.
	Snapshots snapshotclient.Interface
	// FenceMargin before the end of a fence nothing more is deleted; it covers DELETEs
	// under way and clocks that differ.
	FenceMargin time.Duration
	// Workers is how many StatefulSets are handled at once.
	Workers int
	// Registry takes the metrics.
	Registry prometheus.Registerer
	// Clock tells the time; nil is time.Now.
	Clock func() time.Time
}

func (o Options) check() error {
	switch {
	case o.Client == nil || o.Registry == nil:
		return errors.New("a Client and a Registry are required")
	case o.Workers < 1:
		return fmt.Errorf("%d workers cannot work", o.Workers)
	case o.FenceMargin < deleteDeadline || o.FenceMargin >= policy.FenceLifetime:
		return fmt.Errorf("FenceMargin %s is not between %s and %s", o.FenceMargin, deleteDeadline, policy.FenceLifetime)
	}
	return nil
}

// Setup adds the reconciler to the manager. It runs only in the elected leader.
func Setup(mgr ctrl.Manager, opts Options) error {
	if err := opts.check(); err != nil {
		return fmt.Errorf("pruner: %w", err)
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	metrics, err := newMetrics(opts.Registry)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	fence, err := newFencer(opts.Client, opts.FenceMargin)
	if err != nil {
		return err
	}
	r := &reconciler{
		cache:    mgr.GetCache(),
		client:   opts.Client,
		defaults: opts.Defaults,
		now:      opts.Clock,
		memory:   newMemory(opts.Defaults),
		events:   newReporter(opts.Client, opts.Clock),
		metrics:  metrics,
		fence:    fence,

		considerWorkloads: opts.ConsiderWorkloads,
		snapshots:         opts.Snapshots,
	}
	if !fenced {
		r.fence = nil
	}
	c, err := controller.New("pruner", mgr, controller.Options{
		Reconciler:              r,
		MaxConcurrentReconciles: opts.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast),
	})
	if err != nil {
		return fmt.Errorf("create controller: %w", err)
	}
	if err := c.Watch(source.Kind[client.Object](mgr.GetCache(), &appsv1.StatefulSet{}, r.memory.handler())); err != nil {
		return fmt.Errorf("watch StatefulSets: %w", err)
	}
	return nil
}
