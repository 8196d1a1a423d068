package observer

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// history is all that happened, in the order of the API server's revisions.
type history struct {
	sets   map[string][]setVersion
	claims []*life
	pods   []*life
}

// setVersion is a StatefulSet at a revision.
type setVersion struct {
	revision uint64
	seen     time.Time
	start    int32
	replicas int32
	enabled  bool
	paused   bool
	delay    time.Duration
	fence    string
}

// life is a claim's or a pod's, in revisions; 0 is never.
type life struct {
	name, uid             string
	created, marked, gone uint64
	markedSeen            time.Time
	claims                []string // of a pod
}

// Recorder follows a namespace.
type Recorder struct {
	cancel  context.CancelFunc
	done    sync.WaitGroup
	sources []*cache.ListWatch

	mu      sync.Mutex
	history history
	byUID   map[string]*life
	latest  map[string]latest // by UID
	err     error
}

// Observe begins to record a namespace, until the context ends or Stop is called; what
// exists already counts as created now.
func Observe(ctx context.Context, client kubernetes.Interface, namespace string) (*Recorder, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := &Recorder{
		cancel: cancel, sources: sources(client, namespace),
		history: history{sets: map[string][]setVersion{}}, byUID: map[string]*life{}, latest: map[string]latest{},
	}
	for _, source := range r.sources {
		if err := r.follow(ctx, source); err != nil {
			r.Stop()
			return nil, fmt.Errorf("follow %s: %w", namespace, err)
		}
	}
	return r, nil
}

// sources are the kinds that a Recorder follows.
func sources(client kubernetes.Interface, namespace string) []*cache.ListWatch {
	sets, claims, pods := client.AppsV1().StatefulSets(namespace), client.CoreV1().PersistentVolumeClaims(namespace), client.CoreV1().Pods(namespace)
	return []*cache.ListWatch{
		{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return sets.List(ctx, o)
			},
			WatchFuncWithContext: sets.Watch,
		},
		{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return claims.List(ctx, o)
			},
			WatchFuncWithContext: claims.Watch,
		},
		{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return pods.List(ctx, o)
			},
			WatchFuncWithContext: pods.Watch,
		},
	}
}

// follow records a kind from its list on. The retrying watch begins again where it
// ended, so that no event is missed; one that cannot makes the whole run void.
func (r *Recorder) follow(ctx context.Context, source *cache.ListWatch) error {
	items, version, err := list(ctx, source)
	if err != nil {
		return err
	}
	for _, item := range items {
		r.take(watch.Event{Type: watch.Added, Object: item})
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, version, source)
	if err != nil {
		return err
	}
	r.done.Go(func() {
		for event := range w.ResultChan() {
			r.take(event)
		}
		if ctx.Err() == nil {
			r.fail(fmt.Errorf("a watch of the observer ended"))
		}
	})
	return nil
}

// list returns what exists now, and the revision of now.
func list(ctx context.Context, source *cache.ListWatch) (items []runtime.Object, version string, err error) {
	list, err := source.ListWithContext(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, "", err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return nil, "", err
	}
	items, err = meta.ExtractList(list)
	return items, accessor.GetResourceVersion(), err
}

// Stop ends the recording.
func (r *Recorder) Stop() {
	r.cancel()
	r.done.Wait()
}

func (r *Recorder) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// Judge returns what was done wrong until now, and goes on recording. It errs if its
// watches do not catch up: an event that is not here yet would be held against nobody,
// or against the wrong one.
func (r *Recorder) Judge(ctx context.Context) ([]string, error) {
	if err := r.catchUp(ctx); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return judge(r.history, r.err), nil
}

// Deleted is how many claims were deleted so far.
func (r *Recorder) Deleted() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, claim := range r.history.claims {
		if claim.marked > 0 {
			n++
		}
	}
	return n
}

// take records one event.
func (r *Recorder) take(event watch.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o, err := meta.Accessor(event.Object); err == nil {
		r.latest[string(o.GetUID())] = latest{revision(o.GetResourceVersion()), event.Type == watch.Deleted}
	}
	switch o := event.Object.(type) {
	case *appsv1.StatefulSet:
		r.takeSet(o)
	case *corev1.PersistentVolumeClaim:
		l := r.lifeOf(&o.ObjectMeta, &r.history.claims)
		note(l, &o.ObjectMeta, event.Type)
	case *corev1.Pod:
		l := r.lifeOf(&o.ObjectMeta, &r.history.pods)
		l.claims = nil
		for i := range o.Spec.Volumes {
			if c := o.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
				l.claims = append(l.claims, c.ClaimName)
			}
		}
		note(l, &o.ObjectMeta, event.Type)
	default:
		r.err = fmt.Errorf("the observer met %s %T", event.Type, event.Object)
	}
}

func (r *Recorder) takeSet(o *appsv1.StatefulSet) {
	v := setVersion{
		revision: revision(o.ResourceVersion), seen: time.Now(), replicas: *o.Spec.Replicas,
		enabled: o.Annotations["pvc-pruner.io/enabled"] == "true", paused: o.Annotations["pvc-pruner.io/paused"] == "true",
		fence: o.Annotations["pvc-pruner.io/fence"],
	}
	if o.Spec.Ordinals != nil {
		v.start = o.Spec.Ordinals.Start
	}
	if d, err := time.ParseDuration(o.Annotations["pvc-pruner.io/delay"]); err == nil {
		v.delay = d
	}
	r.history.sets[o.Name] = append(r.history.sets[o.Name], v)
}

func (r *Recorder) lifeOf(o *metav1.ObjectMeta, all *[]*life) *life {
	l := r.byUID[string(o.UID)]
	if l == nil {
		l = &life{name: o.Name, uid: string(o.UID), created: revision(o.ResourceVersion)}
		r.byUID[string(o.UID)] = l
		*all = append(*all, l)
	}
	return l
}

func note(l *life, o *metav1.ObjectMeta, event watch.EventType) {
	if o.DeletionTimestamp != nil && l.marked == 0 {
		l.marked, l.markedSeen = revision(o.ResourceVersion), time.Now()
	}
	if event == watch.Deleted {
		l.gone = revision(o.ResourceVersion)
		if l.marked == 0 {
			l.marked, l.markedSeen = l.gone, time.Now()
		}
	}
}

// revision is the API server's order of all writes (KEP-5504 makes it comparable).
func revision(version string) uint64 {
	n, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
