package pruner

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	k8stesting "k8s.io/client-go/testing"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

var (
	setsResource   = appsv1.SchemeGroupVersion.WithResource("statefulsets")
	claimsResource = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// fakeCluster is client-go's fake, taught what these tests rest on: preconditions of a
// PATCH and a DELETE, finalizers, watches that begin in the past and end with their
// context, and a webhook that stamps and enforces fences. Everything else about a
// cluster is tested against a real API server.
type fakeCluster struct {
	kubernetes.Interface
	fake *fake.Clientset

	// openSetWatch may refuse to open a watch of the set, or close it at once.
	openSetWatch func(*openWatch) error
	// openClaimWatch may refuse to open a watch of claims.
	openClaimWatch func() error
	// afterDelete is called when a DELETE has been carried out, before it is answered.
	afterDelete func(claim string)
	// deadlines of the DELETEs' contexts, from the moment of the call.
	deadlines []time.Duration
	// unstamped and unenforced say what the webhook does not do.
	unstamped, unenforced bool

	mu                       sync.Mutex
	setWatches, claimWatches []*openWatch // in the order in which they were opened
	gone                     []watch.Event
}

type openWatch struct {
	*watch.RaceFreeFakeWatcher
	version string // from which it began
}

func newFakeCluster(objects ...runtime.Object) *fakeCluster {
	c := &fakeCluster{fake: fake.NewClientset(objects...)}
	c.Interface = c.fake
	c.fake.PrependReactor("delete", "persistentvolumeclaims", c.deleteClaim)
	c.fake.PrependReactor("patch", "statefulsets", c.patchSet)
	c.fake.PrependReactor("update", "statefulsets/scale", c.scaleSet)
	c.fake.PrependWatchReactor("persistentvolumeclaims", c.watchClaims)
	c.fake.PrependWatchReactor("statefulsets", c.watchSets)
	return c
}

func (c *fakeCluster) deleteClaim(action k8stesting.Action) (bool, runtime.Object, error) {
	call := action.(k8stesting.DeleteActionImpl)
	obj, err := c.fake.Tracker().Get(claimsResource, call.Namespace, call.Name)
	if err != nil {
		return true, nil, err
	}
	claim := obj.(*corev1.PersistentVolumeClaim)
	if p := call.DeleteOptions.Preconditions; *p.UID != claim.UID || *p.ResourceVersion != claim.ResourceVersion {
		return true, nil, apierrors.NewConflict(claimsResource.GroupResource(), call.Name, fmt.Errorf("precondition failed"))
	}
	if len(claim.Finalizers) > 0 {
		claim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		return true, nil, c.fake.Tracker().Update(claimsResource, claim, claim.Namespace)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = append(c.gone, watch.Event{Type: watch.Deleted, Object: claim})
	for _, w := range c.claimWatches {
		w.Delete(claim)
	}
	return true, nil, c.fake.Tracker().Delete(claimsResource, call.Namespace, call.Name)
}

// patchSet carries out a merge patch of annotations, as store sends it.
func (c *fakeCluster) patchSet(action k8stesting.Action) (bool, runtime.Object, error) {
	call := action.(k8stesting.PatchActionImpl)
	obj, err := c.fake.Tracker().Get(setsResource, call.Namespace, call.Name)
	if err != nil {
		return true, nil, err
	}
	stored := obj.(*appsv1.StatefulSet)
	var patch struct {
		Metadata struct {
			UID             types.UID
			ResourceVersion string
			Annotations     map[string]*string
		}
	}
	if err := json.Unmarshal(call.Patch, &patch); err != nil {
		return true, nil, err
	}
	if patch.Metadata.UID != stored.UID || patch.Metadata.ResourceVersion != stored.ResourceVersion {
		return true, nil, apierrors.NewConflict(setsResource.GroupResource(), call.Name, fmt.Errorf("precondition failed"))
	}
	updated := stored.DeepCopy()
	for key, value := range patch.Metadata.Annotations {
		if delete(updated.Annotations, key); value != nil {
			updated.Annotations[key] = *value
		}
	}
	if value, ok, _ := policy.Stamp(stored, updated, time.Now()); ok && !c.unstamped {
		updated.Annotations[policy.KeyFence] = value
	}
	updated.ResourceVersion += "+"
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.setWatches {
		w.Modify(updated.DeepCopy())
	}
	return true, updated.DeepCopy(), c.fake.Tracker().Update(setsResource, updated, call.Namespace)
}

// scaleSet refuses what a fence forbids, and otherwise accepts and does nothing.
func (c *fakeCluster) scaleSet(action k8stesting.Action) (bool, runtime.Object, error) {
	scale := action.(k8stesting.UpdateActionImpl).Object.(*autoscalingv1.Scale)
	obj, err := c.fake.Tracker().Get(setsResource, namespace, scale.Name)
	if err != nil {
		return true, nil, err
	}
	set := obj.(*appsv1.StatefulSet)
	fence := policy.ReadFence(set.Annotations)
	if c.unenforced || !fence.Stands(time.Now()) || !fence.Crosses(policy.Start(set), scale.Spec.Replicas) {
		return true, scale, nil
	}
	return true, nil, apierrors.NewConflict(setsResource.GroupResource(), scale.Name, fmt.Errorf("fence %s", fence.Holder))
}

func newWatch(action k8stesting.Action) *openWatch {
	return &openWatch{watch.NewRaceFreeFake(), action.(k8stesting.WatchActionImpl).ListOptions.ResourceVersion}
}

// watchClaims begins before the first deletion, as awaitGone asks for.
func (c *fakeCluster) watchClaims(action k8stesting.Action) (bool, watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.openClaimWatch != nil {
		return true, nil, c.openClaimWatch()
	}
	w := newWatch(action)
	for _, event := range c.gone {
		w.Action(event.Type, event.Object)
	}
	c.claimWatches = append(c.claimWatches, w)
	return true, w, nil
}

func (c *fakeCluster) watchSets(action k8stesting.Action) (bool, watch.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := newWatch(action)
	c.setWatches = append(c.setWatches, w)
	if c.openSetWatch != nil {
		if err := c.openSetWatch(w); err != nil {
			return true, nil, err
		}
	}
	return true, w, nil
}

// lastSetWatch and lastClaimWatch are those that are open, if any is.
func (c *fakeCluster) lastSetWatch() *openWatch { return c.last(&c.setWatches) }

func (c *fakeCluster) lastClaimWatch() *openWatch { return c.last(&c.claimWatches) }

func (c *fakeCluster) last(watches *[]*openWatch) *openWatch {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (*watches)[len(*watches)-1]
}

// on lets a function see one kind of call first, and answer it if it likes.
func (c *fakeCluster) on(verb, resource string, react k8stesting.ReactionFunc) {
	c.fake.Lock()
	defer c.fake.Unlock()
	c.fake.PrependReactor(verb, resource, react)
}

// fail makes one kind of call fail.
func (c *fakeCluster) fail(verb, resource string, err error) {
	c.on(verb, resource, func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

// put replaces an object, unseen by any watch.
func (c *fakeCluster) put(t *testing.T, obj metav1.Object) {
	t.Helper()
	resource := claimsResource
	if _, ok := obj.(*appsv1.StatefulSet); ok {
		resource = setsResource
	}
	if err := c.fake.Tracker().Update(resource, obj.(runtime.Object), namespace); err != nil {
		t.Fatal(err)
	}
}

// deletes are the DELETEs that were sent, in order.
func (c *fakeCluster) deletes() []string {
	var names []string
	for _, action := range c.fake.Actions() {
		if call, ok := action.(k8stesting.DeleteActionImpl); ok {
			names = append(names, call.Name)
		}
	}
	return names
}

func (c *fakeCluster) step() *step {
	return &step{
		client: c, key: types.NamespacedName{Namespace: namespace, Name: "db"}, uid: ownUID,
		plan: planOf, moved: moved, fence: c.fencer(), patience: goneDeadline, now: time.Now, log: logr.Discard(),
	}
}

const ownHolder = "a1b2c3d4"

func (c *fakeCluster) fencer() *fencer {
	return &fencer{client: c, holder: ownHolder, margin: policy.FenceMargin}
}

// stored is the set as it is stored, with changes that nobody has stored.
func (c *fakeCluster) stored(t *testing.T, options ...setOption) *appsv1.StatefulSet {
	t.Helper()
	obj, err := c.fake.Tracker().Get(setsResource, namespace, "db")
	if err != nil {
		t.Fatal(err)
	}
	return changed(obj.(*appsv1.StatefulSet), options...)
}

func (c *fakeCluster) AppsV1() appsclient.AppsV1Interface { return fakeApps{c.Interface.AppsV1()} }

func (c *fakeCluster) CoreV1() coreclient.CoreV1Interface { return fakeCore{c.Interface.CoreV1(), c} }

type fakeApps struct{ appsclient.AppsV1Interface }

func (a fakeApps) StatefulSets(namespace string) appsclient.StatefulSetInterface {
	return fakeSets{a.AppsV1Interface.StatefulSets(namespace)}
}

type fakeSets struct {
	appsclient.StatefulSetInterface
}

func (s fakeSets) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*appsv1.StatefulSet, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return s.StatefulSetInterface.Patch(ctx, name, pt, data, opts, subresources...)
}

func (s fakeSets) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := s.StatefulSetInterface.Watch(ctx, opts)
	return endingWith(ctx, w, err)
}

type fakeCore struct {
	coreclient.CoreV1Interface
	cluster *fakeCluster
}

func (c fakeCore) PersistentVolumeClaims(namespace string) coreclient.PersistentVolumeClaimInterface {
	return fakeClaims{c.CoreV1Interface.PersistentVolumeClaims(namespace), c.cluster}
}

type fakeClaims struct {
	coreclient.PersistentVolumeClaimInterface
	cluster *fakeCluster
}

func (c fakeClaims) Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := c.PersistentVolumeClaimInterface.Watch(ctx, opts)
	return endingWith(ctx, w, err)
}

func (c fakeClaims) Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error {
	deadline, _ := ctx.Deadline()
	c.cluster.deadlines = append(c.cluster.deadlines, time.Until(deadline))
	err := c.PersistentVolumeClaimInterface.Delete(ctx, name, opts)
	if c.cluster.afterDelete != nil {
		c.cluster.afterDelete(name)
	}
	if ctx.Err() != nil {
		return ctx.Err() // the request was cut before its answer came
	}
	return err
}

// endingWith closes a watch when its context ends, as the real client does.
func endingWith(ctx context.Context, w watch.Interface, err error) (watch.Interface, error) {
	if err == nil {
		context.AfterFunc(ctx, w.Stop)
	}
	return w, err
}

// told is what a step saw and did, in words.
type told struct {
	Deleted, Dying, Failed, Ambiguous, Kept []string
	Hold                                    policy.Reason
	Stopped                                 string
}

func tell(out outcome) told {
	w := told{Deleted: names(out.deleted), Dying: names(out.dying)}
	for _, f := range out.failed {
		w.Failed = append(w.Failed, f.verdict.Claim.Name)
	}
	for _, f := range out.ambiguous {
		w.Ambiguous = append(w.Ambiguous, f.verdict.Claim.Name)
	}
	for _, v := range out.verdicts {
		w.Kept = append(w.Kept, fmt.Sprintf("%s: %s %s", v.Claim.Name, v.Decision, v.Reason))
	}
	if out.hold != nil {
		w.Hold = out.hold.Reason
	}
	if out.stopped != nil {
		w.Stopped = out.stopped.Error()
	}
	return w
}
