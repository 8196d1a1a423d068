package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/cluster"
	"github.com/pvc-pruner/pvc-pruner/test/install"
)

// delay is the undo window of the story: long enough for an undo, short enough to watch.
const delay = 15 * time.Second

const manifest = `apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: db
  annotations:
    pvc-pruner.io/enabled: "true"
    pvc-pruner.io/delay: 15s
spec:
  replicas: 5
  podManagementPolicy: Parallel
  selector:
    matchLabels: {app: db}
  template:
    metadata:
      labels: {app: db}
    spec:
      containers:
      - {name: db, image: example.com/db}
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      resources: {requests: {storage: 1Gi}}
`

// story is the demo under way.
type story struct {
	shell
	client  kubernetes.Interface
	pruner  *install.Instance
	volumes []volume
}

// tell runs all scenes. The first thing that does not hold ends it.
func tell(ctx context.Context, plane *cluster.Cluster, pruner *install.Instance) error {
	s := &story{shell: shell{plane}, client: plane.Client(), pruner: pruner}
	for _, scene := range []func(context.Context) error{
		s.five, s.scaleDown, s.undo, s.prune, s.zero, s.report,
	} {
		if err := scene(ctx); err != nil {
			return err
		}
	}
	heading("All of it held")
	return nil
}

func (s *story) five(ctx context.Context) error {
	heading("A StatefulSet of 5 with real volumes, opted in with an undo window of %s", delay)
	if err := s.apply(ctx, manifest); err != nil {
		return err
	}
	if _, err := s.kubectl(ctx, "rollout", "status", "statefulset/db"); err != nil {
		return err
	}
	var err error
	if s.volumes, err = fill(ctx, s.client, 5); err != nil {
		return err
	}
	_, err = s.kubectl(ctx, "get", "pvc")
	return err
}

func (s *story) scaleDown(ctx context.Context) error {
	heading("Scale to 3: the warning names the claims and the moment")
	out, err := s.scale(ctx, 3)
	if err != nil {
		return err
	}
	for _, want := range []string{"data-db-3", "data-db-4", "scale back to 5"} {
		if !strings.Contains(out, want) {
			return fmt.Errorf("the warning does not say %q", want)
		}
	}
	return nil
}

func (s *story) undo(ctx context.Context) error {
	heading("Undo, within the window, by scaling back")
	if _, err := s.scale(ctx, 5); err != nil {
		return err
	}
	if err := s.awaitEvent(ctx, "PruneCancelled"); err != nil {
		return err
	}
	fmt.Printf("\n(waiting until the window is long over)\n")
	if err := elapse(ctx, delay+5*time.Second); err != nil {
		return err
	}
	if err := s.untouched(ctx, 5); err != nil {
		return err
	}
	holds("all five claims are there, with the same UIDs and their data")
	return nil
}

func (s *story) prune(ctx context.Context) error {
	heading("Scale to 3 for good")
	began := time.Now()
	if _, err := s.scale(ctx, 3); err != nil {
		return err
	}
	for _, v := range s.volumes[3:] {
		if err := v.awaitGone(ctx, s.client); err != nil {
			return err
		}
	}
	took := time.Since(began)
	if took < delay-time.Second {
		return fmt.Errorf("claims went after %s, before the undo window of %s was over", took, delay)
	}
	if _, err := s.kubectl(ctx, "get", "pvc"); err != nil {
		return err
	}
	holds("claims, PersistentVolumes and folders of ordinals 3 and 4 are gone, %.0f s after the scale-down", took.Seconds())
	if err := s.untouched(ctx, 3); err != nil {
		return err
	}
	holds("the other three are there, with the same UIDs and their data")
	return nil
}

func (s *story) zero(ctx context.Context) error {
	heading("Scale to 0, as people do for maintenance: everything is kept")
	if _, err := s.scale(ctx, 0); err != nil {
		return err
	}
	if err := s.awaitEvent(ctx, "PruneSkipped"); err != nil {
		return err
	}
	fmt.Printf("\n(waiting until the window is long over)\n")
	if err := elapse(ctx, delay+5*time.Second); err != nil {
		return err
	}
	if err := s.untouched(ctx, 3); err != nil {
		return err
	}
	holds("all three claims are there, with the same UIDs and their data")
	return nil
}

func (s *story) report(ctx context.Context) error {
	heading("What pvc-pruner says about it")
	if _, err := s.kubectl(ctx, "events", "--for", "statefulset/db"); err != nil {
		return err
	}
	fmt.Printf("\n$ curl -s %s | grep ^pvc_pruner\n", strings.Join(s.pruner.MetricsURLs(), " "))
	text, err := s.pruner.Metrics(ctx)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "pvc_pruner") && !strings.Contains(line, "_bucket{") {
			fmt.Print(line)
		}
	}
	if !strings.Contains(text, "\npvc_pruner_claims_pruned_total 2\n") {
		return fmt.Errorf("the metrics do not count exactly 2 pruned claims")
	}
	holds("the metrics count 2 pruned claims")
	return nil
}

func (s *story) scale(ctx context.Context, replicas int) (string, error) {
	return s.kubectl(ctx, "scale", "statefulset", "db", fmt.Sprintf("--replicas=%d", replicas))
}

// untouched checks the volumes of the first count ordinals.
func (s *story) untouched(ctx context.Context, count int) error {
	for _, v := range s.volumes[:count] {
		if err := v.untouched(ctx, s.client); err != nil {
			return err
		}
	}
	return nil
}

// awaitEvent waits for an Event of the set and shows it.
func (s *story) awaitEvent(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		events, err := s.client.EventsV1().Events(corev1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == reason && e.Regarding.Name == "db" {
				holds("Event %s: %s", reason, e.Note)
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("wait for an Event %s: %w", reason, err)
	}
	return nil
}

// elapse lets time pass in which nothing may happen.
func elapse(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
