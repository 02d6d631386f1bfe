#!/usr/bin/env python3
"""Boots a QEMU guest with emulated NVMe disks and runs the tests that need such disks.

The tests are of reads by NVMe commands past the block layer and of a store over raw devices, see
harness/guest/system.h. The figures that it prints are of an emulated machine: they show only
that every back end works.

The last line is "N passed, N failed". Exit code 0 when nothing failed, 1 otherwise,
77 when this machine cannot run guests; then the last line begins with "skipped:".
"""

import os
import shutil
import sys

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from powercut_guest import (GUEST_DIR, Guest, check_machine, disk_arguments, make_image,
                            make_initramfs, make_work_dir)

RAW_BYTES = 256 << 20
LIFE_SECONDS = 150


def make_disks(work_dir):
    """QEMU's arguments for the disks that the guest expects."""
    files = os.path.join(work_dir, 'files.img')
    make_image(files)
    disks = disk_arguments(files, 'files')
    for name in ('first', 'second'):
        path = os.path.join(work_dir, f'{name}.img')
        with open(path, 'wb') as image:
            image.truncate(RAW_BYTES)
        disks += disk_arguments(path, name)
    return disks


def run(work_dir, kernel, init):
    """The guest's lines."""
    initramfs = os.path.join(work_dir, 'initramfs.gz')
    # Each module may need those before it.
    modules = [os.path.join(GUEST_DIR, 'modules', name) for name in ('md-mod.ko', 'raid0.ko')]
    make_initramfs(init, initramfs, [module for module in modules if os.path.exists(module)])
    guest = Guest(kernel, initramfs, make_disks(work_dir), {'test': 'nvme'})
    try:
        guest.wait_for(['DONE'], LIFE_SECONDS)
        guest.wait_exit(10)
    finally:
        if guest.running():
            guest.kill()
    return guest.lines


def judge(lines):
    """Prints the lines of the guest and returns the numbers of passed and failed checks."""
    counts = {'PASS': 0, 'FAIL': 0}
    for line in lines:
        word = line.split(' ')[0]
        if word in counts:
            counts[word] += 1
        if word in counts or word == 'INFO':
            print(line)
    if 'DONE' not in lines:
        counts['FAIL'] += 1
        print('FAIL the guest did not come to its end; its last lines:')
        print('\n'.join('    ' + line for line in lines[-20:]))
    return counts['PASS'], counts['FAIL']


def main():
    check_machine()
    work_dir = make_work_dir('nvme')
    try:
        lines = run(work_dir, os.path.join(GUEST_DIR, 'vmlinuz'), os.path.join(GUEST_DIR, 'init'))
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)
    passed, failed = judge(lines)
    print(f'{passed} passed, {failed} failed')
    sys.exit(0 if failed == 0 and passed > 0 else 1)


if __name__ == '__main__':
    main()
