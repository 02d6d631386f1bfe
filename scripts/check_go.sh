#!/bin/bash
# Checks the Go sources of cluster/: gofmt, go vet, and staticcheck where scripts/setup.sh has
# installed it. With CHECK_SINCE=COMMIT the last two leave out modules that have not changed since.
# Then the examples of cluster/deploy/, those of systemd and HAProxy where these are installed. Lengths
# of lines and files are house rules: see scripts/check_house.sh.
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
  [ -z "${CHECK_SINCE:-}" ] || ! git diff --quiet "$CHECK_SINCE" -- "$module" 2> /dev/null ||
    [ -n "$(git ls-files --others --exclude-standard "$module")" ] || continue
  (cd "$module" && go vet ./...) || bad=1
  if [ -x "$staticcheck_program" ]; then
    (cd "$module" && "$staticcheck_program" ./...) || bad=1
  else
    echo "lint: $module: staticcheck is missing; scripts/setup.sh check brings it"
  fi
done < <(git ls-files --cached --others --exclude-standard 'cluster/*go.mod' | xargs -n 1 dirname)

examples=$(cd cluster && go test -run '^Test(Example|Units|HAProxy)' ./config ./cmd/engine-raced 2>&1)
if [ $? != 0 ] || grep -q 'no tests to run' <<< "$examples"; then
  echo "$examples"
  bad=1
fi
exit $bad
