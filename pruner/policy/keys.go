package policy

import "strings"

// Prefix is what all annotation keys of pvc-pruner begin with. Keys that begin
// with it and are none of those below are rejected by the webhook: a misspelt
// key that silently does nothing is a fault.
const Prefix = "pvc-pruner.io/"

// Annotations that the owner of a StatefulSet sets. docs/reference.md is made of these
// comments.
const (
	// KeyEnabled opts the StatefulSet in. That alone deletes nothing: only what is scaled
	// down afterwards may go.
	//
	// Values: `false` `true`
	KeyEnabled = Prefix + "enabled"
	// KeyDelay is the undo window, counted from the last change of replicas. Units are `w`
	// `d` `h` `m` `s` `ms`.
	//
	// Values: `10m`; `0s` to `3650d`
	KeyDelay = Prefix + "delay"
	// KeyScope says which unused claims may go: those of ordinals that were scaled down, or
	// all above the range, also those from before opting in. There is an undo window for
	// these too.
	//
	// Values: `scaled-down` `all`
	KeyScope = Prefix + "scope"
	// KeyScaleToZero says whether anything goes while replicas is 0. What was kept at zero
	// stays kept afterwards.
	//
	// Values: `keep` `prune`
	KeyScaleToZero = Prefix + "scale-to-zero"
	// KeyStaleVolumes says whether a scale-up may pick up old volumes. `forbid` refuses it
	// until they are pruned, which happens without an undo window. What is kept for good
	// blocks nothing.
	//
	// Values: `reuse` `forbid`
	KeyStaleVolumes = Prefix + "stale-volumes"
	// KeyTemplates limits pruning to the claims of these volumeClaimTemplates.
	//
	// Values: all; names such as `data,wal`
	KeyTemplates = Prefix + "templates"
	// KeyDryRun reports what would go, in a `PruneDryRun` Event, and deletes nothing.
	//
	// Values: `false` `true`
	KeyDryRun = Prefix + "dry-run"
	// KeyPaused holds everything.
	//
	// Values: `false` `true`
	KeyPaused = Prefix + "paused"
	// KeySnapshotClass asks for a VolumeSnapshot of this class before a claim is deleted;
	// the claim stays until that is ready. pvc-pruner must run with `--snapshots`.
	//
	// Values: none; the name of a VolumeSnapshotClass
	KeySnapshotClass = Prefix + "snapshot-class"
)

// KeyKeep is set on a PersistentVolumeClaim: any value but "false" keeps it for good.
const KeyKeep = Prefix + "keep"

// Annotations that only pvc-pruner writes, on the StatefulSet.
const (
	// KeyPriorReplicas is the count whose claims are accounted for: the highest since the
	// last completed prune.
	KeyPriorReplicas = Prefix + "prior-replicas"
	// KeyTargetReplicas is the count that the running undo window is for.
	KeyTargetReplicas = Prefix + "target-replicas"
	// KeyScaledDownAt is when that window began, in RFC 3339.
	KeyScaledDownAt = Prefix + "scaled-down-at"
	// KeyRecord says what the bookkeeping is bound to, in JSON: the UID of the object, its
	// first ordinal, the generation up to which changes are accounted for; while a prune is
	// pending also when the first of several scale-downs happened, and the cluster-wide
	// defaults that hold for it, if they are not the built-in ones.
	KeyRecord = Prefix + "record"
	// KeyFence is the mark that stands while claims are being deleted, in JSON: the first ordinal behind
	// it, who deletes, and when it ends by itself.
	KeyFence = Prefix + "fence"
	// KeyLastPrune sums up the last completed prune, in JSON: ordinals, claims, bytes, time.
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
