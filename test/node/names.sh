# Names and addresses of the node; sourced.
# shellcheck shell=bash
export NODE_NAME=node1 LINK=pvcpruner0 CGROUP=pvc-pruner-node
export HOST_IP=10.99.0.1 NODE_IP=10.99.0.2
export POD_NET=10.245.0.0/24 SERVICE_NET=10.97.0.0/16 SERVICE_IP=10.97.0.1
