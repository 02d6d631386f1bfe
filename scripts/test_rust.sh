#!/bin/bash
# Builds the Rust crate over the shared library and runs its tests, those of its documentation and of
# docs/rust.md included. Uses it as other crates do, too. The last line is
# "N passed, N failed[, N skipped]", or "skipped: " and the reason.
#
# The script needs no network: the crate depends on nothing. CARGO is the program to use, by default
# the one in the PATH.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/cases.sh
root=$PWD
cargo=${CARGO:-cargo}
crate=$root/bindings/rust
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# For the examples of the documentation.
mkdir "$work/tmp" && export TMPDIR=$work/tmp
export CARGO_TARGET_DIR=$root/build/rust CARGO_NET_OFFLINE=true CARGO_TERM_COLOR=never
unset ENGINE_RACE_LIB_DIR LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR RUSTFLAGS RUSTDOCFLAGS

for tool in "$cargo" cc pkg-config make; do
  if ! command -v "$tool" > /dev/null; then
    echo "skipped: $tool is missing; scripts/setup.sh rust brings all it needs"
    exit 0
  fi
done

runs() { timeout -k 10 1200 "$@" > "$work/log" 2>&1 || { tail -n 60 "$work/log"; return 1; }; }
# On the crate itself, with the library of this checkout.
on_crate() {
  (cd "$crate" && export ENGINE_RACE_LIB_DIR=$root/lib RUSTFLAGS='-D warnings' RUSTDOCFLAGS='-D warnings' &&
    runs "$cargo" "$1" --locked "${@:2}")
}

makes_library() { mkdir -p build && runs flock build/make.lock make --no-print-directory shared; }

# Adds the tests of one kind to the counts. Doc tests find the library by the loader's path.
runs_tests() {  # name, arguments of cargo test
  local sum
  (cd "$crate" && export ENGINE_RACE_LIB_DIR=$root/lib LD_LIBRARY_PATH=$root/lib RUSTFLAGS='-D warnings' &&
    timeout -k 10 1200 "$cargo" test --locked --no-fail-fast "${@:2}" > "$work/log" 2>&1)
  local status=$?
  read -r -a sum <<< "$(awk '/^test result: / { for (i = 2; i <= NF; ++i) {
      if ($i == "passed;") passed += $(i - 1)
      if ($i == "failed;") failed += $(i - 1)
    } }
    END { print passed + 0, failed + 0 }' "$work/log")"
  sed -n 's/^test \(.*\) \.\.\. FAILED$/FAILED \1/p' "$work/log"
  passed=$((passed + sum[0])) failed=$((failed + sum[1]))
  if [ $status != 0 ]; then tail -n 100 "$work/log"; fi
  # A program that crashed counts as one failed test, as do tests that are not there.
  if [ "${sum[0]}" = 0 ] || { [ $status != 0 ] && [ "${sum[1]}" = 0 ]; }; then fail "$1 end"; fi
}

check_if_there() {  # name, subcommand and arguments
  if "$cargo" "$2" --version > /dev/null 2>&1; then
    check "$1" on_crate_without_lock "${@:2}"
  else
    echo "left out: $1: there is no cargo $2"
  fi
}
on_crate_without_lock() {
  (cd "$crate" && ENGINE_RACE_LIB_DIR=$root/lib runs "$cargo" "$@")
}

# A crate that depends on this one.
program=$work/program
makes_program() {
  mkdir -p "$program/src" &&
    cat > "$program/Cargo.toml" <<EOF && cat > "$program/src/main.rs" <<'EOF'
[package]
name = "program"
version = "0.1.0"
edition = "2021"

[features]
static = ["engine_race/static"]

[dependencies]
engine_race = { path = "$crate" }
EOF
fn main() -> engine_race::Result<()> {
    let store = engine_race::Store::open(std::env::args().nth(1).unwrap())?;
    store.write(7, &[1; engine_race::VALUE_BYTES])?;
    assert_eq!(store.read(7)?.unwrap()[0], 1);
    store.close()
}
EOF
}

builds_program() {  # target directory, arguments of cargo; prints nothing
  makes_program && (cd "$program" && CARGO_TARGET_DIR=$work/$1 runs "$cargo" build "${@:2}")
}

linked_with() {  # program, text
  local linked
  linked=$(ldd "$1") && grep -qF "$2" <<< "$linked"
}

uses_checkout() {
  PKG_CONFIG=false builds_program checkout &&
    LD_LIBRARY_PATH=$root/lib runs "$work/checkout/debug/program" "$work/store1"
}

