package policy

// Decision is what a verdict says about one claim.
type Decision string

// The decisions. The zero value is none of them and deletes nothing.
const (
	Delete Decision = "Delete" // nothing speaks for keeping it
	Wait   Decision = "Wait"   // not now; what stands in the way may go away by itself
	Keep   Decision = "Keep"   // not in this prune
)

// Reason is why. The same constants stand in Events, metrics and logs.
type Reason string

// Reasons that hold for a whole StatefulSet.
const (
	// it is being deleted; Keep.
	// Next: nothing; claims of a deleted StatefulSet are never deleted.
	ReasonDeleting Reason = "SetDeleting"
	// another object has its name; Keep.
	// Next: nothing; the new one begins anew.
	ReasonReplaced Reason = "SetReplaced"
	// it is not opted in; Keep.
	// Next: annotate it pvc-pruner.io/enabled=true, if it shall be.
	ReasonNotOptedIn Reason = "NotOptedIn"
	// an annotation cannot be understood; Keep.
	// Next: correct it; the Event InvalidAnnotation says what is accepted.
	ReasonInvalidAnnotation Reason = "InvalidAnnotation"
	// no undo window is running; Keep.
	// Next: nothing; it begins with the next scale-down.
	ReasonNothingPending Reason = "NothingPending"
	// it is paused; Keep.
	// Next: remove pvc-pruner.io/paused, if it may go on.
	ReasonPaused Reason = "Paused"
	// replicas is 0 and scale-to-zero is keep; Keep.
	// Next: nothing; or set pvc-pruner.io/scale-to-zero to prune.
	ReasonScaledToZero Reason = "ScaledToZero"
	// a VolumeSnapshot is asked for, and none may be taken; Keep.
	// Next: allow VolumeSnapshots in the installation, or remove pvc-pruner.io/snapshot-class.
	ReasonSnapshotsOff Reason = "SnapshotsOff"
	// a fence stands that is not this step's; Wait.
	// Next: nothing; the fence ends within a minute.
	ReasonFenced Reason = "Fenced"
	// the bookkeeping is about another version of the object; Wait.
	// Next: nothing; it is written anew. If it stays, the webhook is not asked: see the Event FenceNotEnforced.
	ReasonRecordBehind Reason = "RecordBehind"
	// the StatefulSet controller may act on an older count; Wait.
	// Next: nothing; if it stays, look at the kube-controller-manager.
	ReasonStatusBehind Reason = "StatusBehind"
	// the undo window is not over; Wait.
	// Next: nothing; or scale back up to keep.
	ReasonUndoWindow Reason = "UndoWindow"
)

// Reasons that hold for one claim.
const (
	// nothing speaks for keeping it; Delete.
	// Next: nothing.
	ReasonUnused Reason = "Unused"
	// is annotated to be kept; Keep.
	// Next: remove pvc-pruner.io/keep from the claim, if it may go.
	ReasonKeepAnnotation Reason = "KeepAnnotation"
	// is of a template that the templates annotation leaves out; Keep.
	// Next: name the template in pvc-pruner.io/templates, if its claims may go.
	ReasonTemplateExcluded Reason = "TemplateExcluded"
	// has another controller as its owner; Keep.
	// Next: nothing; that controller has to say.
	ReasonOwnedByOther Reason = "OwnedByOther"
	// has a name that another StatefulSet could build; Keep.
	// Next: delete it by hand, when you know whose it is.
	ReasonNameShared Reason = "NameShared"
	// was made after the scale-down; Keep.
	// Next: delete it by hand, if it is not needed.
	ReasonCreatedSince Reason = "CreatedSince"
	// is deleted already, and held by finalizers; Wait.
	// Next: find whose finalizer holds it.
	ReasonTerminating Reason = "Terminating"
	// has a pod of its ordinal; Wait.
	// Next: see why the pod does not end: kubectl describe pod.
	ReasonPodExists Reason = "PodExists"
	// is named by a pod; Wait.
	// Next: see why the pod does not end: kubectl describe pod.
	ReasonInUse Reason = "ClaimInUse"
	// is the source of an unfinished clone; Wait.
	// Next: nothing; see that the clone finishes.
	ReasonCloning Reason = "CloneInProgress"
	// is the source of a VolumeSnapshot that is not ready; Wait.
	// Next: nothing; see that the VolumeSnapshot becomes ready, or delete it.
	ReasonSnapshotting Reason = "SnapshotInProgress"
	// is named by the pod template of a workload; Wait.
	// Next: take the claim out of the pod template, or delete the workload, if it is not needed.
	ReasonWorkload Reason = "WorkloadNeedsClaim"
	// is deleted by Kubernetes, as the set's own policy asks; Wait.
	// Next: nothing; or set whenScaled to Retain, to have the undo window.
	ReasonBuiltIn Reason = "BuiltInRetention"
	// lacks the VolumeSnapshot that is asked for; Wait.
	// Next: nothing; see the Event PruneWaiting for why it could not be taken.
	ReasonSnapshotMissing Reason = "SnapshotMissing"
	// has one that is not ready; Wait.
	// Next: nothing; see that it becomes ready: kubectl describe volumesnapshot.
	ReasonSnapshotTaken Reason = "SnapshotRequired"
)

// Reasons that only the plugin shows, of claims that no prune looks at.
const (
	// belongs to a replica that is wanted; Keep.
	// Next: nothing.
	ReasonInRange Reason = "InRange"
	// is of an ordinal below spec.ordinals.start; Keep.
	// Next: delete it by hand, if it is not needed.
	ReasonBelowStart Reason = "BelowStart"
	// was unused already when pvc-pruner began to watch, or kept by an earlier prune; Keep.
	// Next: delete it by hand, or set pvc-pruner.io/scope=all.
	ReasonNotScaledDown Reason = "NotScaledDown"
	// was made for a StatefulSet that is not there; Keep.
	// Next: delete it by hand, if its data is not needed.
	ReasonSetGone Reason = "SetGone"
	// would go if the dry run were over; Keep.
	// Next: remove pvc-pruner.io/dry-run to let it go.
	ReasonDryRun Reason = "DryRun"
)
