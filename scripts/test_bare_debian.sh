#!/bin/bash
# Runs the wheel in a Debian that has Python and cffi, and neither a compiler nor a header. The last
# line is "N passed, N failed", or "skipped: " and the reason.
#
# MIRROR and SUITE say which Debian; by default the one that this machine installs from.
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/cases.sh
PATH=$PATH:/usr/sbin:/sbin
# debootstrap does not find python3-ply, which provides what python3-pycparser depends on.
packages=python3,python3-ply,python3-cffi,python3-pip

skip() { echo "skipped: $*"; exit 0; }
[ "$(id -u)" = 0 ] || skip "making a Debian takes root"
command -v debootstrap > /dev/null || skip "debootstrap is missing; scripts/setup.sh python brings it"
suite=${SUITE:-$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)}
mirror=${MIRROR:-$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $suite" |
                   head -n 1)}
[ -n "$mirror" ] || skip "apt knows no mirror of $suite; MIRROR= names one"

mkdir -p build
bare=$(mktemp -d "$PWD/build/bare.XXXXXX")
wheels=$(mktemp -d)
trap 'rm -rf --one-file-system "$bare" "$wheels"' EXIT
if ! debootstrap --variant=minbase --include=$packages "$suite" "$bare" "$mirror" \
    > "$wheels/log" 2>&1; then
  tail -n 5 "$wheels/log"
  skip "debootstrap cannot make $suite here"
fi

in_bare() { chroot "$bare" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root "$@"; }

has_no_compiler() {
  ! in_bare sh -c 'command -v gcc || command -v g++ || command -v cc' &&
    ! in_bare dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | grep -E '^ii .*-dev$'
}

# The wheel's library needs nothing but the C library.
fits_other_systems() { compgen -G "$wheels/*-py3-none-manylinux_2_*_x86_64.whl" > /dev/null; }

installs() {
  local wheel
  wheel=$(ls "$wheels"/engine_race-*.whl) && cp "$wheel" "$bare/root/" &&
    in_bare python3 -m pip install --quiet --root-user-action=ignore --no-index --no-deps --break-system-packages \
      "/root/$(basename "$wheel")"
}

stores_and_reads() {
  in_bare python3 - << 'PROGRAM'
import engine_race

with engine_race.open("/root/store", memory_budget_bytes="64m", bucket_count=16,
                      file_count=4) as store:
    for number in range(1000):
        store[number] = number.to_bytes(8, "big") * 512
with engine_race.open("/root/store", memory_budget_bytes="64m") as store:
    for number, (key, value) in enumerate(store.scan()):
        assert (key, value) == (number, number.to_bytes(8, "big") * 512)
    assert number == 999
PROGRAM
}

check "the wheel is made" scripts/package/make_wheel.sh "$wheels"
check "the wheel fits other systems" fits_other_systems
check "the Debian has no compiler and no headers" has_no_compiler
check "pip takes the wheel" installs
check "records are stored and read" stores_and_reads
finish
