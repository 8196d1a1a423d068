#!/usr/bin/env bash
# Starts a one-node Kubernetes (etcd, API server, controller manager, scheduler, containerd,
# kubelet, kube-proxy) in mount, pid, network and uts namespaces of its own, and stays until
# it ends. The node writes "ready" on standard output when Pods can run. Ending this process
# ends all of it; down.sh removes what is left outside of the namespaces.
#
# CONTROL: folder of the control plane's programs. PROGRAMS: folder of kubelet and
# kube-proxy. TOOLS: that of prepare.sh. RUN: an empty folder for all that the node writes.
set -euo pipefail
: "${CONTROL:?}" "${PROGRAMS:?}" "${TOOLS:?}" "${RUN:?}"
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=test/node/names.sh
source "$HERE/names.sh"
export HERE CONTROL PROGRAMS TOOLS RUN
mkdir -p "$RUN"/{pki,logs,kubelet,containerd,pv,cni,varlog}

# One authority; the server's certificate, the kubelet's, and that by which the API server
# calls it; the key of service account tokens; static tokens for the rest.
cd "$RUN/pki"
openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=node-ca -keyout ca.key -out ca.crt 2>/dev/null
certificate() { # name, subject, extensions
  openssl req -newkey rsa:2048 -nodes -subj "$2" -keyout "$1.key" -out "$1.csr" 2>/dev/null
  openssl x509 -req -in "$1.csr" -CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile <(printf '%s\n' "$3") -out "$1.crt" 2>/dev/null
}
certificate apiserver /CN=kube-apiserver "extendedKeyUsage=serverAuth
subjectAltName=IP:127.0.0.1,IP:$NODE_IP,IP:$SERVICE_IP,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
certificate kubelet-client /O=system:masters/CN=kube-apiserver-kubelet-client "extendedKeyUsage=clientAuth"
certificate kubelet "/O=system:nodes/CN=system:node:$NODE_NAME" "extendedKeyUsage=serverAuth
subjectAltName=IP:$NODE_IP,DNS:$NODE_NAME"
openssl genrsa -out sa.key 2048 2>/dev/null
openssl rsa -in sa.key -pubout -out sa.pub 2>/dev/null
cat >tokens.csv <<END
admin,admin,admin,"system:masters"
scheduler,system:kube-scheduler,scheduler
proxy,system:kube-proxy,proxy
node,system:node:$NODE_NAME,node,"system:nodes"
END
for user in admin scheduler proxy node; do
  cat >"$RUN/$user.kubeconfig" <<END
apiVersion: v1
kind: Config
clusters: [{name: node, cluster: {server: "https://$NODE_IP:6443", certificate-authority: $RUN/pki/ca.crt}}]
users: [{name: $user, user: {token: $user}}]
contexts: [{name: node, context: {cluster: node, user: $user}}]
current-context: node
END
done

cat >"$RUN/containerd.toml" <<END
version = 2
root = "$RUN/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  # Where root may not lower it, nothing would start.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$RUN/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "$TOOLS/runc"
END
cat >"$RUN/cni/10-bridge.conflist" <<END
{"cniVersion":"1.0.0","name":"node","plugins":[
 {"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,"promiscMode":false,
  "ipam":{"type":"host-local","dataDir":"/run/cni-ipam","ranges":[[{"subnet":"$POD_NET"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
 {"type":"portmap","capabilities":{"portMappings":true}}]}
END
echo "nameserver 127.0.0.1" >"$RUN/resolv.conf"
cat >"$RUN/kubelet.yaml" <<END
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
failSwapOn: false
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $RUN/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $RUN/pki/kubelet.crt
tlsPrivateKeyFile: $RUN/pki/kubelet.key
resolvConf: $RUN/resolv.conf
# Secrets are seen by pods soon after they change.
syncFrequency: 10s
evictionHard: {memory.available: 100Mi, nodefs.available: 500Mi, imagefs.available: 500Mi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
maxPods: 60
END
cat >"$RUN/proxy.yaml" <<END
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $RUN/proxy.kubeconfig}
mode: iptables
clusterCIDR: $POD_NET
hostnameOverride: $NODE_NAME
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {minSyncPeriod: 100ms, syncPeriod: 30s}
END

# What concerns the whole machine: kernel settings that kubelet changes (down.sh puts them
# back), a cgroup of ours in each hierarchy, and folders to mount on.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
  echo "$setting $(cat "/proc/sys/$setting")"
done >"$RUN/settings"
for hierarchy in /sys/fs/cgroup/*/; do
  [ -e "$hierarchy/tasks" ] && mkdir -p "$hierarchy$CGROUP"
done
for file in cpuset.cpus cpuset.mems; do
  [ ! -e "/sys/fs/cgroup/cpuset/$file" ] || cat "/sys/fs/cgroup/cpuset/$file" >"/sys/fs/cgroup/cpuset/$CGROUP/$file"
done
for folder in /var/lib/kubelet /var/lib/cni /tmp/hostpath_pv /run/mount; do
  [ -d "$folder" ] || echo "$folder" >>"$RUN/folders"
done
mkdir -p /var/lib/kubelet /var/lib/cni /tmp/hostpath_pv

unshare --mount --net --pid --uts --fork --mount-proc --kill-child "$HERE/init.sh" >"$RUN/logs/init.log" 2>&1 </dev/null &
unshared=$!
trap 'kill -KILL $unshared 2>/dev/null || true' EXIT
trap 'exit 143' INT TERM
first=
until [ -n "$first" ]; do
  kill -0 $unshared || { cat "$RUN/logs/init.log" >&2; exit 1; }
  first="$(pgrep -P $unshared || true)"
  sleep 0.05
done
echo "$first" >"$RUN/init.pid"
ip link del "$LINK" 2>/dev/null || true # of a node that was killed
ip link add "$LINK" type veth peer name eth0 netns "$first"
ip addr add "$HOST_IP/30" dev "$LINK"
ip link set "$LINK" up
# Programs outside reach pods and Services through the node.
ip route replace "$POD_NET" via "$NODE_IP"
ip route replace "$SERVICE_NET" via "$NODE_IP"
touch "$RUN/network"

kubectl=("$CONTROL/kubectl" --kubeconfig "$RUN/admin.kubeconfig")
inside() { nsenter -t "$first" -m -n -p -u -- "$@"; }
await() { # what, command…
  local what=$1 end=$((SECONDS + 120))
  shift
  until "$@" >/dev/null 2>&1; do
    [ $SECONDS -lt $end ] && kill -0 $unshared 2>/dev/null || {
      echo "up: $what is not there" >&2
      tail -n 5 "$RUN"/logs/*.log >&2
      exit 1
    }
    sleep 0.1
  done
}
await "the API server" "${kubectl[@]}" get --raw /readyz
await containerd inside "$TOOLS/ctr" -a /run/containerd/containerd.sock version
await "the node" "${kubectl[@]}" wait --for=condition=Ready "node/$NODE_NAME" --timeout=1s
await "the default service account" "${kubectl[@]}" get serviceaccount default
await "the Service of the API server" sh -c "nsenter -t $first -n iptables-save | grep -q $SERVICE_IP/32"
"${kubectl[@]}" apply -f - >/dev/null <<END
{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: standard, annotations: {storageclass.kubernetes.io/is-default-class: "true"}},
 provisioner: kubernetes.io/host-path, reclaimPolicy: Delete, volumeBindingMode: Immediate}
END
echo ready
wait $unshared
