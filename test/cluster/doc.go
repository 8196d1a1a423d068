// Package cluster starts a real Kubernetes control plane for tests and the demo: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler as separate processes, and kwok in the place of the kubelets.
//
// Invariants:
//
//   - Clusters share nothing but the programs: each has its own ports, certificates, data and logs, so any number
//     run side by side, also within one process.
//   - No process outlives its owner. Every program is started through a launcher that records its PID before the
//     program begins, and a watchdog in a session of its own kills what is recorded as soon as the owner is gone,
//     however it went: Stop, a panic, a test timeout or SIGKILL.
//   - A PID is only ever signalled together with the time its process started, so that a reused PID can't hit a
//     stranger.
//   - Start returns a usable cluster or an error that names the program at fault and shows the end of its log.
//   - Only what this cluster made is removed: its folder, and the host folders of volumes that its provisioner made.
package cluster
