#!/bin/bash
# Compiles the judging programs as judges do, against lib/libengine.a alone, and runs them. Runs
# those in C under ASan and TSan as well, from build/asan/judges/ and build/tsan/judges/. Also checks
# the archive's public symbols and size, and the archive in lib/debug. The last line is "N passed, N
# failed".
set -uo pipefail
cd "$(dirname "$0")/.."
archive=lib/libengine.a
out=build/judges
. scripts/cases.sh
mkdir -p $out

judge() {  # name, standard, further flags
  local name=$1
  shift
  # The command line of the judges, except for the program's path.
  if g++ "-std=$1" -I. "${@:2}" "test/judges/$name.cc" -Llib -lengine -lpthread -lrt \
      -o "$out/$name"; then
    pass "$name links as $*"
    run_judge "$name" "$out/$name"
  else
    fail "$name links as $*"
  fi
}

# A program of C links what the archive needs of C++ by itself.
judge_c() {  # name
  if gcc -std=c99 -pedantic -Wall -Wextra -Werror -D_DEFAULT_SOURCE -Iinclude "test/judges/$1.c" \
      -Llib -lengine -lstdc++ -lpthread -lrt -lm -o "$out/$1"; then
    pass "$1 links as c99"
    run_judge "$1" "$out/$1"
  else
    fail "$1 links as c99"
  fi
}

# See scripts/run_tests.sh, which sets the same.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1:die_after_fork=0}
fixed_addresses=()
if setarch -R true 2> /dev/null; then fixed_addresses=(setarch -R); fi

judge_c_sanitized() {  # flavour, name
  local program=build/$1/judges/$2
  if [ -x "$program" ]; then
    run_judge "$2 of the flavour $1" "${fixed_addresses[@]}" "$program"
  else
    fail "$program was built"
  fi
}

run_judge() {  # name, the program and its arguments
  local name=$1 output status
  shift
  output=$(timeout -k 10 300 "$@" 2>&1)
  status=$?
  echo "$output"
  passed=$((passed + $(grep -c '^ok ' <<< "$output")))
  failed=$((failed + $(grep -c '^FAILED ' <<< "$output")))
  if [ $status != 0 ] && ! grep -q '^FAILED ' <<< "$output"; then
    fail "$name ended with status $status"
  fi
}

# Every visible symbol of the archive must belong to the public interface and be strongly defined.
public_names='polar_race::Engine::Open|polar_race::EngineRace::'
public_names+='|(vtable|typeinfo|typeinfo name) for polar_race::EngineRace$'
public_names+='|engine_race::Store::(Open|Write|Delete|Read|ReadInto|MultiRead|MultiReadInto|ReadAsync|ReadAsyncInto|Range|GetSnapshot|NewIterator|Sync|Verify|Copy|Stats|Latencies|~Store)\('
public_names+='|engine_race::Store::(Checkpoint|Backup|Restore|VerifyBackup|Compact|Refresh|SpaceByBucket|value_bytes)\('
public_names+='|engine_race::WriteBatch::(~?WriteBatch|operator=|Put|PutMany|Delete|Reserve|Clear|bytes)\('
public_names+='|engine_race_[a-z_]+$'
public_names+='|engine_race::(StatsText|PrometheusText)\('
public_names+='|engine_race::Snapshot::ReleaseView\('
public_names+='|engine_race::Iterator::(Seek|SeekForPrev|SeekToFirst|SeekToLast|NextBatch|PrevBatch|value|status)\('
public_names+='|engine_race::Iterator::(Refresh|RefreshKeepPosition|ReleaseImpl)\('
public_names+='|engine_race::(ValidateOptions|LeastMemoryBudgetBytes|CodeName|Status::(FromErrno|Prefixed|Reworded|At|(ToString|message|path)(\[abi:cxx11\])?))\('

check_symbols() {
  local shown unexpected
  shown=$(nm -C --defined-only --extern-only $archive | sed -n 's/^[0-9a-f]* //p')
  unexpected=$(grep -vE "^[TDRV] ($public_names)" <<< "$shown")
  # grep answers 1 when nothing is left, and 2 when it cannot read the pattern.
  if [ $? = 1 ] && [ -n "$shown" ]; then
    pass "the archive shows its public interface alone"
  else
    echo "$unexpected"
    fail "the archive shows its public interface alone"
  fi
}

# A copy of one symbol for each group means that inline functions were resolved into one object.
check_members() {
  local groups
  groups=$(readelf --section-groups --wide $archive | grep -c 'COMDAT group section')
  if [ "$(ar t $archive | wc -l)" = 1 ] && [ "$groups" = 0 ]; then
    pass "the archive is one object without groups"
  else
    fail "the archive is one object without groups"
  fi
}

