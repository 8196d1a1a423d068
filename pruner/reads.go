package pruner

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// readSnapshot lists, live, all that verdicts rest on. Claims come first: one that
// is made after its list is not judged, while a pod or a set that is made before the
// later lists still protects its claim. claimsVersion is the resourceVersion of the
// list of claims.
func (s *step) readSnapshot(ctx context.Context, set *appsv1.StatefulSet) (snapshot policy.Snapshot, claimsVersion string, err error) {
	claims, err := s.client.CoreV1().PersistentVolumeClaims(s.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Snapshot{}, "", fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	sets, err := s.client.AppsV1().StatefulSets(s.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Snapshot{}, "", fmt.Errorf("list StatefulSets: %w", err)
	}
	pods, err := s.client.CoreV1().Pods(s.key.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Snapshot{}, "", fmt.Errorf("list Pods: %w", err)
	}
	// A list in part is no list: with no limit asked for, a server that still pages
	// leaves out what might speak for keeping.
	if claims.Continue != "" || sets.Continue != "" || pods.Continue != "" {
		return policy.Snapshot{}, "", errPartialList
	}
	return policy.Snapshot{Set: set, Sets: sets.Items, Pods: pods.Items, Claims: claims.Items}, claims.ResourceVersion, nil
}
