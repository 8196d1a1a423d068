// Package e2e runs scripts that read like what a user types, against pvc-pruner on a real control plane.
//
// Invariants:
//
//   - A script sees a namespace of its own and nothing of the other scripts, except through cluster-scoped objects,
//     whose names it derives from $NS.
//   - A check that can't be made (an unreadable object, a failed list) fails; it never counts as passed.
//   - Waiting ends by a deadline, and a failure shows the state that it failed on.
//   - Only scripts that run one by one may stop parts of pvc-pruner, and afterwards every part runs again.
//
// The commands are listed in README.md beside this file.
package e2e
