package pruner

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// StripStatefulSet is the informer's transform. Of each StatefulSet in the cluster
// the cache keeps identity, replicas, ordinals, template names, our annotations and
// what the status says of progress; pod templates, labels and managed fields are most
// of an object's size and nothing here looks at them.
func StripStatefulSet(obj any) (any, error) {
	set, ok := obj.(*appsv1.StatefulSet)
	if !ok {
		return nil, fmt.Errorf("strip cached object: unexpected type %T", obj)
	}
	out := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name, Namespace: set.Namespace, UID: set.UID,
			ResourceVersion: set.ResourceVersion, Generation: set.Generation,
			CreationTimestamp: set.CreationTimestamp, DeletionTimestamp: set.DeletionTimestamp, Annotations: ours(set.Annotations),
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas: set.Spec.Replicas, Ordinals: set.Spec.Ordinals,
			PersistentVolumeClaimRetentionPolicy: set.Spec.PersistentVolumeClaimRetentionPolicy,
		},
		Status: appsv1.StatefulSetStatus{
			ObservedGeneration: set.Status.ObservedGeneration, Replicas: set.Status.Replicas,
		},
	}
	if owner := metav1.GetControllerOf(set); owner != nil {
		out.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	for i := range set.Spec.VolumeClaimTemplates {
		out.Spec.VolumeClaimTemplates = append(out.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: set.Spec.VolumeClaimTemplates[i].Name},
		})
	}
	return out, nil
}

func ours(annotations map[string]string) map[string]string {
	var kept map[string]string
	for k, v := range annotations {
		if strings.HasPrefix(k, policy.Prefix) {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[k] = v
		}
	}
	return kept
}
