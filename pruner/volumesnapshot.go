package pruner

import (
	"context"

	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pvc-pruner/pvc-pruner/pruner/policy"
)

// takeSnapshots takes a VolumeSnapshot of each claim that lacks but that, and returns the
// verdicts on them: they wait until it is ready. Nothing else is done to a claim meanwhile.
func (s *step) takeSnapshots(ctx context.Context, plan policy.Plan, verdicts []policy.Verdict) []policy.Verdict {
	for i := range verdicts {
		v := &verdicts[i]
		if s.snapshots == nil || !lacksSnapshot(*v) {
			continue
		}
		name := plan.SnapshotName(v.Claim)
		_, err := s.snapshots.SnapshotV1().VolumeSnapshots(s.key.Namespace).Create(ctx, newSnapshot(plan, *v), metav1.CreateOptions{FieldManager: FieldManager})
		switch {
		case err == nil, apierrors.IsAlreadyExists(err):
			s.log.Info("Taking VolumeSnapshot", "volumeSnapshot", name, "claim", v.Claim.Name, "claimUID", v.Claim.UID, "class", plan.Controls.SnapshotClass)
			v.Reason, v.Message = policy.ReasonSnapshotTaken, "VolumeSnapshot "+name+" is not ready yet"
		case apierrors.IsNotFound(err):
			v.Message = "a VolumeSnapshot of it is to be taken first, and this cluster does not know VolumeSnapshots"
		default:
			s.log.Error(err, "VolumeSnapshot not taken", "volumeSnapshot", name, "claim", v.Claim.Name)
			v.Message = "a VolumeSnapshot of it is to be taken first, which failed: " + err.Error()
		}
	}
	return verdicts
}

func newSnapshot(plan policy.Plan, v policy.Verdict) *snapshotv1.VolumeSnapshot {
	labels := map[string]string{"app.kubernetes.io/managed-by": "pvc-pruner", policy.LabelClaimUID: string(v.Claim.UID)}
	annotations := map[string]string{policy.AnnotationClaim: v.Claim.Name, policy.AnnotationStatefulSet: plan.Set.Name}
	for key, value := range annotations { // what fits is a label too, to select by
		if len(validation.IsValidLabelValue(value)) == 0 {
			labels[key] = value
		}
	}
	class, claim := plan.Controls.SnapshotClass, v.Claim.Name
	return &snapshotv1.VolumeSnapshot{
		ObjectMeta: metav1.ObjectMeta{Name: plan.SnapshotName(v.Claim), Namespace: v.Claim.Namespace, Labels: labels, Annotations: annotations},
		Spec: snapshotv1.VolumeSnapshotSpec{
			VolumeSnapshotClassName: &class, Source: snapshotv1.VolumeSnapshotSource{PersistentVolumeClaimName: &claim},
		},
	}
}

// lacksSnapshot says whether nothing but a VolumeSnapshot stands between a claim and its
// deletion, and that has not been asked for yet.
func lacksSnapshot(v policy.Verdict) bool { return v.Reason == policy.ReasonSnapshotMissing }
