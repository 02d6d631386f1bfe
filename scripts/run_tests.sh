#!/bin/bash
# Runs built tests and adds up their results: the last line is "N passed, N failed[, N skipped]".
#
#   scripts/run_tests.sh [FLAVOUR/PROGRAM[:I/N][+paged]|judges|package|python|rust|java|bare|fuzz|powercut|nvme|numa|
#                         report|cluster|benches]...
#
# FLAVOUR/PROGRAM is build/FLAVOUR/tests/PROGRAM: checked/log are the tests of the log with
# assertions, asan/core those of the core under AddressSanitizer. :I/N is the I-th of N equal parts
# of its tests, so that a long program does not run alone at the end. +paged runs them with indexes
# that are larger than their memory.
#
# There are as many runs at once as CPUs, and the result of each is printed when it ends. `cluster` and
# `benches` run beside them, because they mostly wait for processes, disks and time-outs. A test program
# that crashes, hangs or leaves no report counts as one failed test. So does a sanitizer's finding after
# the tests themselves have passed. TEST_FILTER and SANITIZER_FILTER are googletest filters. TEST_TIMEOUT
# is the limit of each run and FUZZ_SECONDS the time of the fuzzer, in seconds.
#
# Skipped tests are counted. Lines that begin with "left out: " name tests whose libraries a machine
# may lack: they are shown and not counted.
set -uo pipefail
cd "$(dirname "$0")/.."

test_filter=${TEST_FILTER:-*}
sanitizer_filter=${SANITIZER_FILTER:-$test_filter}
# One file system stands for all, where only the file system differs.
other_disks=Disks/*/Btrfs:Disks/*/Ext4*:Disks/FullDiskTest.*/Xfs
# Tests of e2e that look at nothing of an index, or choose it: with paged indexes they would do the same again.
unpaged=AsyncReadBoundTest.*:KillTest.*:MemorySharesTest.*:PrometheusTextTest.*:ReadersTest.*:StatsTextTest.*
unpaged+=:*InheritedTest.*:QuietAfterKillTest.*:StoreBatchTest.AKilledStore*:$other_disks
# What ENGINE_TEST_FULL=1 has besides. With paged indexes four writers do what one does. ThreadSanitizer finds
# nothing in `unthreaded` that it does not find in other tests. Eight nodes make groups of two as well.
unthreaded=$(grep '^[^#]' test/unthreaded_tests.txt | paste -sd :):$other_disks
single_writers=Threads/*/1 numa_nodes=8
[ -z "${ENGINE_TEST_FULL:-}" ] || unthreaded= single_writers= numa_nodes=2,4,8
timeout_s=${TEST_TIMEOUT:-1800}
fuzz_s=${FUZZ_SECONDS:-60}

export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1:die_after_fork=0}

# The sanitizers of GCC 12 cannot lay out their shadow memory under strong address randomisation.
fixed_addresses=()
if setarch -R true 2> /dev/null; then fixed_addresses=(setarch -R); fi

# The line that ends every run.
summarise() {  # name, passed, failed, skipped, seconds
  echo "$1: $2 passed, $3 failed, $4 skipped, $5 s"
}

attribute() {  # a number in the root element of a report
  sed -n "s/.*<testsuites [^>]*\b$1=\"\([0-9]*\)\".*/\1/p" "$2" | head -1
}

leave_out() {  # tests, from the filter of run_gtest
  [ -n "$1" ] || return
  case $filter in *-*) filter+=:$1 ;; *) filter+=-$1 ;; esac
}

