#!/bin/bash
# Fails when a file is not as clang-format writes it.
#
#   scripts/check_format.sh clang-format file...
set -uo pipefail
clang_format=$1
shift

# Other versions break lines elsewhere, so only this version counts.
if ! "$clang_format" --version | grep -q 'version 14\.'; then
  echo "format: not checked: $("$clang_format" --version) is not version 14"
  exit 0
fi
"$clang_format" --dry-run -Werror --ferror-limit=3 "$@" && exit 0
echo 'format: run `make format`'
exit 1
