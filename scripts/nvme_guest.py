#!/usr/bin/env python3
"""Boots a QEMU guest with emulated NVMe disks and runs the tests that need such disks.

The tests are of reads by NVMe commands past the block layer and of a store over raw devices, see
harness/guest/nvme_test.h. The figures that it prints are of an emulated machine: they show only
that every back end works.

The last line is "N passed, N failed". Exit code 0 when nothing failed, 1 otherwise,
77 when this machine cannot run guests; then the last line begins with "skipped:".
"""

import glob
import os
import shutil
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from powercut_guest import QEMU, Guest, disk_arguments, make_image, make_initramfs

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GUEST_DIR = os.path.join(ROOT, 'build', 'guest')
RAW_BYTES = 256 << 20
LIFE_SECONDS = 150


def skip(why):
    print(f'skipped: {why}')
    sys.exit(77)


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
    # mkfs lies here, outside the PATH of ordinary users.
    os.environ['PATH'] += ':/usr/sbin:/sbin'
    for program in (QEMU, 'mkfs.ext4'):
        if shutil.which(program) is None:
            skip(f'{program} is missing')
    fetched = subprocess.run([os.path.join(ROOT, 'scripts', 'guest_kernel.sh')],
                             stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             check=False)
    if fetched.returncode != 0:
        skip(fetched.stderr.strip().replace('\n', '; '))
    init = os.path.join(GUEST_DIR, 'init')
    if not os.path.exists(init):
        print(f'{init} was not built\n0 passed, 1 failed')
        sys.exit(1)
    for left in glob.glob(os.path.join(GUEST_DIR, 'nvme_*')):
        if not os.path.exists(f'/proc/{left.rsplit("_", 1)[1]}'):
            shutil.rmtree(left, ignore_errors=True)
    work_dir = os.path.join(GUEST_DIR, f'nvme_{os.getpid()}')
    os.makedirs(work_dir)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        lines = run(work_dir, os.path.join(GUEST_DIR, 'vmlinuz'), init)
    finally:
        shutil.rmtree(work_dir, ignore_errors=True)
    passed, failed = judge(lines)
    print(f'{passed} passed, {failed} failed')
    sys.exit(0 if failed == 0 and passed > 0 else 1)


if __name__ == '__main__':
    main()
