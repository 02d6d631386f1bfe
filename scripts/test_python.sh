#!/bin/bash
# Installs the Python package as users do, and tests what was installed. The last line is
# "N passed, N failed[, N skipped]", or "skipped: " and the reason. A line "left out: " names each test
# that needs a library which scripts/setup.sh does not install.
#
# The script needs no network. PYTHON is an interpreter that has cffi, numpy, pytest, setuptools and
# wheel, by default the system's own.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/cases.sh
root=$PWD
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export PYTHONDONTWRITEBYTECODE=1

missing=
for module in venv ensurepip pip setuptools wheel cffi numpy pytest; do
  "$python" -c "import $module" 2> /dev/null || missing+=" $module"
done
if [ -n "$missing" ]; then
  echo "skipped: $python has no$missing; scripts/setup.sh python brings all it needs"
  exit 0
fi

runs() { "$@" > "$work/log" 2>&1 || { tail -n 60 "$work/log"; return 1; }; }

new_environment() {
  "$python" -m venv --system-site-packages "$1" &&
    "$1/bin/python" -c 'import sys; assert sys.prefix != sys.base_prefix'
}

# The package must come from the environment: tests of the sources would prove nothing.
is_installed_in() {
  cd "$work" && "$1/bin/python" -c \
    'import engine_race, sys; assert engine_race.__file__.startswith(sys.argv[1])' "${2:-$1}"
}

# A module of an earlier build must not get into the package.
installs_from_checkout() {
  local stale
  stale=python/build/lib.$("$python" -c 'import sys, sysconfig; print(
    f"{sysconfig.get_platform()}-{sys.implementation.cache_tag}")')/engine_race
  mkdir -p "$stale" && touch "$stale/_stale.py" && new_environment "$work/direct" &&
    "$work/direct/bin/pip" install --quiet --disable-pip-version-check --no-build-isolation \
      --no-deps --no-cache-dir ./python &&
    (is_installed_in "$work/direct") && ! find "$work/direct" -name _stale.py | grep .
}

# From a copy, because the library comes to lie beside the sources.
installs_editable() {
  local copy=$work/copy/python
  mkdir -p "$copy" && cp -r python/setup.py python/pyproject.toml python/README.md python/src "$copy/" &&
    rm -f "$copy"/src/engine_race/{libengine_race.so,engine_race_c.h} &&
    new_environment "$work/editable" &&
    ENGINE_RACE_CHECKOUT=$root "$work/editable/bin/pip" install --quiet \
      --disable-pip-version-check --no-build-isolation --no-deps --no-cache-dir -e "$copy" &&
    (is_installed_in "$work/editable" "$copy")
}

# Two at once, one in an environment that asks make for something else, with a compiler of two words.
makes_wheels() {
  CXX='env g++' FLAVOUR=asan MAKEFLAGS=n scripts/package/make_wheel.sh "$work/other" &
  scripts/package/make_wheel.sh "$work/wheel" && wait $! &&
    "$python" -c 'import sys, zipfile
first, second = (sorted((file.filename, file.CRC) for file in zipfile.ZipFile(name).infolist()
                        if not file.filename.endswith("/RECORD")) for name in sys.argv[1:])
assert first == second, (first, second)' "$work"/wheel/*.whl "$work"/other/*.whl
}

# The licences of the engine and of what its library contains.
wheel_has_licences() {
  "$python" -c 'import email, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
def file_called(name):
    (found,) = [path for path in wheel.namelist()
                if ".dist-info/" in path and path.endswith("/" + name)]
    return wheel.read(found).decode()
assert file_called("LICENSE") == open("LICENSE").read()
copyright = file_called("LICENSE.third-party")
assert copyright == open("scripts/package/copyright").read()
for part in ("Files: liburing", "Files: xxhash", "Files: libstdc++ libgcc", "License: MIT",
             "License: BSD-2-clause", "GCC Runtime Library Exception"):
    assert part in copyright, part
about = email.message_from_string(file_called("METADATA"))
assert about["License"] == "Apache-2.0", about["License"]
assert "engine_race developers" in str(about["Author-email"])
assert about["Description-Content-Type"].startswith("text/markdown")
assert open("python/README.md").read().strip() in about.get_payload()' "$work"/wheel/*.whl
}

