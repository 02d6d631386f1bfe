#!/bin/bash
# Lints sources with clang-tidy, all in one run, which reads the headers that they share once. What a
# machine has found clean it does not lint again, in any checkout.
#
#   scripts/lint.sh CLANG_TIDY CLANGXX SOURCE... -- [FLAGS...]
#
# Several sources must compile as one. Prints clang-tidy's findings and fails when there are some. The
# marks of clean runs lie in $XDG_CACHE_HOME/engine_race/lint, by default ~/.cache/engine_race/lint.
# A mark holds while sources, headers, flags and clang-tidy are the same; those that no lint has used
# for 30 days go.
set -uo pipefail
cd "$(dirname "$0")/.."

clang_tidy=$1 clangxx=$2
shift 2
sources=()
while [ "$1" != -- ]; do sources+=("$1"); shift; done
shift
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
linted=${sources[0]}
# No header is linted.
filter='(^|/)(engine_race|harness)/.*[.]cc$'
if [ ${#sources[@]} -gt 1 ]; then
  linted=$work/several.cc
  printf '#include "%s"  // NOLINT(bugprone-suspicious-include)\n' "${sources[@]}" > "$linted"
fi

marks=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/engine_race/lint
mark=
# Comments count as well: they may silence a finding.
if $clangxx -E -P -C -dD "$linted" "$@" > "$work/text" 2> /dev/null; then
  mark=$marks/$( { $clang_tidy --version; cat .clang-tidy "$work/text"; echo "$filter" "$@"; } | sha256sum | cut -c -64)
fi
if [ -n "$mark" ] && touch -c "$mark" 2> /dev/null && [ -e "$mark" ]; then exit 0; fi

if ! $clang_tidy --quiet --config-file=.clang-tidy --header-filter="$filter" "$linted" -- "$@" 2> "$work/errors"; then
  cat "$work/errors"
  exit 1
fi
if [ -n "$mark" ] && mkdir -p "$marks" 2> /dev/null; then
  touch "$mark"
  find "$marks" -type f -mtime +30 -delete
fi
exit 0
