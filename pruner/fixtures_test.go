package pruner

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const (
	namespace  = "t"
	ownUID     = types.UID("5f3c")
	generation = int64(7)
)

var (
	// epoch is the time at which a test with a clock of its own begins.
	epoch      = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	scaledDown = epoch.Add(-time.Hour)

	defaults = policy.DefaultControls(policy.DefaultDelay)
)

func atEpoch() time.Time { return epoch }

// quietly is the test's context with a logger that says nothing.
func quietly(t *testing.T) context.Context {
	t.Helper()
	return logr.NewContext(t.Context(), logr.Discard())
}

type setOption func(*appsv1.StatefulSet)

// newSet is the opted-in set "db" with one template, "data", that went from prior to
// replicas an hour ago; nothing holds it. Where the two are the same it is idle.
func newSet(prior, replicas int32, options ...setOption) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "db", Namespace: namespace, UID: ownUID, Generation: generation, ResourceVersion: "100",
			Annotations: map[string]string{policy.KeyEnabled: "true"},
		},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, VolumeClaimTemplates: templates("data")},
	}
	b := policy.Bookkeeping{Prior: &prior, Record: &policy.Record{UID: ownUID, Generation: generation}}
	if replicas != prior {
		b.Window = &policy.Window{Target: replicas, Since: scaledDown}
	}
	remembering(b)(set)
	for _, option := range options {
		option(set)
	}
	set.Status.ObservedGeneration = set.Generation
	return set
}

func templates(names ...string) []corev1.PersistentVolumeClaim {
	out := make([]corev1.PersistentVolumeClaim, 0, len(names))
	for _, n := range names {
		out = append(out, corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	return out
}

func remembering(b policy.Bookkeeping) setOption {
	return func(set *appsv1.StatefulSet) {
		annotations, err := b.Annotations()
		if err != nil {
			panic(err)
		}
		maps.Copy(set.Annotations, annotations)
	}
}

func with(key, value string) setOption {
	return func(set *appsv1.StatefulSet) { set.Annotations[key] = value }
}

func lacking(key string) setOption {
	return func(set *appsv1.StatefulSet) { delete(set.Annotations, key) }
}

func asAnotherObject(set *appsv1.StatefulSet) { set.UID = "6a7b" }

func atGeneration(n int64) setOption {
	return func(set *appsv1.StatefulSet) { set.Generation = n }
}

func scaledTo(n int32) setOption {
	return func(set *appsv1.StatefulSet) { set.Spec.Replicas = &n }
}

func atVersion(version string) setOption {
	return func(set *appsv1.StatefulSet) { set.ResourceVersion = version }
}

func changed(set *appsv1.StatefulSet, options ...setOption) *appsv1.StatefulSet {
	set = set.DeepCopy()
	for _, option := range options {
		option(set)
	}
	return set
}

type claimOption func(*corev1.PersistentVolumeClaim)

// newClaim is a claim of 1Gi, bound to the volume pv-<ordinal>.
func newClaim(ordinal int, options ...claimOption) *corev1.PersistentVolumeClaim {
	name := fmt.Sprintf("data-db-%d", ordinal)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace, UID: types.UID("uid-of-" + name), ResourceVersion: "1" + fmt.Sprint(ordinal),
			CreationTimestamp: metav1.NewTime(scaledDown.Add(-time.Hour)),
		},
		Spec: corev1.PersistentVolumeClaimSpec{VolumeName: fmt.Sprintf("pv-%d", ordinal)},
		Status: corev1.PersistentVolumeClaimStatus{
			Phase:    corev1.ClaimBound,
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
	for _, option := range options {
		option(claim)
	}
	return claim
}

func heldBy(finalizer string) claimOption {
	return func(c *corev1.PersistentVolumeClaim) { c.Finalizers = []string{finalizer} }
}

func newPod(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	for _, c := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: c, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
		}})
	}
	return pod
}

func planOf(set *appsv1.StatefulSet) policy.Plan { return policy.NewPlan(set, defaults) }
