// Package node runs a real one-node Kubernetes with kubelet, containerd and kube-proxy, for what needs real containers:
// images, probes, Services, Secrets in volumes, terminating pods.
//
// All of it lives in namespaces of its own (mount, pid, network, uts), which end with the process that made them. It
// needs root and programs of Debian; Missing says which are not there. One node at a time runs on a machine, since its
// addresses are fixed: another start waits.
package node
