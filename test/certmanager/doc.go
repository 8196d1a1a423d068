// Package certmanager runs cert-manager's real controllers and its cainjector beside a control plane of test/cluster;
// its tests install the chart with certs.mode=cert-manager there.
//
// Invariants:
//
//   - What runs is cert-manager's own code, composed in test/tools/certmanager from the module whose version go.mod
//     there names, with the CustomResourceDefinitions of the same version.
//   - No process outlives its owner: each runs under the watchdog of the cluster.
package certmanager
