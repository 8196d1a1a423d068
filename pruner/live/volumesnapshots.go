package live

import (
	"context"
	"fmt"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	snapshotclient "github.com/kubernetes-csi/external-snapshotter/client/v8/clientset/versioned"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// VolumeSnapshots lists those of a namespace. A cluster that does not know the kind has none.
func VolumeSnapshots(ctx context.Context, client snapshotclient.Interface, namespace string) ([]policy.VolumeSnapshot, error) {
	list, err := client.SnapshotV1().VolumeSnapshots(namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list VolumeSnapshots: %w", err)
	}
	if list.Continue != "" {
		return nil, ErrPartialList
	}
	found := make([]policy.VolumeSnapshot, 0, len(list.Items))
	for i := range list.Items {
		found = append(found, describeSnapshot(&list.Items[i]))
	}
	return found, nil
}

func describeSnapshot(vs *snapshotv1.VolumeSnapshot) policy.VolumeSnapshot {
	d := policy.VolumeSnapshot{Name: vs.Name, ClaimUID: types.UID(vs.Labels[policy.LabelClaimUID])}
	if vs.Spec.Source.PersistentVolumeClaimName != nil {
		d.Claim = *vs.Spec.Source.PersistentVolumeClaimName
	}
	if vs.Status == nil {
		return d
	}
	d.Ready = vs.DeletionTimestamp == nil && vs.Status.ReadyToUse != nil && *vs.Status.ReadyToUse
	if vs.Status.Error != nil {
		d.Failure = "no reason given"
		if vs.Status.Error.Message != nil {
			d.Failure = *vs.Status.Error.Message
		}
	}
	return d
}