uses_pkg_config() {
  local prefix=$work/installed
  runs flock build/make.lock make --no-print-directory install PREFIX="$prefix" &&
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig builds_program installed &&
    LD_LIBRARY_PATH=$prefix/lib linked_with "$work/installed/debug/program" "$prefix/lib" &&
    LD_LIBRARY_PATH=$prefix/lib runs "$work/installed/debug/program" "$work/store2"
}

links_archives() {
  local prefix=$work/installed
  PKG_CONFIG_PATH=$prefix/lib/pkgconfig builds_program static --features static &&
    runs "$work/static/debug/program" "$work/store3" &&
    ! linked_with "$work/static/debug/program" libengine_race &&
    PKG_CONFIG=false builds_program static_checkout --features static &&
    runs "$work/static_checkout/debug/program" "$work/store4"
}

# Each program of docs/rust.md becomes a function. It gets a store with some records, in a directory
# that stands for /tmp and /mnt.
guide=$work/guide
makes_guide() {
  mkdir -p "$guide/src" && sed 's/"program"/"guide"/' "$program/Cargo.toml" > "$guide/Cargo.toml" &&
    awk '
      BEGIN { print "#![allow(unused)]\nuse engine_race::Store;\ntype End = Result<(), Box<dyn std::error::Error>>;" }
      /^```rust$/ { inside = 1; body = ""; next }
      /^```$/ && inside {
        inside = 0
        if (body ~ /fn main\(\)/) body = body "main()?;\n"
        print "fn program_" ++count "(store: &Store) -> End {\n" body "Ok(())\n}"
        next
      }
      inside { body = body $0 "\n" }
      END {
        print "const PROGRAMS: [fn(&Store) -> End; " count "] = ["
        for (i = 1; i <= count; ++i) print "program_" i ","
        print "];"
      }' docs/rust.md > "$guide/src/main.rs" && cat >> "$guide/src/main.rs" <<'EOF'
fn main() {
    for (number, program) in PROGRAMS.iter().enumerate() {
        for name in ["tmp", "mnt"] {
            let _ = std::fs::remove_dir_all(name);
            std::fs::create_dir(name).unwrap();
        }
        let store = Store::open("tmp/records").unwrap();
        store.write_many(&[7, 8, 150], &[7; 3 * 4096]).unwrap();
        program(&store).unwrap_or_else(|error| panic!("program {}: {}", number + 1, error));
    }
    println!("{} programs", PROGRAMS.len());
}
EOF
}
runs_guide() {
  local count
  count=$(grep -c '^```rust$' docs/rust.md)
  makes_guide && sed -i 's|"/tmp/|"tmp/|g; s|"/mnt/|"mnt/|g' "$guide/src/main.rs" &&
    (cd "$guide" && PKG_CONFIG=false CARGO_TARGET_DIR=$work/checkout LD_LIBRARY_PATH=$root/lib \
      runs "$cargo" run && grep -qx "$count programs" "$work/log")
}

says_what_is_missing() {
  ENGINE_RACE_LIB_DIR=$work builds_program missing > /dev/null && return 1
  grep -qF "ENGINE_RACE_LIB_DIR has no library: $work" "$work/log"
}

# Both examples read the same in the same order.
measures_reads() {
  local report='^\{"reads": 2000, "cpu_ns_per_read": [0-9]+\.[0-9]\}$' examples=$CARGO_TARGET_DIR/release/examples
  on_crate build --release --examples &&
    cc -O2 -std=c99 -pedantic -Wall -Wextra -Werror bindings/read_cost.c -Iinclude -Llib -lengine_race \
      -Wl,-rpath,"$root/lib" -o "$work/read_cost" &&
    runs "$examples/fill" "$work/filled" 500 &&
    runs "$examples/read_cost" "$work/filled" 2000 && grep -qE "$report" "$work/log" &&
    runs "$work/read_cost" "$work/filled" 2000 && grep -qE "$report" "$work/log"
}

check "the shared library is built" makes_library
check "the crate builds without warnings" on_crate build --all-targets
if [ $failed = 0 ]; then
  runs_tests "the tests" --tests
  runs_tests "the tests of the documentation" --doc
  check "the documentation is made without warnings" on_crate doc --no-deps
  check "another crate finds the library of the checkout" uses_checkout
  check "the programs of docs/rust.md run" runs_guide
  check "another crate finds the library by pkg-config" uses_pkg_config
  check "another crate links the archive" links_archives
  check "a directory without the library is named" says_what_is_missing
  check "the examples measure reads" measures_reads
fi
check_if_there "the sources are formatted" fmt --check
check_if_there "clippy finds nothing" clippy --all-targets -- -D warnings
finish
