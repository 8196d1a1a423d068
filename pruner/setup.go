package pruner

import (
	"context"
	"errors"
	"fmt"
	"time"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

// Pruner prunes for as long as Run runs.
type Pruner struct {
	cache      cache.Cache
	controller controller.Options
	opts       Options
	metrics    *metrics
	fence      *fencer
}

// New makes a pruner that sees StatefulSets through the cache of the manager and uses the manager's defaults for
// controllers. The manager knows nothing of it.
func New(mgr ctrl.Manager, opts Options) (*Pruner, error) {
	if err := opts.check(); err != nil {
		return nil, fmt.Errorf("pruner: %w", err)
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	p := &Pruner{cache: mgr.GetCache(), opts: opts, controller: controller.Options{
		MaxConcurrentReconciles: opts.Workers,
		SkipNameValidation:      new(true), // one after the other may run
	}}
	p.controller.DefaultFromConfig(mgr.GetControllerOptions())
	p.controller.Logger = mgr.GetLogger()
	var err error
	if p.metrics, err = newMetrics(opts.Registry); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	if p.fence, err = newFencer(opts.Client, opts.FenceMargin); err != nil {
		return nil, err
	}
	if !fenced {
		p.fence = nil
	}
	return p, nil
}

// Run prunes until the context ends and work in hand is finished or broken off. It begins with an empty memory: what
// happened before, perhaps under another leader, was not seen. Only one may run at a time, in the elected leader.
func (p *Pruner) Run(ctx context.Context) error {
	r := &reconciler{
		cache:    p.cache,
		client:   p.opts.Client,
		defaults: p.opts.Defaults,
		now:      p.opts.Clock,
		memory:   newMemory(p.opts.Defaults),
		events:   newReporter(p.opts.Client, p.opts.Clock),
		metrics:  p.metrics,
		fence:    p.fence,

		considerWorkloads: p.opts.ConsiderWorkloads,
		snapshots:         p.opts.Snapshots,
	}
	options := p.controller
	options.Reconciler = r
	options.RateLimiter = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast)
	c, err := controller.NewUnmanaged("pruner", options)
	if err != nil {
		return fmt.Errorf("create controller: %w", err)
	}
	watched := &leavable{Cache: p.cache}
	defer watched.leave()
	if err := c.Watch(source.Kind[client.Object](watched, &appsv1.StatefulSet{}, r.memory.handler())); err != nil {
		return fmt.Errorf("watch StatefulSets: %w", err)
	}
	return c.Start(ctx)
}
