#!/usr/bin/env bash
# Builds the Dockerfile without a registry: the images that it begins with are replaced, under
# their own names, by stand-ins made of this machine's Go and certificates. What is tested is
# the Dockerfile and the program, not those images.
#
#   build.sh ARCHIVE REFERENCE [ARCHITECTURE]
#
# writes the OCI archive ARCHIVE with the image REFERENCE. Needs buildah and root.
set -euo pipefail
archive=$(realpath -m "$1") reference=$2 architecture=${3:-$(go env GOARCH)}
cd "$(dirname "$0")/../.."
version=$(git describe --tags --always --dirty 2>/dev/null || echo dev)
commit=$(git rev-parse HEAD 2>/dev/null || echo unknown)

work=$(mktemp -d)
buildah=(buildah --root "$work/root" --runroot "$work/run" --storage-driver vfs)
trap '"${buildah[@]}" rm --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

# stand_in NAME: commits what the function fill put into a folder.
stand_in() {
  local container folder
  container=$("${buildah[@]}" from --pull=never scratch)
  folder=$("${buildah[@]}" mount "$container")
  fill "$folder"
  "${buildah[@]}" umount "$container" >/dev/null
  "${buildah[@]}" config "${settings[@]}" "$container"
  "${buildah[@]}" commit -q --rm "$container" "$1" >/dev/null
}

# The build stage: a shell with the libraries it needs; Go itself and its caches are mounted.
fill() {
  mkdir -p "$1"/{bin,tmp,etc/ssl/certs,root}
  local library
  cp "$(readlink -f /bin/sh)" "$1/bin/sh"
  ldd /bin/sh | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$1$(dirname "$library")"
    cp -L "$library" "$1$library"
  done
  cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
}
settings=(--env PATH=/usr/local/go/bin:/bin --env GOPATH=/go --env HOME=/root --env "GOPROXY=$(go env GOPROXY)" --env GOTOOLCHAIN=local --env GOFLAGS=)
stand_in "$(sed -n 's/^FROM --platform=$BUILDPLATFORM \([^ ]*\) AS build$/\1/p' Dockerfile)"

# The final stage: certificates, and the user.
fill() {
  mkdir -p "$1"/{etc/ssl/certs,tmp}
  cp -L /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
  echo 'nonroot:x:65532:65532:nonroot:/:/sbin/nologin' >"$1/etc/passwd"
}
settings=(--user 65532)
stand_in "$(sed -n 's/^FROM \([^ -][^ ]*\)$/\1/p' Dockerfile)"

"${buildah[@]}" build --isolation chroot --pull=never --quiet \
  --volume "$(go env GOROOT):/usr/local/go:ro" --volume "$(go env GOMODCACHE):/go/pkg/mod" --volume "$(go env GOCACHE):/root/.cache/go-build" \
  --build-arg "BUILDPLATFORM=linux/$(go env GOARCH)" --build-arg TARGETOS=linux --build-arg "TARGETARCH=$architecture" \
  --build-arg "VERSION=$version" --build-arg "COMMIT=$commit" -t "$reference" . >/dev/null
# A stand-in is of this machine's architecture, and so is what is built on it: only the program is of the other.
container=$("${buildah[@]}" from --pull=never "$reference")
"${buildah[@]}" config --arch "$architecture" "$container"
"${buildah[@]}" commit -q --rm "$container" "$reference" >/dev/null
rm -f "$archive"
"${buildah[@]}" push -q "$reference" "oci-archive:$archive:$reference"
