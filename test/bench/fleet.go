package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/test/sets"
)

// askers is how many of our own requests are under way at once.
const askers = 32

// fleet is a number of equal sets in a namespace of their own.
type fleet struct {
	*world
	namespace string
	size      int
	// builtIn: Kubernetes' own whenScaled: Delete deletes their claims; otherwise pvc-pruner does.
	builtIn bool
}

func (f fleet) name(i int) string { return fmt.Sprintf("s%04d", i) }

// build makes the sets and waits for their pods.
func (f fleet) build(ctx context.Context, replicas int32) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.namespace}}
	if _, err := f.client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	err := f.each(ctx, func(ctx context.Context, i int) error {
		_, err := f.client.AppsV1().StatefulSets(f.namespace).Create(ctx, f.set(i, replicas), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("create sets: %w", err)
	}
	return f.awaitRest(ctx, replicas)
}

func (f fleet) set(i int, replicas int32) *appsv1.StatefulSet {
	set := sets.New(f.name(i), replicas)
	if f.builtIn {
		set.Annotations = nil
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenScaled: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		}
	}
	return set
}

// scale asks for another count of each set, as kubectl scale does.
func (f fleet) scale(ctx context.Context, replicas int32) error {
	err := f.each(ctx, func(ctx context.Context, i int) error {
		scale := &autoscalingv1.Scale{
			ObjectMeta: metav1.ObjectMeta{Name: f.name(i), Namespace: f.namespace}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas},
		}
		_, err := f.client.AppsV1().StatefulSets(f.namespace).UpdateScale(ctx, f.name(i), scale, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return fmt.Errorf("scale sets: %w", err)
	}
	return nil
}

// each does something for every set, some at a time.
func (f fleet) each(ctx context.Context, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(askers)
	for i := range f.size {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}

// awaitRest waits until all sets have their pods and, of those that pvc-pruner looks after, none is in its books.
func (f fleet) awaitRest(ctx context.Context, replicas int32) error {
	for {
		list, err := f.client.AppsV1().StatefulSets(f.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("list sets: %w", err)
		}
		restless := 0
		for i := range list.Items {
			if !atRest(&list.Items[i], replicas, f.builtIn) {
				restless++
			}
		}
		if restless == 0 && len(list.Items) == f.size {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d sets of %s are not at rest: %w", restless, f.namespace, context.Cause(ctx))
		case <-time.After(250 * time.Millisecond):
		}
	}
}

func atRest(set *appsv1.StatefulSet, replicas int32, builtIn bool) bool {
	ready := set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas == replicas && set.Status.ReadyReplicas == replicas
	a := set.Annotations
	return ready && (builtIn || a["pvc-pruner.io/prior-replicas"] == fmt.Sprint(replicas) &&
		a["pvc-pruner.io/target-replicas"] == "" && a["pvc-pruner.io/record"] != "")
}
