// Package install builds pvc-pruner, installs the chart into a control plane of test/cluster and runs the program
// beside it, with the rights of the chart's service account and nothing more.
//
// Invariants:
//
//   - What is installed is what users install: the chart as helm renders it, and the program as go builds it. Only its
//     Deployment is left out, because the program runs as a process of this machine.
//   - Start returns when admission calls really reach the program, not merely when it says that it is ready.
//   - The API server reaches the program through a proxy on loopback, so that an outage of the webhook is a refused
//     connection, as users meet it, while the program itself goes on.
//   - No process outlives its owner: each runs under the watchdog of the cluster.
package install
