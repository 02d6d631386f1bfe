#!/bin/bash
# Prints what a change concerns, one word a line, so that CI runs these tests and no others:
#
#   engine   the engine's tests, under sanitizers too, with power cuts
#   bindings Python, Java, Rust, packages and judges
#   harness  the tests of harness/
#   bench    a tiny run of each bench
#   numa     guests with NUMA nodes
#   nvme     guests with NVMe disks
#   lint     clang-tidy
#   service  the networked service
#   go       gofmt, go vet and staticcheck, and the race detector in the tests of the service
#   report   the pages of bin/report in a browser
#   bare     the wheel in a Debian without a compiler
#
# To these .ci/run adds parts of the long runs and one of the bindings, see test/runs.mk.
#
#   scripts/scope.sh           of the difference between this tree and its merge base with the main branch
#   scripts/scope.sh --base    prints that merge base instead, or nothing
#   scripts/scope.sh --files   of the paths in the input, one a line
#
# All words are printed when the merge base cannot be told: a shallow clone, no main branch, HEAD that is
# in the main branch, no difference. A path that no rule names concerns everything.
set -uo pipefail

words="engine bindings harness bench numa nvme lint service go report bare"
everything() { tr ' ' '\n' <<< "$words"; exit 0; }

# A candidate in which HEAD lies says nothing about what was tested before HEAD.
merge_base() {
  local branch base
  [ "$(git rev-parse --is-shallow-repository 2> /dev/null)" = false ] || return 1
  for branch in ${MAIN_BRANCH:-} refs/remotes/origin/HEAD refs/remotes/origin/main refs/heads/main; do
    git rev-parse --verify --quiet "$branch^{commit}" > /dev/null || continue
    base=$(git merge-base "$branch" HEAD) && [ "$base" != "$(git rev-parse HEAD)" ] || return 1
    echo "$base"
    return 0
  done
  return 1
}

changed_files() {  # since commit
  git diff --name-only --no-renames --relative "$1" -- && git ls-files --others --exclude-standard
}

# The first rule that fits a path has its words. "-" stands for none: `make check` looks at these files
# in any case, or only other rules' tests use them.
words_of() {
  case $1 in
    cluster/*) echo service go ;;
    engine_race/numa/* | engine_race/base/cpu* | test/numa/*) echo engine numa lint ;;
    engine_race/io/* | test/io/* | engine_race/log/*device*) echo engine nvme lint service ;;
    # Programs of others include some of these headers: $(cxx_headers) in scripts/package/package.mk.
    engine_race/base/*.h | engine_race/scan/iterator.h | engine_race/scan/snapshot.h) echo engine bindings lint service ;;
    engine_race/*/*.cc | engine_race/*/*.h) echo engine lint service ;;
    include/engine_race_c.h) echo engine bindings harness bench lint service go ;;
    engine_race/* | include/*) echo engine bindings harness bench lint service ;;
    harness/numa/* | harness/apps/numa* | test/harness/numa/* | test/harness/apps/numa*) echo harness bench numa lint ;;
    harness/guest/*) echo engine numa nvme lint ;;
    # The kill trials of the engine run it.
    harness/crash/* | harness/apps/crash*) echo engine harness bench lint ;;
    harness/race/* | harness/apps/race*) echo harness bench numa lint ;;
    # Tests of the index fill their stores with it; guests judge values with it.
    harness/load/* | harness/data/* | harness/system/* | harness/lab/*) echo engine harness bench numa nvme lint ;;
    harness/*.cc | harness/*.h) echo harness bench lint ;;
    test/harness/*.cc | test/harness/*.h) echo harness ;;
    test/harness/*) echo harness engine ;;
    test/scripts/*) echo report ;;
    test/mutants/* | test/fuzz/*) echo - ;;
    test/judges/*) echo engine bindings ;;
    test/*/*.cc | test/*/*.h) echo engine ;;
    test/*.h) echo engine harness ;;
    scripts/report/*) echo report ;;
    scripts/numa_guest.py) echo numa ;;
    scripts/nvme_guest.py) echo nvme ;;
    scripts/powercut.py) echo engine ;;
    scripts/package/*) echo bindings bare ;;
    scripts/test_package.sh | scripts/test_judges.sh) echo bindings ;;
    scripts/test_python.sh | scripts/test_bare_debian.sh | python/*) echo bindings bare ;;
    scripts/test_rust.sh | scripts/test_java.sh | bindings/*) echo bindings ;;
    scripts/test_cluster.sh | scripts/check_go.sh | scripts/cluster_demo.sh) echo service go ;;
    scripts/cluster_mutants.py | scripts/mutants.py | scripts/soak.sh | scripts/flaky.sh) echo - ;;
    scripts/check_prose.py | scripts/check_docs.py | scripts/check_house.sh | scripts/check_layers.sh) echo - ;;
    # Tests of the package run the snippets, and compare the page of its names.
    docs/python*) echo bindings bare ;;
    docs/rust* | docs/java*) echo bindings ;;
    docs/* | README.md | CHANGELOG.md) echo - ;;
    # How programs are built and tests are run. Guests run programs that other tests run too, and their own
    # program is built in any scope.
    Makefile | */programs.mk | test/rooms.mk | test/runs.mk | .ci/run | scripts/run_tests.sh | scripts/scope.sh)
      echo engine bindings harness bench lint service go report bare ;;
    *) echo "$words" ;;
  esac
}

case ${1:-} in
  --base) cd "$(dirname "$0")/.." && merge_base; exit 0 ;;
  --files) files=$(cat) ;;
  '')
    cd "$(dirname "$0")/.." || exit
    base=$(merge_base) && files=$(changed_files "$base") && [ -n "$files" ] || everything
    ;;
  *) echo "usage: $0 [--base|--files]" >&2; exit 2 ;;
esac
found=$(while read -r file; do words_of "$file"; done <<< "$files" | tr ' ' '\n' | sort -u)
for word in $words; do
  if grep -qx "$word" <<< "$found"; then echo "$word"; fi
done
