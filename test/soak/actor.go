package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// refusedFor is how long a change may be refused in all: what was deleted behind a
// fence is gone long before.
const refusedFor = 30 * time.Second

// actor meddles with one set.
type actor struct {
	client kubernetes.Interface
	set    string
	counts *tally
	until  time.Time
	random *rand.Rand
}

// tally counts what actors did.
type tally struct {
	mu       sync.Mutex
	changes  int
	refusals int
	slowest  time.Duration
}

func (t *tally) add(refusals int, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changes++
	t.refusals += refusals
	t.slowest = max(t.slowest, took)
}

// act scales down, waits for a random moment, and changes something, again and again.
func (a *actor) act(ctx context.Context, rounds int) error {
	for range rounds {
		if time.Now().After(a.until) {
			return nil
		}
		up := 2 + a.random.Int32N(maxReplicas-1)
		if err := a.scale(ctx, up); err != nil {
			return err
		}
		if err := a.wait(ctx, 1500*time.Millisecond); err != nil {
			return err
		}
		if err := a.scale(ctx, a.down(up)); err != nil {
			return err
		}
		// The prune begins when the pods are gone, some hundred milliseconds from now.
		if err := a.wait(ctx, 900*time.Millisecond); err != nil {
			return err
		}
		if err := a.meddle(ctx, up); err != nil {
			return err
		}
	}
	return nil
}

// down is a lower count; to zero, where all is kept, once in a while.
func (a *actor) down(from int32) int32 {
	if a.random.IntN(8) == 0 {
		return 0
	}
	return 1 + a.random.Int32N(from-1)
}

// meddle is most often the scale-up that could meet a deletion.
func (a *actor) meddle(ctx context.Context, up int32) error {
	switch a.random.IntN(12) {
	case 0:
		return a.annotate(ctx, "enabled", "false", "true")
	case 1:
		return a.annotate(ctx, "paused", "true", "false")
	case 2:
		return a.annotate(ctx, "delay", "1s", "0s")
	case 3:
		return a.patch(ctx, fmt.Sprintf(`{"spec":{"ordinals":{"start":%d}}}`, a.random.IntN(3)))
	case 4:
		return a.scale(ctx, 1+a.random.Int32N(maxReplicas))
	}
	return a.scale(ctx, up)
}

// annotate sets one of our annotations, and after a moment another value.
func (a *actor) annotate(ctx context.Context, key string, values ...string) error {
	for _, value := range values {
		if err := a.patch(ctx, fmt.Sprintf(`{"metadata":{"annotations":{"pvc-pruner.io/%s":%q}}}`, key, value)); err != nil {
			return err
		}
		if err := a.wait(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (a *actor) patch(ctx context.Context, body string) error {
	return a.persist(ctx, func() error {
		_, err := a.client.AppsV1().StatefulSets(namespace).Patch(ctx, a.set, types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	})
}

// scale sets the count through one of the paths that people and programs use.
func (a *actor) scale(ctx context.Context, replicas int32) error {
	sets := a.client.AppsV1().StatefulSets(namespace)
	body := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	way := a.random.IntN(5)
	return a.persist(ctx, func() error {
		var err error
		switch way {
		case 0: // kubectl scale
			_, err = sets.Patch(ctx, a.set, types.MergePatchType, body, metav1.PatchOptions{}, "scale")
		case 1: // an autoscaler
			err = a.putScale(ctx, replicas)
		case 2: // kubectl edit
			set, getErr := sets.Get(ctx, a.set, metav1.GetOptions{})
			if getErr != nil {
				return getErr
			}
			set.Spec.Replicas = &replicas
			_, err = sets.Update(ctx, set, metav1.UpdateOptions{})
		case 3: // kubectl apply --server-side
			force := true
			apply := fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"replicas":%d}}`, replicas)
			_, err = sets.Patch(ctx, a.set, types.ApplyPatchType, apply, metav1.PatchOptions{FieldManager: "soak", Force: &force})
		default: // kubectl patch
			_, err = sets.Patch(ctx, a.set, types.MergePatchType, body, metav1.PatchOptions{})
		}
		return err
	})
}

func (a *actor) putScale(ctx context.Context, replicas int32) error {
	sets := a.client.AppsV1().StatefulSets(namespace)
	current, err := sets.GetScale(ctx, a.set, metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = sets.UpdateScale(ctx, a.set, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: a.set, Namespace: namespace, ResourceVersion: current.ResourceVersion},
		Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
	}, metav1.UpdateOptions{})
	return err
}

// persist tries until a change is accepted. A conflict is ordinary, be it with another
// writer or with a fence, but it must end.
func (a *actor) persist(ctx context.Context, change func() error) error {
	began := time.Now()
	refusals := 0
	for {
		err := change()
		if err == nil {
			a.counts.add(refusals, time.Since(began))
			return nil
		}
		if !apierrors.IsConflict(err) || time.Since(began) > refusedFor {
			return fmt.Errorf("change %s, after %s: %w", a.set, time.Since(began).Round(time.Millisecond), err)
		}
		if strings.Contains(err.Error(), "pvc-pruner is deleting claims") {
			refusals++
		}
		if err := a.wait(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// wait for a random time below limit.
func (a *actor) wait(ctx context.Context, limit time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Duration(a.random.Int64N(int64(limit)))):
		return nil
	}
}
