package certmanager_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/test/sets"
)

// pruned scales a set down from three to one. No claim goes before the API server was proved to reach the webhook.
func pruned(t *testing.T, r *release) {
	const set = "pruned"
	namespace, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "pruned-"}}, metav1.CreateOptions{})
	must(t, err)
	all, claims := r.client.AppsV1().StatefulSets(namespace.Name), r.client.CoreV1().PersistentVolumeClaims(namespace.Name)
	_, err = all.Create(t.Context(), sets.New(set, 3), metav1.CreateOptions{})
	must(t, err)
	r.awaitProgram(t, "the set is ready", func(ctx context.Context) error {
		s, err := all.Get(ctx, set, metav1.GetOptions{})
		if err == nil && s.Status.ReadyReplicas != 3 {
			err = fmt.Errorf("%d of 3 replicas are ready", s.Status.ReadyReplicas)
		}
		return err
	})
	kept, err := claims.Get(t.Context(), "data-pruned-0", metav1.GetOptions{})
	must(t, err)
	_, err = all.UpdateScale(t.Context(), set, &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: set, Namespace: namespace.Name}, Spec: autoscalingv1.ScaleSpec{Replicas: 1},
	}, metav1.UpdateOptions{})
	must(t, err)
	for _, claim := range []string{"data-pruned-1", "data-pruned-2"} {
		r.awaitProgram(t, claim+" is gone", func(ctx context.Context) error {
			_, err := claims.Get(ctx, claim, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is there"), err)
		})
	}
	if still, err := claims.Get(t.Context(), kept.Name, metav1.GetOptions{}); err != nil || still.UID != kept.UID || still.DeletionTimestamp != nil {
		t.Errorf("the claim in use is gone: %v", err)
	}
}