run_gtest() {  # flavour, program, filter, program to run it with
  local flavour=$1 name=$1/$2 filter=$3 build=build/$1 run=${2%+paged} paged=0
  local program=$build/tests/${run%%:*} part=1/1
  local base=$program
  if [[ $run == *:*/* ]]; then part=${run#*:} base=$program.${part%/*}; fi
  if [ "$run" != "$2" ]; then
    paged=1 base=$base.paged
    leave_out "$unpaged${single_writers:+:$single_writers}"
  fi
  if [ "$flavour" = tsan ]; then leave_out "$unthreaded"; fi
  shift 3
  local report=$base.xml log=$base.log
  local bin_dir=$PWD/$build/bin began=$SECONDS status tests good bad omitted
  [ "$flavour" != release ] || bin_dir=$PWD/bin
  rm -f "$report" "$log"
  if [ ! -x "$program" ]; then
    echo "$name: $program was not built"
    summarise "$name" 0 1 0 0
    return
  fi
  GTEST_SHARD_INDEX=$((${part%/*} - 1)) GTEST_TOTAL_SHARDS=${part#*/} \
    ENGINE_BIN_DIR=$bin_dir ENGINE_PAGED_INDEX=$paged timeout -k 10 "$timeout_s" "$@" "$program" \
    --gtest_filter="$filter" --gtest_output="xml:$report" > "$log" 2>&1 < /dev/null
  status=$?

  if [ -s "$report" ]; then
    tests=$(attribute tests "$report") bad=$(attribute failures "$report")
    omitted=$(($(attribute disabled "$report") + $(grep -c 'result="skipped"' "$report")))
    good=$((tests - bad - omitted))
    # No test failed, but a leak or a race was reported at exit.
    if [ "$status" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ "$tests" = 0 ] && [ "${filter%%-*}" = '*' ]; then echo "$name: no test ran"; bad=1; fi
  else
    echo "$name: ended with status $status in the middle of the tests"
    good=$(grep -c '^\[       OK \] .* ms)$' "$log")
    bad=$(($(grep -c '^\[  FAILED  \] .* ms)$' "$log") + 1))
    omitted=$(grep -c '^\[  SKIPPED \] .* ms)$' "$log")
  fi
  if [ "$bad" != 0 ]; then
    echo "$name: the end of $log:"
    tail -n 80 "$log"
    grep -E -A 60 'WARNING: ThreadSanitizer|ERROR: (Address|Leak)Sanitizer|runtime error:' "$log" |
      head -n 300
    # The last 60 lines of each failed test: the end of the log may lack them.
    awk '/^\[ RUN      \]/ { lines = 0 }
         { line[lines++ % 60] = $0 }
         /^\[  FAILED  \] .* ms\)$/ {
           for (i = (lines > 60 ? lines - 60 : 0); i < lines; ++i) print line[i % 60]
         }' "$log" | head -n 600
  fi
  summarise "$name" "$good" "$bad" "$omitted" $((SECONDS - began))
}

# The corpus has the inputs that earlier runs found; the first run begins without any.
run_fuzz() {
  local began=$SECONDS program=build/fuzz/open_fuzz corpus=build/fuzz/corpus log=build/fuzz/fuzz.log
  if [ ! -x $program ]; then
    echo "fuzz: clang or its fuzzer runtime is missing here; scripts/setup.sh fuzz brings them"
    summarise fuzz 0 0 1 0
    return
  fi
  mkdir -p $corpus
  if timeout -k 10 $((fuzz_s + 120)) $program -max_total_time="$fuzz_s" -max_len=256 -timeout=20 \
      -print_final_stats=1 -artifact_prefix=build/fuzz/ $corpus > $log 2>&1 < /dev/null; then
    grep -E '^stat::number_of_executed_units|^Done' $log
    summarise fuzz 1 0 0 $((SECONDS - began))
  else
    echo "fuzz: the end of $log:"
    tail -n 60 $log
    summarise fuzz 0 1 0 $((SECONDS - began))
  fi
}

