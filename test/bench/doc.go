// Bench measures pvc-pruner beside Kubernetes' own whenScaled: Delete, on one control plane and in one run.
//
// Rounds of both sides alternate, so that whatever else the machine does meets both. Every figure is a median over the
// rounds, and a ratio is one of medians of the same run: times of different runs are not comparable. Requests are
// counted by the API server (its audit log), not by those who send them.
package main
