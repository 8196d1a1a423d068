package policy_test

import (
	"flag"
	"maps"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

const (
	ownUID     = types.UID("5f3c")
	generation = int64(7) // of the stored set, unless a test says otherwise
)

var (
	now     = time.Date(2026, 3, 1, 12, 0, 0, 700_000_000, time.UTC)
	thisSec = now.Truncate(time.Second)
	earlier = thisSec.Add(-3 * time.Minute)

	defaults = policy.DefaultControls(policy.DefaultDelay)
)

// Rapid's default of a hundred tries rarely meets two odd things at once.
func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", "1000"); err != nil {
		panic(err)
	}
	m.Run() // parses the command line, which wins
}

type setOption func(*appsv1.StatefulSet)

// newSet is the opted-in set "db" with one template, "data", whose status is up to date.
func newSet(replicas int32, options ...setOption) *appsv1.StatefulSet {
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "db", Namespace: "t", UID: ownUID, Generation: generation,
			Annotations: map[string]string{policy.KeyEnabled: "true"},
		},
		Spec: appsv1.StatefulSetSpec{Replicas: &replicas, VolumeClaimTemplates: templates("data")},
	}
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

// with sets annotations, given as key and value in turn.
func with(pairs ...string) setOption {
	return func(set *appsv1.StatefulSet) {
		for i := 0; i < len(pairs); i += 2 {
			set.Annotations[pairs[i]] = pairs[i+1]
		}
	}
}

func optedOut(set *appsv1.StatefulSet) { delete(set.Annotations, policy.KeyEnabled) }

func noReplicas(set *appsv1.StatefulSet) { set.Spec.Replicas = nil }

func noUID(set *appsv1.StatefulSet) { set.UID = "" }

func startingAt(ordinal int32) setOption {
	return func(set *appsv1.StatefulSet) { set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: ordinal} }
}

func atGeneration(n int64) setOption {
	return func(set *appsv1.StatefulSet) { set.Generation = n }
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

type bookOption func(*policy.Bookkeeping)

// idle is bound bookkeeping with nothing pending.
func idle(prior int32, options ...bookOption) policy.Bookkeeping {
	b := policy.Bookkeeping{Prior: &prior, Record: &policy.Record{UID: ownUID, Generation: generation}}
	for _, option := range options {
		option(&b)
	}
	return b
}

// pending is bound bookkeeping with a running window.
func pending(prior, target int32, since time.Time, options ...bookOption) policy.Bookkeeping {
	b := idle(prior, options...)
	b.Window = &policy.Window{Target: target, Since: since}
	return b
}

// downSince is when the first of several scale-downs happened.
func downSince(first time.Time) bookOption {
	return func(b *policy.Bookkeeping) { b.Record.ScaledDownAt = first.UTC().Format(time.RFC3339) }
}

func upTo(generation int64) bookOption {
	return func(b *policy.Bookkeeping) { b.Record.Generation = generation }
}

func from(start int32) bookOption {
	return func(b *policy.Bookkeeping) { b.Record.Start = start }
}

func ofObject(uid types.UID) bookOption {
	return func(b *policy.Bookkeeping) { b.Record.UID = uid }
}

func fenced(b *policy.Bookkeeping) { b.Fence = `{"from":3}` }

func pruned(b *policy.Bookkeeping) { b.LastPrune = `{"claims":2}` }

func unbound(prior int32) policy.Bookkeeping { return policy.Bookkeeping{Prior: &prior} }

type claimOption func(*corev1.PersistentVolumeClaim)

// newClaim was made long before the scale-down and is bound.
func newClaim(name string, options ...claimOption) corev1.PersistentVolumeClaim {
	claim := corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "t", UID: types.UID("uid-of-" + name), ResourceVersion: "11",
			CreationTimestamp: metav1.NewTime(earlier.Add(-time.Hour)), Annotations: map[string]string{},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	for _, option := range options {
		option(&claim)
	}
	return claim
}

func newPod(name string, claims ...string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "t"}}
	for _, c := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "v-" + c, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c},
		}})
	}
	return pod
}

// ready is the plan of a set 5→3 whose window is over: nothing holds it.
func ready(t *testing.T, options ...setOption) policy.Plan {
	t.Helper()
	options = append([]setOption{remembering(pending(5, 3, earlier)), with(policy.KeyDelay, "1m")}, options...)
	return policy.NewPlan(newSet(3, options...), defaults)
}
