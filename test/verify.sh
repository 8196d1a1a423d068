#!/usr/bin/env bash
# Regenerates what is generated and fails on any difference to what is committed,
# untracked files included. It starts only on a clean tree, so that nobody's work is
# mistaken for a difference.
set -euo pipefail
cd "$(dirname "$0")/.."

changes() { git status --porcelain --untracked-files=all; }

if [ -n "$(changes)" ]; then
  echo "verify: commit or remove these first:" >&2
  changes >&2
  exit 1
fi
make --no-print-directory generate
if [ -n "$(changes)" ]; then
  echo "verify: not up to date; run make generate and commit:" >&2
  changes >&2
  git --no-pager diff >&2
  exit 1
fi
echo "verify: everything is up to date"
