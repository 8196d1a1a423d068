// Package live reads, from the API server itself and in full, what verdicts rest on. A
// cache would be faster and could miss the pod that makes the difference.
package live

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// ErrPartialList says that a list came in part: with no limit asked for, a server that
// still pages leaves out what might speak for keeping.
var ErrPartialList = errors.New("the API server returned a list in part")

// Snapshot lists the claims, StatefulSets and pods of the set's namespace. Claims come
// first: one that is made after its list is not judged, while a pod or a set that is made
// before the later lists still protects its claim. claimsVersion is the resourceVersion of
// the list of claims. An error means that nothing can be judged.
func Snapshot(ctx context.Context, client kubernetes.Interface, set *appsv1.StatefulSet) (snapshot policy.Snapshot, claimsVersion string, err error) {
	claims, err := client.CoreV1().PersistentVolumeClaims(set.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Snapshot{}, "", fmt.Errorf("list PersistentVolumeClaims: %w", err)
	}
	sets, err := client.AppsV1().StatefulSets(set.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Snapshot{}, "", fmt.Errorf("list StatefulSets: %w", err)
	}
	pods, err := client.CoreV1().Pods(set.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return policy.Snapshot{}, "", fmt.Errorf("list Pods: %w", err)
	}
	if claims.Continue != "" || sets.Continue != "" || pods.Continue != "" {
		return policy.Snapshot{}, "", ErrPartialList
	}
	return policy.Snapshot{Set: set, Sets: sets.Items, Pods: pods.Items, Claims: claims.Items}, claims.ResourceVersion, nil
}
