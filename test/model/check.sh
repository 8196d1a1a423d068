#!/usr/bin/env bash
# Checks the model of the fence exhaustively: the protocol must hold, and must not without
# any one of its parts. Needs spin and a C compiler.
set -euo pipefail
cd "$(dirname "$0")"

for program in spin gcc; do
  command -v "$program" >/dev/null || { echo "model: $program is needed (Debian: apt-get install spin gcc)" >&2; exit 1; }
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cp fence.pml "$work"
cd "$work"
failed=0

check() { # holds|fails, definitions…
  local want=$1
  shift
  spin -a "$@" fence.pml >spin.log 2>&1 || { cat spin.log >&2; exit 1; }
  gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c
  ./pan -m500000 >pan.log
  local errors states
  errors="$(sed -n 's/.*errors: \([0-9]*\).*/\1/p' pan.log)"
  states="$(sed -n 's/ *\([0-9.e+]*\) states, stored.*/\1/p' pan.log | head -1)"
  if grep -q 'search depth too small\|out of memory' pan.log; then
    echo "model: $*: the search was not exhaustive" >&2
    failed=1
  elif [ "$want" = holds ] && [ "$errors" != 0 ]; then
    echo "model: $*: does not hold; the way there:" >&2
    spin -t -p -g -l "$@" fence.pml >&2
    failed=1
  elif [ "$want" = fails ] && [ "$errors" = 0 ]; then
    echo "model: $*: holds without that part; the model does not bite" >&2
    failed=1
  else
    echo "model: $*: $want, $states states"
  fi
  rm -f pan* ./*.trail
}

check holds -DPRUNERS=1
check holds -DPRUNERS=2
check fails -DPRUNERS=1 -DFENCE=0
check fails -DPRUNERS=1 -DPROOF=0
check fails -DPRUNERS=1 -DRECHECK=0
check fails -DPRUNERS=1 -DHOLD=0
exit "$failed"
