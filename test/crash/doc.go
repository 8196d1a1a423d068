// Command crash ends the pruner at each request of a prune, and answers each request of
// a prune with each kind of fault. It exits non-zero if the observer (test/observer)
// sees anything wrong, or a prune does not complete by itself.
//
// Between pruner and API server stands a proxy (proxy.go). Every run has a namespace of
// its own, by which the proxy tells its requests from those of others.
package main
