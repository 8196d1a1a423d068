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
	ReasonDeleting          Reason = "SetDeleting"       // the set is being deleted
	ReasonReplaced          Reason = "SetReplaced"       // another object has its name
	ReasonNotOptedIn        Reason = "NotOptedIn"        //
	ReasonInvalidAnnotation Reason = "InvalidAnnotation" // a control cannot be read
	ReasonNothingPending    Reason = "NothingPending"    // no window is running
	ReasonPaused            Reason = "Paused"            //
	ReasonScaledToZero      Reason = "ScaledToZero"      // replicas is 0 and scale-to-zero is keep
	ReasonRecordBehind      Reason = "RecordBehind"      // the bookkeeping is about another version of the object
	ReasonStatusBehind      Reason = "StatusBehind"      // the StatefulSet controller may act on an older count
	ReasonUndoWindow        Reason = "UndoWindow"        // the delay is not over
	ReasonFenced            Reason = "Fenced"            // a fence stands that is not this step's
	ReasonSnapshotsOff      Reason = "SnapshotsOff"      // a snapshot is asked for, and none may be taken
)

// Reasons that hold for one claim.
const (
	ReasonUnused           Reason = "Unused"             // the reason of every Delete
	ReasonPodExists        Reason = "PodExists"          // the pod of its ordinal exists
	ReasonInUse            Reason = "ClaimInUse"         // a pod names the claim
	ReasonNameShared       Reason = "NameShared"         // another StatefulSet could build the name
	ReasonCreatedSince     Reason = "CreatedSince"       // made after the scale-down
	ReasonCloning          Reason = "CloneInProgress"    // it is the source of an unfinished clone
	ReasonOwnedByOther     Reason = "OwnedByOther"       // another controller owns it
	ReasonKeepAnnotation   Reason = "KeepAnnotation"     //
	ReasonTemplateExcluded Reason = "TemplateExcluded"   // its template is not in the templates annotation
	ReasonWorkload         Reason = "WorkloadNeedsClaim" // the pod template of a workload names it
	ReasonSnapshotting     Reason = "SnapshotInProgress" // somebody takes a snapshot of it
	ReasonSnapshotMissing  Reason = "SnapshotMissing"    // a snapshot is asked for and not taken yet
	ReasonSnapshotTaken    Reason = "SnapshotRequired"   // the snapshot that is asked for is not ready
	ReasonTerminating      Reason = "Terminating"        // deleted already, held by finalizers
	ReasonBuiltIn          Reason = "BuiltInRetention"   // Kubernetes deletes it by the set's own policy
)
