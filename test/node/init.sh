#!/usr/bin/env bash
# The first process in the node's namespaces, started by up.sh: when it ends, all of them end.
set -uo pipefail
cd "$RUN" || exit 1
hostname "$NODE_NAME"
mount --make-rshared /
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/lock /run/containerd
mount --bind "$RUN/kubelet" /var/lib/kubelet
mount --make-rshared /var/lib/kubelet
mount -t tmpfs -o mode=755 tmpfs /var/lib/cni
mount --bind "$RUN/varlog" /var/log
mount --bind "$RUN/pv" /tmp/hostpath_pv # where the controller manager makes volumes
until [ -f "$RUN/network" ] && ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip addr add "$NODE_IP/30" dev eth0
ip link set eth0 up
ip route add default via "$HOST_IP"
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1

start() { # name, command…
  local name=$1
  shift
  "$@" >"$RUN/logs/$name.log" 2>&1 &
}
start etcd "$CONTROL/etcd" --data-dir "$RUN/etcd" --unsafe-no-fsync \
  --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
  --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380
start kube-apiserver "$CONTROL/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --secure-port=6443 --advertise-address="$NODE_IP" \
  --tls-cert-file=pki/apiserver.crt --tls-private-key-file=pki/apiserver.key --client-ca-file=pki/ca.crt \
  --kubelet-client-certificate=pki/kubelet-client.crt --kubelet-client-key=pki/kubelet-client.key \
  --kubelet-certificate-authority=pki/ca.crt --kubelet-preferred-address-types=InternalIP \
  --service-account-key-file=pki/sa.pub --service-account-signing-key-file=pki/sa.key --service-account-issuer=https://kubernetes.default.svc \
  --token-auth-file=pki/tokens.csv --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction \
  --service-cluster-ip-range="$SERVICE_NET" --allow-privileged
PATH=$TOOLS:$PATH start containerd "$TOOLS/containerd" --config "$RUN/containerd.toml"
until "$CONTROL/kubectl" --kubeconfig admin.kubeconfig get --raw /readyz >/dev/null 2>&1; do sleep 0.2; done
start kube-controller-manager "$CONTROL/kube-controller-manager" --kubeconfig=admin.kubeconfig --leader-elect=false \
  --service-account-private-key-file=pki/sa.key --root-ca-file=pki/ca.crt --use-service-account-credentials \
  --enable-hostpath-provisioner --secure-port=10257 --bind-address=127.0.0.1 --kube-api-qps=500 --kube-api-burst=1000 --pvclaimbinder-sync-period=1s
start kube-scheduler "$CONTROL/kube-scheduler" --kubeconfig=scheduler.kubeconfig --authentication-kubeconfig=scheduler.kubeconfig \
  --authorization-kubeconfig=scheduler.kubeconfig --leader-elect=false --secure-port=10259 --bind-address=127.0.0.1
start kube-proxy "$PROGRAMS/kube-proxy" --config=proxy.yaml
until "$TOOLS/ctr" -a /run/containerd/containerd.sock version >/dev/null 2>&1; do sleep 0.2; done
[ ! -e "$RUN/pause.tar" ] || "$TOOLS/ctr" -a /run/containerd/containerd.sock -n k8s.io images import "$RUN/pause.tar" >/dev/null
start kubelet "$PROGRAMS/kubelet" --config=kubelet.yaml --kubeconfig=node.kubeconfig --hostname-override="$NODE_NAME" --node-ip="$NODE_IP" --v=2
# Volumes are made for root alone, and host paths know no fsGroup.
while sleep 0.1; do
  find /tmp/hostpath_pv -mindepth 1 -maxdepth 1 -type d -perm 750 -exec chmod 0777 {} +
done
