package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Annotations that the probe sets and looks for.
const (
	enabled       = "pvc-pruner.io/enabled"
	priorReplicas = "pvc-pruner.io/prior-replicas"
)

// WebhookDown refuses every admission call from now on, and cuts those in flight.
func (i *Instance) WebhookDown() error { return i.proxy.down() }

// WebhookUp lets admission calls through again, and returns when they are answered.
func (i *Instance) WebhookUp(ctx context.Context) error {
	if err := i.proxy.up(ctx); err != nil {
		return err
	}
	return i.awaitAdmission(ctx)
}

// awaitAdmission waits until the API server calls both webhooks of StatefulSets and gets sound answers. It learns of
// their configuration a moment after it is stored.
func (i *Instance) awaitAdmission(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeDeadline)
	defer cancel()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := i.probe(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for admission: %w (%w)", err, context.Cause(ctx))
		case <-ticker.C:
		}
	}
}

// probe asks for StatefulSets that are not stored: one that the mutating webhook must complete, and one that the
// validating webhook must refuse.
func (i *Instance) probe(ctx context.Context) error {
	created, err := i.tryCreate(ctx, "true")
	if err != nil {
		return fmt.Errorf("try an opted-in StatefulSet: %w", err)
	}
	if created.Annotations[priorReplicas] == "" {
		return errors.New("an opted-in StatefulSet gets no record: the mutating webhook is not called")
	}
	if _, err := i.tryCreate(ctx, "maybe"); err == nil || !strings.Contains(err.Error(), enabled) {
		return fmt.Errorf("an invalid annotation is not refused for what it is: %w", err)
	}
	return nil
}

func (i *Instance) tryCreate(ctx context.Context, value string) (*appsv1.StatefulSet, error) {
	labels := map[string]string{"app": "admission-probe"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "admission-probe-", Annotations: map[string]string{enabled: value}},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "example.com/app"}}},
			},
		},
	}
	return i.options.Cluster.Client().AppsV1().StatefulSets(metav1.NamespaceDefault).
		Create(ctx, set, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}
