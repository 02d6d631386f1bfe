#!/bin/bash
# Checks the Go sources of cluster/: gofmt, go vet, and staticcheck where scripts/setup.sh has
# installed it.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/go_env.sh
use_go || exit
bad=0

unformatted=$(gofmt -l cluster)
if [ -n "$unformatted" ]; then
  echo "$unformatted"
  echo 'format: run `make format`'
  bad=1
fi

while read -r module; do
  (cd "$module" && go vet ./...) || bad=1
  if [ -x "$staticcheck_program" ]; then
    (cd "$module" && "$staticcheck_program" ./...) || bad=1
  else
    echo "lint: $module: staticcheck is missing; scripts/setup.sh test-cluster brings it"
  fi
done < <(git ls-files --cached --others --exclude-standard 'cluster/*go.mod' | xargs -n 1 dirname)
exit $bad
