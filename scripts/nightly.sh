#!/bin/bash
# Everything in full, which takes half a day: what CI samples is whole here. Exit code 0 when all passed.
#
# Each stage has a log in out/nightly/ and a line in the output. A failed stage does not end the night.
# NIGHTLY_STAGES names the stages to run, otherwise all run.
set -uo pipefail
cd "$(dirname "$0")/.."
# Whole sweeps, and ThreadSanitizer for every test.
export ENGINE_TEST_FULL=1 TEST_TIMEOUT=${TEST_TIMEOUT:-14400} FUZZ_SECONDS=${FUZZ_SECONDS:-600}
export WERROR=1
seed=$((RANDOM * 32768 + RANDOM))
out=out/nightly
rm -rf $out
mkdir -p $out
bad=0

stage() {  # name, command...
  local name=$1 began=$SECONDS result=passed
  shift
  [[ " ${NIGHTLY_STAGES:-$name} " == *" $name "* ]] || return 0
  echo "$name: $*"
  "$@" > "$out/$name.log" 2>&1 < /dev/null || { result=FAILED bad=1; }
  echo "$name: $result, $((SECONDS - began)) s: $(tail -n 1 "$out/$name.log")"
}

# An hour: each part is a tenth of what `make soak` has by itself, or less.
soak() {
  SOAK_KILLS=1000 SOAK_CUTS=30 SOAK_STATES=100000 SOAK_SNAPSHOTS=30 SOAK_L1_SECONDS=120 \
    SOAK_DAMAGED=20000 SOAK_FUZZ_SECONDS=300 SOAK_DISK_MIB=2048 SOAK_HISTORIES=240 make soak
}

stage check make check
stage tests make test-all
# Each test compiles alone too: unity files would hide a missing include.
stage alone make FLAVOUR=checked UNITY=0 tests
stage mutants make mutants
stage random-mutants make mutants MUTANTS_ARGS="--random 200 --seed $seed"
stage cluster-mutants make cluster-mutants
stage soak soak
echo "nightly: $([ $bad = 0 ] && echo 'everything passed' || echo 'SOMETHING FAILED')"
exit $bad
