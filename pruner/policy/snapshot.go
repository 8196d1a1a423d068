package policy

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Snapshot is what was read, live, for one decision. Every list is complete: a
// list that failed is an error of the reader and never an empty one.
type Snapshot struct {
	// Set is the StatefulSet itself.
	Set *appsv1.StatefulSet
	// Sets, Pods and Claims are all of the set's namespace.
	Sets   []appsv1.StatefulSet
	Pods   []corev1.Pod
	Claims []corev1.PersistentVolumeClaim
	// Workloads of the namespace; none where they are not looked at.
	Workloads []Workload
	// VolumeSnapshots of the namespace; none where they are not looked at.
	VolumeSnapshots []VolumeSnapshot
}
