#!/bin/bash
# Puts a Linux kernel for QEMU guests, with NVMe and ext4 built in, at build/guest/vmlinuz, and its
# md driver into build/guest/modules. Takes Debian's kernel for clouds out of its package, without
# installing it. Does nothing when they exist. A kernel without the modules is enough.
set -euo pipefail
cd "$(dirname "$0")/.."
kernel=$PWD/build/guest/vmlinuz
[ ! -s "$kernel" ] || [ ! -e "$PWD/build/guest/modules" ] || exit 0
if [ ! -s "$kernel" ] && ! command -v apt-get > /dev/null; then
  echo "guest kernel: this system has no apt-get; put a kernel with NVMe and ext4 built in at $kernel" >&2
  exit 1
fi

download() {
  local package
  package=$(apt-cache depends linux-image-cloud-amd64 2> /dev/null |
    awk '/Depends: linux-image-/ { print $2; exit }')
  [ -n "$package" ] && timeout 60 apt-get download -q -o Acquire::http::Timeout=20 "$package" > download.log 2>&1
}

mkdir -p build/guest
work=$(mktemp -d "$PWD/build/guest/kernel.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
if ! download; then
  [ ! -s "$kernel" ] || exit 0
  # Lists that are missing or that name a kernel which the archive no longer has.
  [ "$(id -u)" != 0 ] || timeout 60 apt-get update -q -o Acquire::http::Timeout=20 > /dev/null 2>&1 < /dev/null || true
  if ! download; then
    echo "guest kernel: the package linux-image-cloud-amd64 cannot be downloaded" >&2
    exit 1
  fi
fi
dpkg-deb --fsys-tarfile ./*.deb |
  tar -x --wildcards './boot/vmlinuz*' '*/drivers/md/md-mod.ko*' '*/drivers/md/raid0.ko*'
# Modules fit only the build of the kernel that they came with.
mkdir modules
mv lib/modules/*/kernel/drivers/md/*.ko modules
mv boot/vmlinuz* "$kernel"
rm -rf "${kernel%/*}/modules"
mv modules "${kernel%/*}/modules"
