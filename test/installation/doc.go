// Package installation tests pvc-pruner as its users run it: the image that the Dockerfile builds, installed by helm with
// the chart's own rights, Service and certificates on a real node, in a namespace that enforces restricted pods, with
// StatefulSets whose pods really run, drain and terminate on real volumes.
//
// Where a node cannot be started (see node.Missing) the tests are skipped; with INSTALLATION=required they fail.
package installation
