package pruner

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// store writes the bookkeeping into the StatefulSet's annotations, all of our keys
// and no other, provided that the object is still the version that b was derived
// from: otherwise the API server answers with a conflict and nothing is written.
func store(ctx context.Context, client kubernetes.Interface, set *appsv1.StatefulSet, b policy.Bookkeeping) (*appsv1.StatefulSet, error) {
	keep, err := b.Annotations()
	if err != nil {
		return nil, err
	}
	annotations := map[string]*string{}
	for _, key := range policy.BookkeepingKeys() {
		if value, ok := keep[key]; ok {
			annotations[key] = &value
		} else if _, stored := set.Annotations[key]; stored {
			annotations[key] = nil // a null in a merge patch removes the key
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": set.UID, "resourceVersion": set.ResourceVersion, "annotations": annotations,
	}})
	if err != nil {
		return nil, fmt.Errorf("encode bookkeeping: %w", err)
	}
	stored, err := client.AppsV1().StatefulSets(set.Namespace).Patch(ctx, set.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: FieldManager})
	if err != nil {
		return nil, fmt.Errorf("store bookkeeping: %w", err)
	}
	return stored, nil
}
