package command

import (
	"context"
	"fmt"

	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pvc-pruner/pvc-pruner/pruner/live"
	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// reader reads a cluster, each list once.
type reader struct {
	*environment
	client    kubernetes.Interface
	snapshots snapshotclient.Interface
	// namespaces that were read.
	namespaces map[string]policy.Snapshot
	// reclaim are the reclaim policies of PersistentVolumes by name; nil: they may not be read.
	reclaim map[string]corev1.PersistentVolumeReclaimPolicy
}

func (e *environment) newReader(ctx context.Context) (*reader, error) {
	client, err := e.connect()
	if err != nil {
		return nil, err
	}
	snapshots, err := e.connectSnapshots()
	if err != nil {
		return nil, err
	}
	r := &reader{environment: e, client: client, snapshots: snapshots, namespaces: map[string]policy.Snapshot{}}
	return r, r.readVolumes(ctx)
}

// readVolumes reads the reclaim policies. They are shown and decide nothing, so that whoever
// may not read volumes still sees the rest.
func (r *reader) readVolumes(ctx context.Context) error {
	volumes, err := r.client.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		r.warn("reclaim policies are not shown: %v", err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("list PersistentVolumes: %w", err)
	}
	r.reclaim = map[string]corev1.PersistentVolumeReclaimPolicy{}
	for i := range volumes.Items {
		r.reclaim[volumes.Items[i].Name] = volumes.Items[i].Spec.PersistentVolumeReclaimPolicy
	}
	return nil
}

// namespaceOf returns all that verdicts on claims of a namespace rest on.
func (r *reader) namespaceOf(ctx context.Context, namespace string) (policy.Snapshot, error) {
	if s, ok := r.namespaces[namespace]; ok {
		return s, nil
	}
	s, _, err := live.Snapshot(ctx, r.client, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}})
	if err != nil {
		return s, err
	}
	if s.Workloads, err = live.Workloads(ctx, r.client, namespace); err != nil {
		return s, err
	}
	s.VolumeSnapshots, err = live.VolumeSnapshots(ctx, r.snapshots, namespace)
	if apierrors.IsForbidden(err) {
		r.warn("VolumeSnapshots are not looked at, which pvc-pruner may do: %v", err)
		err = nil
	}
	r.namespaces[namespace] = s
	return s, err
}
