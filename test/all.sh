#!/usr/bin/env bash
# Runs the tests in two phases and prints one summary of both. With the argument "unit"
# it runs the first phase alone.
#
# Of the packages with a control plane two run at once: those with a real node wait for
# containers most of the time, and the scripts keep the cores busy meanwhile. These two
# take longest and begin first.
set -euo pipefail
cd "$(dirname "$0")/.."

results="$(mktemp -d)"
trap 'rm -rf "$results"' EXIT
began=$SECONDS
failed=0

sum() { go tool -modfile=test/tools/dev/go.mod gotestsum "$@"; }

phase() { # name, arguments of go test…
  local name=$1
  shift
  echo "== $name =="
  sum --format=pkgname --format-hide-empty-pkg --hide-summary=all --jsonfile="$results/$name.json" -- -count=1 "$@" | sed '/^DONE /d' || failed=1
}

race=()
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v "$(go env CC)" >/dev/null; then
  race=(-race)
else
  echo "no C compiler: unit tests run without the race detector"
fi

mapfile -t packages < <(go list ./...)
units=() longest=() planes=()
for package in "${packages[@]}"; do
  case $package in
    */test/installation | */test/e2e) longest+=("$package") ;;
    */test/*) planes+=("$package") ;;
    *) units+=("$package") ;;
  esac
done

phase unit "${race[@]}" -timeout=10m "${units[@]}"
if [ "${1:-}" != unit ]; then
  modules=(certmanager)
  [ "$(id -u)" != 0 ] || modules+=(node) # others cannot start one
  go run ./test/cluster/cmd/control-plane "${modules[@]}" >/dev/null
  # Compile with all cores; what follows is limited to two packages at a time.
  go test -run='^$' "${longest[@]}" "${planes[@]}" >/dev/null || true
  phase control-plane -p=2 -timeout=40m "${longest[@]}" "${planes[@]}"
fi

echo "== summary =="
cat "$results"/*.json >"$results/all"
sum --format=none --raw-command -- cat "$results/all" 2>&1 | sed "s/ in [0-9.]*s\$/ in $((SECONDS - began))s/" || failed=1
exit "$failed"
