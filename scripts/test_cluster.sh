#!/bin/bash
# Tests cluster/: the packages' tests, in CI under the race detector only if SCOPE has `go`, and a short run
# of bin/cluster-check over real processes. The last line is "N passed, N failed[, N skipped]", or
# "skipped: " and the reason.
#
# CLUSTER_CHECK_ARGS are further flags of bin/cluster-check, GO_TEST_ARGS those of `go test`.
# CLUSTER_HISTORIES is the count of histories, 0 for none; with ENGINE_TEST_FULL=1 there is one of each fault,
# else of about half of them. CLUSTER_SEED repeats what an earlier run drew and printed.
# CLUSTER_CHECK_TIMEOUT is the limit of each run of the check in seconds, and CLUSTER_PATIENCE multiplies
# the limits of time within it.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/cases.sh
. scripts/go_env.sh
check_timeout_s=${CLUSTER_CHECK_TIMEOUT:-900}
# Otherwise each program with the race detector waits a second at its end, and tests start hundreds.
export GORACE=${GORACE:-atexit_sleep_ms=0}

if ! find_go > /dev/null; then
  echo "skipped: Go is missing; scripts/setup.sh test-cluster brings it"
  exit 0
fi
use_go
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Adds up the events of go test: tests, and packages that failed without a failed test. Prints the
# output of what failed and was skipped, then "PASSED FAILED SKIPPED".
sum_of_events() {
  python3 -c '
import json, sys
outputs, results, not_events = {}, {}, []
for line in sys.stdin:
    try:
        event = json.loads(line)
    except ValueError:
        not_events.append(line)
        continue
    action, test = event["Action"], event.get("Test")
    key = (event.get("Package") or event.get("ImportPath"), test)
    if action in ("output", "build-output"):
        outputs.setdefault(key, []).append(event["Output"])
    elif action in ("pass", "fail", "skip"):
        results[key] = action
tests = {key: result for key, result in results.items() if key[1] and "/" not in key[1]}
failed_packages = {key[0] for key, result in tests.items() if result == "fail"}
# A panic or a race after the last test, or a package that does not compile.
broken = [key for key, result in results.items()
          if not key[1] and result == "fail" and key[0] not in failed_packages]
for key, lines in outputs.items():
    if results.get(key) == "skip" and key[1]:
        sys.stdout.write("".join(lines))
    package_failed = results.get((key[0], None)) == "fail" or (key[0], None) not in results
    if package_failed and (not key[1] or results.get(key) == "fail" or key not in results):
        sys.stdout.write("".join(lines[-200:]))
sys.stdout.write("".join(not_events))
count = lambda wanted: sum(result == wanted for result in tests.values())
if not results:
    broken.append("nothing ran")
# A part of a test that is skipped counts too, so that nobody takes it for run.
skipped = sum(result == "skip" for key, result in results.items() if key[1])
print(count("pass"), count("fail") + len(broken), skipped)
'
}

test_packages() {
  local sum
  # shellcheck disable=SC2086
  (cd cluster && go test $go_test_flags -count=1 -json ${GO_TEST_ARGS:-} ./... 2>&1) > "$work/events"
  sum_of_events < "$work/events" > "$work/sum"
  head -n -1 "$work/sum"
  read -r -a sum <<< "$(tail -n 1 "$work/sum")"
  echo "go test: ${sum[0]} passed, ${sum[1]} failed, ${sum[2]} skipped"
  passed=$((passed + sum[0])) failed=$((failed + sum[1])) skipped=$((skipped + sum[2]))
}

# Faults, a workload and porcupine over the histories. The program says with its exit code whether all
# were well.
check_histories() {  # name, flags...
  local name=$1 status
  shift
  # shellcheck disable=SC2086
  timeout -k 10 "$check_timeout_s" bin/cluster-check --binary bin/engine-raced \
    --patience "${CLUSTER_PATIENCE:-4}" "$@" ${CLUSTER_CHECK_ARGS:-} > "$work/check" 2>&1 < /dev/null
  status=$?
  tail -n 200 "$work/check"
  check "$name, status $status" [ $status = 0 ]
}

check_all_faults() {
  local histories=${CLUSTER_HISTORIES:-$([ -n "${ENGINE_TEST_FULL:-}" ] && echo 29 || echo 15)}
  local seed=${CLUSTER_SEED:-$((RANDOM + 1))}
  if [ ! -x bin/cluster-check ] || [ ! -x bin/engine-raced ]; then
    fail "bin/cluster-check or bin/engine-raced was not built"
    return
  fi
  [ "$histories" != 0 ] || return
  [ "$histories" -le 2 ] || check_histories "cluster-check, $((histories - 2)) histories, CLUSTER_SEED=$seed" \
    --histories $((histories - 2)) --faults all,-rolling-restart,-rot --seed "$seed"
  # No request may fail here. On a busy machine some take longer than the default limit: a node that
  # restarts moves its leaders, and others answer for one whose values are damaged.
  check_histories 'cluster-check, a rolling restart and rot' \
    --histories $((histories < 2 ? histories : 2)) --faults rolling-restart,rot --request-in 10s
  # Each node has a file system of its own here, which only root can mount.
  [ "$(id -u)" != 0 ] || check_histories 'cluster-check, full disks and cuts of power' \
    --histories 4 --faults full-disk,full-leader,power-one,power-all --disk-mib 1024
}

test_packages
check_all_faults
finish