installs_wheel() {
  new_environment "$work/env" &&
    "$work/env/bin/pip" install --quiet --disable-pip-version-check --no-index --no-deps \
      "$work"/wheel/engine_race-*.whl &&
    (is_installed_in "$work/env")
}

# Adds the tests of the package to the counts.
runs_tests() {
  local report=$work/report.xml sum
  (cd "$work" && timeout -k 10 1200 "$work/env/bin/python" -m pytest -q -p no:cacheprovider \
    --basetemp "$work/tests" --junit-xml "$report" "$root/python/tests" > "$work/log" 2>&1)
  if [ ! -s "$report" ]; then
    tail -n 60 "$work/log"
    fail "pytest ends"
    return
  fi
  "$work/env/bin/python" scripts/pytest_sum.py "$report" torch pyarrow rocksdict > "$work/sum"
  head -n -1 "$work/sum"
  read -r -a sum <<< "$(tail -n 1 "$work/sum")"
  [ "${sum[1]}" = 0 ] || tail -n 80 "$work/log"
  passed=$((passed + sum[0])) failed=$((failed + sum[1])) skipped=$((skipped + sum[2]))
}

runs_embeddings() {
  runs "$work/env/bin/python" python/examples/embeddings.py --dir build --rows 2000 --batch 256 \
    --seconds 0.1 --rounds 1 --limit 64m --warm-rows 4000 --memory 32m \
    --json "$work/embeddings.json" &&
    "$work/env/bin/python" -c 'import json, sys
figures = json.load(open(sys.argv[1]))
assert figures["limit_bytes"] is None or figures["claims"]["embeddings_vs_memmap"] > 0' \
      "$work/embeddings.json"
}

measures_users() {
  runs "$work/env/bin/python" python/benchmarks/users.py --dir build --tiny --json "$work/users.json" &&
    "$work/env/bin/python" -c 'import json, sys
assert len(json.load(open(sys.argv[1]))["claims"]) == 5' "$work/users.json"
}

measures_read_many() {
  runs flock build/make.lock make --no-print-directory bin/bench &&
    runs "$work/env/bin/python" python/benchmarks/read_many.py --dir build --tiny \
    --json "$work/read_many.json"
}

mypy() { "$python" -m mypy --config-file python/pyproject.toml --cache-dir "$work/mypy" --strict "$@"; }

# Each line that says "wrong" is found wrong, and no other.
finds_wrong_calls() {
  local program=python/tests/typed_program.py
  MYPYPATH=python/src mypy "$program" > "$work/log"
  diff <(grep -n '# wrong' "$program" | cut -d: -f1) \
    <(sed -n "s|^$program:\([0-9]*\): error:.*|\1|p" "$work/log" | sort -nu) ||
    { cat "$work/log"; return 1; }
}

check_types() {
  if ! "$python" -c 'import mypy' 2> /dev/null; then
    echo "skipped: the type hints were not checked: $python has no mypy"
    skipped=$((skipped + 1))
    return
  fi
  check "mypy finds no fault in the type hints" runs mypy python/src
  check "mypy finds wrong calls by the type hints" finds_wrong_calls
}

check "the package installs from the checkout" installs_from_checkout
check "the package installs editable" runs installs_editable
check "two wheels are made at once" runs makes_wheels
check "the wheel has its licences and says whose it is" wheel_has_licences
check "the wheel installs" installs_wheel
if [ $failed = 0 ]; then
  runs_tests
  check "the embeddings of the examples are gathered" runs_embeddings
  check "the benchmark of many reads runs" measures_read_many
  check "the benchmark of many processes and of loads runs" measures_users
fi
check_types
finish
