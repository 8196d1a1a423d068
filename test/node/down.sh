#!/usr/bin/env bash
# Removes what a node leaves outside of its namespaces, once up.sh has ended or was killed.
set -euo pipefail
: "${RUN:?the folder that up.sh was given}"
HERE="$(cd "$(dirname "$0")" && pwd)"
# shellcheck source=test/node/names.sh
source "$HERE/names.sh"
ip link del "$LINK" 2>/dev/null || true
if [ -f "$RUN/settings" ]; then
  while read -r setting value; do
    [ "$(cat "/proc/sys/$setting")" = "$value" ] || echo "$value" >"/proc/sys/$setting"
  done <"$RUN/settings"
fi
for _ in $(seq 100); do
  left=
  for hierarchy in /sys/fs/cgroup/*/; do
    [ -d "$hierarchy$CGROUP" ] || continue
    find "$hierarchy$CGROUP" -depth -type d -exec rmdir {} + 2>/dev/null || true
    [ ! -d "$hierarchy$CGROUP" ] || left="$left $hierarchy$CGROUP"
  done
  [ -n "$left" ] || break
  sleep 0.1
done
[ -z "$left" ] || echo "down: cgroups are left:$left" >&2
if [ -f "$RUN/folders" ]; then
  while read -r folder; do rmdir "$folder" 2>/dev/null || true; done <"$RUN/folders"
fi
rm -rf "$RUN"
[ -z "$left" ]
