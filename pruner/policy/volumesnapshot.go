package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Labels and annotations of the VolumeSnapshots that pvc-pruner takes, for people to find
// them by. Labels hold at most 63 characters, annotations hold any name.
const (
	LabelClaimUID         = Prefix + "claim-uid"   // label: the UID of the claim that it is of
	AnnotationClaim       = Prefix + "claim"       // annotation, and label where it fits: the name of the claim
	AnnotationStatefulSet = Prefix + "statefulset" // annotation, and label where it fits: the name of the StatefulSet
)

// VolumeSnapshot is what matters of a VolumeSnapshot of the namespace.
type VolumeSnapshot struct {
	Name string
	// Claim is the name of the claim that it is taken of.
	Claim string
	// ClaimUID is that of the claim, if pvc-pruner takes it.
	ClaimUID types.UID
	Ready    bool
	// Failure is what its controller says went wrong last; "" if nothing did.
	Failure string
}

// maxName is the longest name of an object.
const maxName = 253

// SnapshotName is the name of the VolumeSnapshot that a pending prune takes of a claim.
// One that was taken for another claim of this name, in another class or for an earlier
// scale-down, since when the claim may have been written to, has another.
func (p Plan) SnapshotName(claim *corev1.PersistentVolumeClaim) string {
	since := ""
	if p.Bookkeeping.Window != nil {
		since = formatTime(p.Bookkeeping.Window.Since)
	}
	sum := sha256.Sum256([]byte(string(claim.UID) + "/" + p.Controls.SnapshotClass + "/" + since))
	suffix := "-" + hex.EncodeToString(sum[:5])
	return claim.Name[:min(len(claim.Name), maxName-len(suffix))] + suffix
}

// gateSnapshotsOff holds a set that asks for snapshots where none can be taken.
func gateSnapshotsOff(p Plan, _ time.Time) *Hold {
	if p.Controls.SnapshotClass == "" || p.Controls.Snapshots {
		return nil
	}
	return &Hold{
		Decision: Keep, Reason: ReasonSnapshotsOff,
		Message: "a VolumeSnapshot is asked for by " + KeySnapshotClass + ", and pvc-pruner may not take any: it runs without --snapshots",
	}
}

// gateSnapshotUnderWay waits for VolumeSnapshots of the claim that anybody takes, but not
// for one of pvc-pruner's own that failed and is not asked for any more.
func gateSnapshotUnderWay(p Plan, s Snapshot, v Verdict) *finding {
	own := p.SnapshotName(v.Claim)
	for i := range s.VolumeSnapshots {
		vs := &s.VolumeSnapshots[i]
		abandoned := vs.ClaimUID == v.Claim.UID && vs.Failure != ""
		if vs.Claim == v.Claim.Name && !vs.Ready && vs.Name != own && !abandoned {
			return &finding{Wait, ReasonSnapshotting, "volumesnapshot/" + vs.Name, "VolumeSnapshot " + vs.Name + " of it is not ready"}
		}
	}
	return nil
}

// gateSnapshotTaken waits for the VolumeSnapshot that the set's owner asked for.
func gateSnapshotTaken(p Plan, s Snapshot, v Verdict) *finding {
	if p.Controls.SnapshotClass == "" {
		return nil
	}
	name := p.SnapshotName(v.Claim)
	subject := "volumesnapshot/" + name
	for i := range s.VolumeSnapshots {
		vs := &s.VolumeSnapshots[i]
		switch {
		case vs.Name != name:
		case vs.Claim != v.Claim.Name || vs.ClaimUID != v.Claim.UID:
			return &finding{Wait, ReasonSnapshotTaken, subject, "VolumeSnapshot " + name + " is there, and not of this claim"}
		case vs.Ready:
			return nil
		case vs.Failure != "":
			return &finding{Wait, ReasonSnapshotTaken, subject + "!", fmt.Sprintf("VolumeSnapshot %s failed: %s", name, vs.Failure)}
		default:
			return &finding{Wait, ReasonSnapshotTaken, subject, "VolumeSnapshot " + name + " is not ready yet"}
		}
	}
	return &finding{Wait, ReasonSnapshotMissing, subject, "a VolumeSnapshot of it is to be taken first"}
}
