#!/bin/bash
# Runs the safety tests for hours and writes a report. Exit code 0 when all of them passed.
#
#   scripts/soak.sh
#
# Variables of the environment set the length of each part: SOAK_KILLS (10000), SOAK_CUTS (500),
# SOAK_STATES (1000000), SOAK_SNAPSHOTS (300 rounds), SOAK_L1_SECONDS (300, of each flavour),
# SOAK_DAMAGED (200000), SOAK_FUZZ_SECONDS (3600), SOAK_DISK_MIB (8192), SOAK_HISTORIES (1000, of the
# networked service: two hours). 0 leaves a part out. SOAK_SEED is the first seed of the histories,
# otherwise a random one. Logs lie in out/soak/, and out/soak/report.txt has a line for each part.
set -uo pipefail
cd "$(dirname "$0")/.."

kills=${SOAK_KILLS:-10000}
cuts=${SOAK_CUTS:-500}
states=${SOAK_STATES:-1000000}
snapshots=${SOAK_SNAPSHOTS:-300}
l1_seconds=${SOAK_L1_SECONDS:-300}
damaged=${SOAK_DAMAGED:-200000}
fuzz_seconds=${SOAK_FUZZ_SECONDS:-3600}
disk_mib=${SOAK_DISK_MIB:-8192}
histories=${SOAK_HISTORIES:-1000}
seed=${SOAK_SEED:-$((RANDOM * 32768 + RANDOM))}

out=out/soak
report=$out/report.txt
mkdir -p $out
: > $report
bad=0

say() { echo "$*" | tee -a $report; }

part() {  # name, how much of it, command...
  local name=$1 amount=$2 began=$SECONDS
  shift 2
  if [ "${amount%% *}" = 0 ]; then
    say "$name: left out"
    return
  fi
  echo "$name: running"
  if "$@" > "$out/$name.log" 2>&1 < /dev/null; then
    say "$name: held, $amount, $((SECONDS - began)) s: $(tail -n 1 "$out/$name.log")"
  else
    say "$name: FAILED after $((SECONDS - began)) s, see $out/$name.log: $(tail -n 1 "$out/$name.log")"
    bad=1
  fi
}

tests() {  # room, filter, flags; with assertions
  ENGINE_BIN_DIR=$PWD/build/checked/bin "build/checked/tests/$1" --gtest_filter="$2" "${@:3}"
}

# Tests the eviction of hot values under readers, in runs of about a second.
l1() {  # flavour, seconds
  local programs=build/$1/tests
  make --no-print-directory -j"$(nproc)" FLAVOUR="$1" $programs/hot $programs/e2e || return
  local end=$((SECONDS + $2))
  while [ $SECONDS -lt $end ]; do
    $programs/e2e --gtest_repeat=10 --gtest_filter='HotValues*ReadersBeside*' || return
    $programs/hot --gtest_repeat=10 --gtest_filter='ValueFrames*ReadersBeside*' || return
  done
}

snapshots() {  # rounds
  local room
  for room in scan index e2e; do
    tests $room 'Snapshot*:*ViewsTest*:*IteratorModel*' --gtest_repeat="$1" || return
  done
}

# Clusters of real processes under load and faults. Each round has a new cluster and a seed of its own.
# The data of a round that failed stay.
cluster() {  # histories
  local round_histories left=$1 now=$seed rounds=0 count
  local flags=(--binary bin/engine-raced --dir $out/cluster --failover 4)
  # Twice each fault a round, those of power and full disks too.
  round_histories=$((2 * $(bin/cluster-check --list | wc -l)))
  if [ "$(id -u)" = 0 ]; then flags+=(--disk-mib 4096); fi
  for (( ; left > 0; left -= count, now += 1000, ++rounds)); do
    count=$((left < round_histories ? left : round_histories))
    rm -rf $out/cluster
    echo "cluster-check ${flags[*]} --histories $count --seed $now"
    if ! bin/cluster-check "${flags[@]}" --histories $count --seed $now; then
      echo "failed with the seed $now, $count histories"
      return 1
    fi
  done
  rm -rf $out/cluster
  echo "$1 histories in $rounds rounds, seeds $seed to $((now - 1000))"
}

say "soak of $(git rev-parse --short HEAD 2> /dev/null || echo 'no commit'), $(nproc) CPUs," \
  "$(date -u +%Y-%m-%dT%H:%MZ)"
part kills "$kills" bin/crash --cycles "$kills"
part power_states "$states" env POWER_STATES="$states" \
  bash -c "$(declare -f tests); tests power 'PowerLossTest.*'"
part snapshots "$snapshots rounds" snapshots "$snapshots"
for flavour in checked asan tsan; do
  part "l1_$flavour" "$l1_seconds s" l1 "$flavour" "$l1_seconds"
done
part damaged_stores "$damaged" env DAMAGE_STORES="$damaged" \
  bash -c "$(declare -f tests); tests e2e 'DamageTest.*'"
part full_disk "$disk_mib MiB" env FULL_DISK_MIB="$disk_mib" \
  bash -c "$(declare -f tests); tests e2e 'Disks/FullDiskTest.WritesAreRefused*'"
part fuzz "$fuzz_seconds" make --no-print-directory fuzz FUZZ_SECONDS="$fuzz_seconds"
part power_cuts "$cuts" scripts/powercut.py --rounds "$cuts"
part cluster "$histories histories" cluster "$histories"
say "soak: $([ $bad = 0 ] && echo 'everything held' || echo 'SOMETHING FAILED')"
exit $bad
