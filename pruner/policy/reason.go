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
	ReasonDeleting          Reason = "SetDeleting"       // it is being deleted; Keep
	ReasonReplaced          Reason = "SetReplaced"       // another object has its name; Keep
	ReasonNotOptedIn        Reason = "NotOptedIn"        // it is not opted in; Keep
	ReasonInvalidAnnotation Reason = "InvalidAnnotation" // an annotation cannot be understood; Keep
	ReasonNothingPending    Reason = "NothingPending"    // no undo window is running; Keep
	ReasonPaused            Reason = "Paused"            // it is paused; Keep
	ReasonScaledToZero      Reason = "ScaledToZero"      // replicas is 0 and scale-to-zero is keep; Keep
	ReasonSnapshotsOff      Reason = "SnapshotsOff"      // a VolumeSnapshot is asked for, and none may be taken; Keep
	ReasonFenced            Reason = "Fenced"            // a fence stands that is not this step's; Wait
	ReasonRecordBehind      Reason = "RecordBehind"      // the bookkeeping is about another version of the object; Wait
	ReasonStatusBehind      Reason = "StatusBehind"      // the StatefulSet controller may act on an older count; Wait
	ReasonUndoWindow        Reason = "UndoWindow"        // the undo window is not over; Wait
)

// Reasons that hold for one claim.
const (
	ReasonUnused           Reason = "Unused"             // nothing speaks for keeping it; Delete
	ReasonKeepAnnotation   Reason = "KeepAnnotation"     // is annotated to be kept; Keep
	ReasonTemplateExcluded Reason = "TemplateExcluded"   // is of a template that the templates annotation leaves out; Keep
	ReasonOwnedByOther     Reason = "OwnedByOther"       // has another controller as its owner; Keep
	ReasonNameShared       Reason = "NameShared"         // has a name that another StatefulSet could build; Keep
	ReasonCreatedSince     Reason = "CreatedSince"       // was made after the scale-down; Keep
	ReasonTerminating      Reason = "Terminating"        // is deleted already, and held by finalizers; Wait
	ReasonPodExists        Reason = "PodExists"          // has a pod of its ordinal; Wait
	ReasonInUse            Reason = "ClaimInUse"         // is named by a pod; Wait
	ReasonCloning          Reason = "CloneInProgress"    // is the source of an unfinished clone; Wait
	ReasonSnapshotting     Reason = "SnapshotInProgress" // is the source of a VolumeSnapshot that is not ready; Wait
	ReasonWorkload         Reason = "WorkloadNeedsClaim" // is named by the pod template of a workload; Wait
	ReasonBuiltIn          Reason = "BuiltInRetention"   // is deleted by Kubernetes, as the set's own policy asks; Wait
	ReasonSnapshotMissing  Reason = "SnapshotMissing"    // lacks the VolumeSnapshot that is asked for; Wait
	ReasonSnapshotTaken    Reason = "SnapshotRequired"   // has one that is not ready; Wait
)

// Reasons that only the plugin shows, of claims that no prune looks at.
const (
	ReasonInRange       Reason = "InRange"       // belongs to a replica that is wanted; Keep
	ReasonBelowStart    Reason = "BelowStart"    // is of an ordinal below spec.ordinals.start; Keep
	ReasonNotScaledDown Reason = "NotScaledDown" // was unused already when pvc-pruner began to watch, or kept by an earlier prune; Keep
	ReasonSetGone       Reason = "SetGone"       // was made for a StatefulSet that is not there; Keep
	ReasonDryRun        Reason = "DryRun"        // would go if the dry run were over; Keep
)
