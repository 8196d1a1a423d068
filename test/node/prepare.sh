#!/usr/bin/env bash
# Puts what a node needs beside kubelet and kube-proxy into the folder TOOLS: runc and
# containerd as Debian ships them, unpacked and not installed. What is there is left.
set -euo pipefail
: "${TOOLS:?folder for runc and containerd}"
[ ! -x "$TOOLS/runc" ] || [ ! -x "$TOOLS/containerd" ] || exit 0
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
download() { apt-get download -qq runc containerd >/dev/null; }
download 2>/dev/null || { apt-get update -qq && download; } || {
  echo "prepare: the packages runc and containerd cannot be downloaded; is this Debian?" >&2
  exit 1
}
for package in ./*.deb; do dpkg-deb -x "$package" unpacked; done
mkdir -p "$TOOLS"
mv unpacked/usr/bin/containerd-shim-runc-v2 unpacked/usr/bin/ctr unpacked/usr/sbin/runc "$TOOLS/"
mv unpacked/usr/bin/containerd "$TOOLS/"
