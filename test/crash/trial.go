package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/observer"
	"github.com/pvc-pruner/pvc-pruner/test/sets"
)

const setName = "db"

// trial is one set in a namespace of its own, under observation.
type trial struct {
	client    kubernetes.Interface
	namespace string
	recorder  *observer.Recorder
	arm       *arm
	up        bool // it was scaled up again in the middle of the prune
}

// newTrial makes a set of three and waits until it is ready.
func newTrial(ctx context.Context, client kubernetes.Interface, name string) (*trial, error) {
	t := &trial{client: client, namespace: "crash-" + name}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: t.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create namespace: %w", err)
	}
	if _, err := client.AppsV1().StatefulSets(t.namespace).Create(ctx, sets.New(setName, 3), metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("create set: %w", err)
	}
	var err error
	if t.recorder, err = observer.Observe(ctx, client, t.namespace); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	return t, t.ready(ctx, 3)
}

// ready waits until so many pods run and the record covers them.
func (t *trial) ready(ctx context.Context, replicas int32) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyFor, true, func(ctx context.Context) (bool, error) {
		set, err := t.client.AppsV1().StatefulSets(t.namespace).Get(ctx, setName, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		return set.Status.ReadyReplicas == replicas && set.Annotations["pvc-pruner.io/record"] != "" &&
			set.Annotations["pvc-pruner.io/prior-replicas"] == fmt.Sprint(replicas), nil
	})
	if err != nil {
		return fmt.Errorf("%s: wait for %d ready pods: %w", t.namespace, replicas, err)
	}
	return nil
}

// left says what is not as it must be in the end: one claim, no fence, a closed record.
func (t *trial) left(ctx context.Context) ([]string, error) {
	claims, err := t.client.CoreV1().PersistentVolumeClaims(t.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	set, err := t.client.AppsV1().StatefulSets(t.namespace).Get(ctx, setName, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	var left, names []string
	for i := range claims.Items {
		names = append(names, claims.Items[i].Name)
	}
	if !slices.Equal(names, []string{"data-db-0"}) {
		left = append(left, "claims are "+strings.Join(names, ", "))
	}
	for _, key := range []string{"fence", "target-replicas", "scaled-down-at"} {
		if value, ok := set.Annotations["pvc-pruner.io/"+key]; ok {
			left = append(left, key+" is "+value)
		}
	}
	return left, nil
}

// scale scales as kubectl scale does, and again while a fence refuses.
func (t *trial) scale(ctx context.Context, replicas int) error {
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, restFor, true, func(ctx context.Context) (bool, error) {
		_, err := t.client.AppsV1().StatefulSets(t.namespace).Patch(ctx, setName, types.MergePatchType, body, metav1.PatchOptions{}, "scale")
		return err == nil, ignoreConflict(err)
	})
	if err != nil {
		return fmt.Errorf("%s: scale to %d: %w", t.namespace, replicas, err)
	}
	return nil
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) {
		return nil // with a fence, or with another writer
	}
	return err
}
