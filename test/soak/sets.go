package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/test/sets"
)

const namespace = "soak"

// maxReplicas of a set.
const maxReplicas = 5

func setName(i int) string { return fmt.Sprintf("s%02d", i) }

// makeSets makes the namespace and the sets, opted in.
func makeSets(ctx context.Context, client kubernetes.Interface, n int) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	for i := range n {
		if _, err := client.AppsV1().StatefulSets(namespace).Create(ctx, sets.New(setName(i), 2), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create set: %w", err)
		}
	}
	return nil
}
