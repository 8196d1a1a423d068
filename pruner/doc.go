// Package pruner deletes the claims that a StatefulSet no longer uses.
//
// A leader-elected reconciler watches StatefulSets, and only them. For each it keeps
// the bookkeeping, waits for the undo window, and then runs one prune step: live
// reads, verdicts by pruner/policy, deletes with preconditions under a watch of the
// set, a wait until the claims are gone. Annotations on the set are the only state
// that survives a restart; what is held in memory can be lost at any moment and then
// costs a longer wait or an unused claim that stays, never a volume.
//
// Invariants:
//
//   - The cached StatefulSet decides only what to look at and when. Everything that
//     lets a claim go is read live, after the decision to look.
//   - A list that fails ends the step; it is never an empty list.
//   - Claims are deleted in one place (deletion.go), with UID and resourceVersion
//     preconditions, and only while the watch of the set says that nothing moved.
package pruner
