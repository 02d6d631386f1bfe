#!/bin/bash
# Runs each benchmark program as briefly as possible, to show that it still works, and asks it for its
# version. The last line is "N passed, N failed".
#
#   scripts/test_benches.sh DIRECTORY_OF_PROGRAMS
set -uo pipefail
good=0 bad=0
# Runs a program with arguments.
try() {
  local began=$SECONDS output
  if output=$(timeout -k 10 300 "$@" 2>&1 < /dev/null); then
    echo "$*: ok, $((SECONDS - began)) s"
    good=$((good + 1))
  else
    echo "$*: failed"
    tail -n 40 <<< "$output"
    bad=$((bad + 1))
  fi
}
for bench in "$1"/{bench_micro,claims,bench,compare,profile}; do
  version=$("$bench" --version 2>&1 < /dev/null)
  if ! [[ $version =~ ^"${bench##*/} (engine_race) "[0-9]+\.[0-9]+\.[0-9]+$ ]]; then
    echo "$bench --version: $version"
    bad=$((bad + 1))
  fi
  case $bench in
    */claims)
      for name in $("$bench" --list | awk '{print $1}' | uniq); do try "$bench" "$name" --smoke; done
      continue
      ;;
    */bench_micro) arguments=--benchmark_min_time=0.01 ;;
    */profile) arguments="all --smoke" ;;
    */bench)
      arguments="--num=1000 --reads=200 --threads=2 --benchmarks=fillseq,filluniquerandom,fillrandom"
      arguments+=,overwrite,readrandom,readmissing,readseq,readreverse,scanall,seekrandom
      arguments+=,readwhilewriting,seekrandomwhilewriting,multireadrandom,select_random_ranges
      arguments+=,fillsync,fillseq,readrandomwriterandom,updaterandom,deleterandom
      arguments+=,ycsba,ycsbb,ycsbc,ycsbd,ycsbe,ycsbf,sync,stats
      ;;
    *) arguments=--smoke ;;
  esac
  try "$bench" $arguments
done
echo "$good passed, $bad failed"
[ $bad = 0 ]
