package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// fenceAnnotation is on a StatefulSet while claims are being deleted.
const fenceAnnotation = "pvc-pruner.io/fence"

// defaultQuiet is how long settle wants to see no change without an argument.
const defaultQuiet = 3 * time.Second

// settleDuration is what settle's argument adds to its time: nothing can be quiet for longer than it is watched.
func settleDuration(args []string) time.Duration {
	if len(args) == 0 {
		return 0
	}
	d, err := positiveDuration(args[0])
	if err != nil {
		return 0 // settle itself will say so
	}
	return d
}

// settle waits until no claim of the namespace has changed for a while, and no StatefulSet carries a fence.
func settle(ctx context.Context, s *script, args []string) error {
	quiet := defaultQuiet
	if len(args) == 1 {
		var err error
		if quiet, err = positiveDuration(args[0]); err != nil {
			return err
		}
	}
	last := "nothing was seen"
	for {
		restless, err := s.watchQuiet(ctx, quiet)
		switch {
		case err == nil && restless == "":
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		case restless != "":
			last = restless
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s", context.Cause(ctx), last)
		case <-time.After(pollInterval):
		}
	}
}

// watchQuiet watches the namespace for as long as it has to be quiet. It returns what disturbed it, or "".
func (s *script) watchQuiet(ctx context.Context, quiet time.Duration) (restless string, err error) {
	claims := s.client.CoreV1().PersistentVolumeClaims(s.namespace)
	list, err := claims.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list claims: %w", err)
	}
	// A watch misses nothing between two looks, such as a claim that is deleted and made anew.
	changes, err := claims.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return "", fmt.Errorf("watch claims: %w", err)
	}
	defer changes.Stop()
	enough := time.NewTimer(quiet)
	defer enough.Stop()
	look := time.NewTicker(pollInterval)
	defer look.Stop()
	for {
		fenced, err := s.fenced(ctx)
		if err != nil || fenced != "" {
			return fenced, err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case event, ok := <-changes.ResultChan():
			return describeChange(event, ok), nil
		case <-enough.C:
			return "", nil
		case <-look.C:
		}
	}
}

// fenced names a StatefulSet of the namespace that carries a fence, or is "".
func (s *script) fenced(ctx context.Context) (string, error) {
	sets, err := s.client.AppsV1().StatefulSets(s.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list StatefulSets: %w", err)
	}
	for i := range sets.Items {
		if fence, ok := sets.Items[i].Annotations[fenceAnnotation]; ok && held(fence, time.Now()) {
			return fmt.Sprintf("StatefulSet %s has the fence %s", sets.Items[i].Name, fence), nil
		}
	}
	return "", nil
}

// held says whether a fence still stands: one that a crash left behind ends by itself. What can't be read stands.
func held(fence string, now time.Time) bool {
	var content struct {
		Until time.Time `json:"until"`
	}
	return json.Unmarshal([]byte(fence), &content) != nil || content.Until.IsZero() || now.Before(content.Until)
}

func describeChange(event watch.Event, ok bool) string {
	if !ok {
		return "the watch was closed"
	}
	claim, isObject := event.Object.(metav1.Object)
	if !isObject {
		return fmt.Sprintf("the watch reported %s", event.Type)
	}
	return fmt.Sprintf("claim %s was %s", claim.GetName(), event.Type)
}
