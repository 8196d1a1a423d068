// Package command is the command line of the kubectl plugin: one file for each command,
// built as kubectl's own are, from options that are completed, validated and run.
//
// Invariants:
//
//   - What is shown of a claim is decided by pruner/policy over lists of pruner/live, as the
//     pruner decides; nothing is judged here anew.
//   - A patch carries the annotations concerned and the UID of the object that was read.
//   - What could not be read is an error or a warning, never an empty list.
//   - Colours, moving lines and questions only on a terminal.
package command