run_script() {  # name, the script and its arguments
  local name=$1 began=$SECONDS output summary
  shift
  if [[ $1 == *.py ]] && ! command -v python3 > /dev/null; then
    output='skipped: python3 is missing'
  else
    output=$(timeout -k 10 "$timeout_s" "$@" 2>&1 < /dev/null)
  fi
  summary=$(tail -n 1 <<< "$output")
  if [[ $summary =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
    local good=${BASH_REMATCH[1]} bad=${BASH_REMATCH[2]} omitted=${BASH_REMATCH[4]:-0}
    if [ "$bad" = 0 ] && [ "$omitted" = 0 ]; then
      grep '^left out: ' <<< "$output"
    else
      head -n -1 <<< "$output"  # without its sum, which .ci/run would count twice
    fi
    summarise "$name" "$good" "$bad" "$omitted" $((SECONDS - began))
  elif [[ $summary =~ ^skipped: ]]; then
    echo "$name: $summary"
    summarise "$name" 0 0 1 $((SECONDS - began))
  else
    echo "$output"
    summarise "$name" 0 1 0 $((SECONDS - began))
  fi
}

start() {
  case $1 in
    judges) run_script judges scripts/test_judges.sh ;;
    package) run_script package scripts/test_package.sh ;;
    python) run_script python scripts/test_python.sh ;;
    java) run_script java scripts/test_java.sh ;;
    bare) run_script bare scripts/test_bare_debian.sh ;;
    fuzz) run_fuzz ;;
    powercut) run_script powercut scripts/powercut.py --rounds 8 --seed 1 ;;
    nvme) run_script nvme scripts/nvme_guest.py ;;
    numa) run_script numa scripts/numa_guest.py --nodes $numa_nodes ;;
    report) run_script report test/scripts/report_browser_test.py ;;
    cluster) run_script cluster scripts/test_cluster.sh ;;
    benches) run_script benches scripts/test_benches.sh build/checked/bin ;;
    rust) run_script rust scripts/test_rust.sh ;;
    checked/* | release/*) run_gtest "${1%%/*}" "${1#*/}" "$test_filter" ;;
    *) run_gtest "${1%%/*}" "${1#*/}" "$sanitizer_filter" "${fixed_addresses[@]}" ;;
  esac
}

for run in "$@"; do
  case $run in
    */?* | judges | package | python | rust | java | bare | fuzz | powercut | nvme | numa | report | cluster | benches) ;;
    *) echo "usage: $0 [FLAVOUR/PROGRAM|judges|package|python|rust|java|bare|fuzz|powercut|nvme|numa|report|cluster|benches]..." >&2; exit 2 ;;
  esac
done

results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
mkdir "$results/ended"
# Prints the output of a run in one piece when the run ends.
run_and_tell() {  # number, run
  start "$2" > "$results/$1" 2>&1
  {
    flock 9
    touch "$results/ended/$1"
    echo "[$(find "$results/ended" -type f | wc -l)/$run_count] $(cat "$results/$1")"
  } 9> "$results/lock"
}
# The runs of now that keep a CPU busy.
busy_count() { jobs -pr | grep -cvxF "$waiting"; }
run_count=$# number=0 waiting=
for run in "$@"; do
  number=$((number + 1))
  if [[ $run = cluster || $run = benches ]]; then
    run_and_tell $number "$run" &
    waiting+=$!$'\n'
    continue
  fi
  while [ "$(busy_count)" -ge "$(nproc)" ]; do wait -n; done
  run_and_tell $number "$run" &
done
wait

passed=0 failed=0 skipped=0 number=0
for run in "$@"; do
  number=$((number + 1))
  if [[ $(tail -n 1 "$results/$number") =~ :\ ([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
    skipped=$((skipped + BASH_REMATCH[3]))
    # The names of failed tests once more: they are easily missed in long output.
    if [ "${BASH_REMATCH[2]}" != 0 ]; then
      echo "$run: ${BASH_REMATCH[2]} failed:"
      grep -aE '^(\[  FAILED  \] .* ms\)|FAILED |(FAIL|ERROR): |not ok | *--- FAIL: |.*: ended with status |SUMMARY: )' "$results/$number" |
        sort -u | sed 's|^|  |'
    fi
  else
    echo "$run: gave no result"
    failed=$((failed + 1))
  fi
done

if [ $skipped = 0 ]; then
  echo "$passed passed, $failed failed"
else
  echo "$passed passed, $failed failed, $skipped skipped"
fi
[ $failed = 0 ] && [ $((passed + skipped)) != 0 ]
