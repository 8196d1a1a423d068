package policy

import "strings"

// Prefix is what all annotation keys of pvc-pruner begin with. Keys that begin
// with it and are none of those below are rejected by the webhook: a misspelt
// key that silently does nothing is a fault.
const Prefix = "pvc-pruner.io/"

// Annotations that the owner of a StatefulSet sets.
const (
	// KeyEnabled opts the StatefulSet in.
	KeyEnabled = Prefix + "enabled"
	// KeyDelay is the undo window, counted from the last change of replicas.
	KeyDelay = Prefix + "delay"
	// KeyScope says which unused ordinals may go.
	KeyScope = Prefix + "scope"
	// KeyScaleToZero says whether a scale to zero prunes.
	KeyScaleToZero = Prefix + "scale-to-zero"
	// KeyStaleVolumes says whether a scale-up may pick up old volumes.
	KeyStaleVolumes = Prefix + "stale-volumes"
	// KeyTemplates limits pruning to some volumeClaimTemplates.
	KeyTemplates = Prefix + "templates"
	// KeyDryRun plans and reports, and deletes nothing.
	KeyDryRun = Prefix + "dry-run"
	// KeyPaused holds everything.
	KeyPaused = Prefix + "paused"
	// KeySnapshotClass asks for a VolumeSnapshot before each deletion.
	KeySnapshotClass = Prefix + "snapshot-class"
)

// KeyKeep is set on a PersistentVolumeClaim: any value but "false" keeps it for good.
const KeyKeep = Prefix + "keep"

// Annotations that only pvc-pruner writes, on the StatefulSet.
const (
	// KeyPriorReplicas is the replica count whose claims are accounted for.
	KeyPriorReplicas = Prefix + "prior-replicas"
	// KeyTargetReplicas is the count that the running undo window is for.
	KeyTargetReplicas = Prefix + "target-replicas"
	// KeyScaledDownAt is when that window began, RFC 3339.
	KeyScaledDownAt = Prefix + "scaled-down-at"
	// KeyRecord says what the bookkeeping is bound to.
	KeyRecord = Prefix + "record"
	// KeyFence is present while claims are being deleted.
	KeyFence = Prefix + "fence"
	// KeyLastPrune summarises the last completed prune.
	KeyLastPrune = Prefix + "last-prune"
)

// ControlKeys returns the keys that the owner of a StatefulSet may set, in the
// order in which messages list them.
func ControlKeys() []string {
	return []string{
		KeyEnabled, KeyDelay, KeyScope, KeyScaleToZero, KeyStaleVolumes,
		KeyTemplates, KeyDryRun, KeyPaused, KeySnapshotClass,
	}
}

// BookkeepingKeys returns the keys that only pvc-pruner writes.
func BookkeepingKeys() []string {
	return []string{
		KeyPriorReplicas, KeyTargetReplicas, KeyScaledDownAt, KeyRecord, KeyFence, KeyLastPrune,
	}
}

// Short is the key without Prefix, as people write it.
func Short(key string) string { return strings.TrimPrefix(key, Prefix) }