# Embedded by a program of C, the engine adds less than 2.7 MB, because its debug information lies
# apart.
is_small() {
  local with without
  echo 'int main(void) { return 0; }' > $out/empty.c
  gcc $out/empty.c -lstdc++ -lm -lpthread -lrt -o $out/empty &&
    with=$(stat -c %s $out/c_program) && without=$(stat -c %s $out/empty) || return
  echo "lib/libengine.a adds $((with - without)) bytes to a program"
  [ $((with - without)) -lt 2700000 ]
}

debug_archive_has_lines() {
  local address
  gcc -D_DEFAULT_SOURCE -Iinclude test/judges/c_program.c \
    -Llib/debug -lengine -lstdc++ -lpthread -lrt -lm -o $out/c_debug || return
  address=$(nm $out/c_debug | sed -n 's/ T engine_race_open$//p')
  grep -q 'engine_race/c_[a-z]*\.cc:[0-9]' <<< "$(addr2line -e $out/c_debug "0x$address")"
}

# When a library of the programs is missing, make leaves out the programs that need it, says so, and
# builds the others. These checks are dry runs with include directories of their own.
include_dir=$out/include
program_headers='CLI/CLI.hpp nlohmann/json.hpp boost/context/fiber.hpp benchmark/benchmark.h'

lay_out_headers() {  # all but these
  local header
  rm -rf $include_dir
  for header in xxhash.h liburing.h $program_headers; do
    [[ " $* " != *" $header "* ]] || continue
    mkdir -p "$(dirname "$include_dir/$header")"
    touch "$include_dir/$header"
  done
}

in_order() { printf '%s\n' "$@" | sort | xargs; }
every_program=$(in_order $(basename -s _main.cc harness/apps/*_main.cc))

check_left_out() {  # what cannot be built, the missing headers
  local wanted_out=$1 made status linked left
  shift
  lay_out_headers "$@"
  made=$(make -n -B TARGET_ENGINE=engine_race INCLUDE_DIRS=$include_dir 2>&1)
  status=$?
  linked=$(sed -n 's|^echo ".* link bin/\(.*\)"|\1|p' <<< "$made")
  left=$(sed -n "s|^echo 'left out bin/\([a-z0-9_]*\): there is no .*|\1|p" <<< "$made")
  if [ $status = 0 ] && grep -q "^echo \".* archive $archive\"" <<< "$made" &&
      [ "$(in_order $left)" = "$wanted_out" ] &&
      [ "$(in_order $linked $left)" = "$every_program" ]; then
    pass "without [$*], left out: [$wanted_out]"
  else
    echo "$made" | grep -E '^echo .*(link|archive|left)|Error'
    fail "without [$*], left out: [$wanted_out]"
  fi
}

check_missing_libraries() {
  check_left_out ''
  check_left_out 'bench_micro' benchmark/benchmark.h
  check_left_out 'lab' boost/context/fiber.hpp
  check_left_out "$every_program" CLI/CLI.hpp
  check_left_out "$every_program" nlohmann/json.hpp
  check_left_out "$every_program" $program_headers
  # Without the library's own needs nothing can be built; make says so before it compiles.
  lay_out_headers xxhash.h
  if ! make library INCLUDE_DIRS=$include_dir > $out/make.log 2>&1 &&
      grep -q 'the library cannot be built without xxhash.h' $out/make.log &&
      ! grep -q ' compile ' $out/make.log; then
    pass "without [xxhash.h] a message"
  else
    head -n 30 $out/make.log
    fail "without [xxhash.h] a message"
  fi
}

check_missing_libraries
if [ ! -f $archive ]; then
  fail "$archive exists"
else
  check_symbols
  check_members
  judge contest_judge c++11
  judge clashing_judge c++11
  judge store_judge c++20
  judge store_judge c++20 -fno-exceptions -fno-rtti
  judge_c c_program
  judge_c c_handles
  judge_c c_sizes
  check "an embedded engine is small" is_small
  check "the archive in lib/debug has the engine's line numbers" debug_archive_has_lines
fi
# CI builds under one sanitizer, which its SCOPE names: see test/runs.mk.
for flavour in asan tsan; do
  [[ -z ${SCOPE+x} || " $SCOPE" = *" $flavour"* ]] || continue
  judge_c_sanitized $flavour c_program
  judge_c_sanitized $flavour c_handles
  judge_c_sanitized $flavour c_sizes
done
finish
