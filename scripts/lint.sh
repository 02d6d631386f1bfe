#!/bin/bash
# Lints one source with clang-tidy. What a machine has found clean it does not lint again, in any
# checkout, while source, headers, options and clang-tidy are the same.
#
#   scripts/lint.sh CLANG_TIDY CLANGXX SOURCE [FLAGS...]
#
# Prints clang-tidy's findings and fails when there are some. The marks of clean sources lie in
# $XDG_CACHE_HOME/engine_race/lint, by default ~/.cache/engine_race/lint; those that no lint has
# used for 30 days go.
set -uo pipefail
cd "$(dirname "$0")/.."

clang_tidy=$1 clangxx=$2 source=$3
shift 3

marks=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/engine_race/lint
mark=
# Comments count as well: they may silence a finding.
if text=$(mktemp) && $clangxx -E -C -dD "$source" "$@" > "$text" 2> /dev/null; then
  mark=$marks/$( { $clang_tidy --version; cat .clang-tidy "$text"; echo "$@"; } | sha256sum | cut -c -64)
fi
rm -f "$text"
if [ -n "$mark" ] && touch -c "$mark" 2> /dev/null && [ -e "$mark" ]; then exit 0; fi

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
if ! $clang_tidy --quiet "$source" -- "$@" 2> "$errors"; then
  cat "$errors"
  exit 1
fi
if [ -n "$mark" ] && mkdir -p "$marks" 2> /dev/null; then
  touch "$mark"
  find "$marks" -type f -mtime +30 -delete
fi
exit 0
