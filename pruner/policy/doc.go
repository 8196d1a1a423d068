// Package policy decides. It holds every rule of pvc-pruner that can cost or
// save a volume, as pure functions over plain Kubernetes objects: no client, no
// context, no logger and no clock of its own.
//
// Invariants:
//
//   - Doubt keeps the volume. A missing, malformed or foreign value never widens
//     what may be deleted; the zero value of every type here deletes nothing.
//   - Bookkeeping is a function of the stored object and the new one, never of
//     what a request claims the bookkeeping to be.
//   - A claim belongs to an ordinal only if its name equals the one that the
//     StatefulSet controller would build.
//   - Every decision carries a Reason, the same one in Events, metrics and logs.
package policy
