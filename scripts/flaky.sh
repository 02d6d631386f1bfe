#!/bin/bash
# Runs the tests of `make test` N times in a row, to find tests that fail by chance.
#
#   scripts/flaky.sh N
#
# Builds once. Prints each test that failed and in how many runs. The last line is
# "N runs, M with failures"; exit code 0 when no test failed. Logs lie in out/flaky/.
set -uo pipefail
cd "$(dirname "$0")/.."
runs=${1:-}
[[ $runs =~ ^[1-9][0-9]*$ ]] || { echo "usage: $0 N" >&2; exit 2; }

out=out/flaky
rm -rf $out
mkdir -p $out
bad=0
for ((run = 1; run <= runs; ++run)); do
  log=$out/$run.log
  make test > "$log" 2>&1 < /dev/null
  status=$?
  echo "run $run: $(grep -E '^[0-9]+ passed, [0-9]+ failed' "$log" | tail -n 1), status $status"
  if [ $status = 0 ]; then continue; fi
  bad=$((bad + 1))
  # Each failed test once a run; a run that ended without a failed test has another reason.
  sed -nE 's/^\[  FAILED  \] ([^ ,]+)( |,|$).*/\1/p' "$log" | grep -F . | sort -u > "$log.failed"
  [ -s "$log.failed" ] || echo "no failed test, see $log" > "$log.failed"
done
cat $out/*.failed 2> /dev/null | sort | uniq -c | sort -rn
echo "$runs runs, $bad with failures"
[ $bad = 0 ]
