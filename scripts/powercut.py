#!/usr/bin/env python3
"""Cuts the power of QEMU guests that write to a store, and verifies the store after each cut.

A round is one cut and the next boot of the guest (see harness/guest/power_plan.h), which verifies
the store and goes on loading it. There are three kinds of cut:

  reset  the guest resets itself, which loses its page cache
  kill   QEMU is killed, which loses the page cache and interrupts requests of the device
  log    QEMU logs all writes; disks are made from the log as a device may leave them that loses its
         volatile cache at a random moment (powercut_replay.py)

The last line is "N passed, N failed". Exit code 0 when nothing failed, 1 otherwise, 77 when this
machine cannot run guests; then the last line begins with "skipped:". A failure leaves
build/guest/failed_*: the disk before the boot that found it, and the boot's serial lines.
"""

import argparse
import os
import random
import shutil
import sys
import time

sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
from powercut_guest import (FS_BYTES, GUEST_DIR, Guest, check_machine, copy_image, disk_arguments,
                            make_image, make_initramfs, make_work_dir, remove)
from powercut_replay import WriteLog, cut_disk, random_point

KINDS = ('reset', 'kill', 'log')
MODES = ('none', 'group', 'every')
# A new store is made after this many loads: buckets and ledger have no room for many more.
LOADS_PER_STORE = 8
REPLAYS_PER_LOG = 3
BOOT_SECONDS = 120
MAX_FAILURES = 5


class CutFailed(Exception):
    """The verdict of a guest, or that there was none."""


class Trial:
    def __init__(self, config, work_dir, kernel, initramfs):
        self.config = config
        self.rng = random.Random(config.seed)
        self.work_dir = work_dir
        self.kernel, self.initramfs = kernel, initramfs
        self.passed = self.failed = self.round = 0
        self.acknowledged = 0
        self.image = self._path('disk.img')
        self.before = self._path('before.img')
        self.log_path = self._path('writes.log')
        self.template = self._path('template.img')
        make_image(self.template)
        self.guest = None
        self.store_seed = 0
        self.load_count = LOADS_PER_STORE
        # The cut that no boot has verified yet, or None.
        self.cut = None

    def _path(self, name):
        return os.path.join(self.work_dir, name)

    # One boot.

    def _boot(self, arguments, write_log=None):
        arguments = dict(arguments, seed=self.store_seed, ledger=FS_BYTES)
        disk = disk_arguments(self.image, 'powercut', write_log)
        self.guest = Guest(self.kernel, self.initramfs, disk, arguments)
        return self.guest

    def _load_arguments(self):
        rng = self.rng
        # All combinations of cut and mode, one after the other.
        modes = self.config.modes
        mode = modes[(self.round + self.round // len(self.config.kinds)) % len(modes)]
        arguments = {'load': 1, 'mode': mode, 'writeback': rng.choice([0, 5, 50])}
        if mode == 'none':
            # Without a Sync, cuts lose whole groups of entries that were written to their log.
            arguments |= {'sync_ms': rng.choice([0, 3, 20, 200]), 'operations': 2000,
                          'pace_us': rng.choice([0, 300, 1000])}
        else:
            arguments |= {'sync_ms': rng.choice([0, 0, 20]), 'operations': 1200,
                          'pace_us': rng.choice([0, 0, 500])}
        return arguments

    def _note_verdict(self, line):
        """Counts the cut that this boot has verified."""
        if self.cut is not None:
            self.passed += 1
            self.acknowledged += int(line.split('acknowledged ')[1].split(',')[0])
            print(f'{self.passed + self.failed}: {self.cut}: {line}', flush=True)
        self.cut = None

    def _await_verdict(self):
        """Waits for the verification, in a boot that does nothing else."""
        line = self.guest.wait_for(['POWERCUT'], BOOT_SECONDS)
        self._check(line)
        self.guest.wait_exit(10)
        self._note_verdict(line)

    def _check(self, line):
        """Raises unless `line` says that the verification passed."""
        if line is None:
            raise CutFailed('the guest ' + ('ended without a verdict' if self.guest.silent
                                            else 'hung'))
        if not line.startswith('POWERCUT OK'):
            raise CutFailed(line)

    def _check_after_cut(self):
        """Checks a boot that was cut: it may have passed its verification, but not failed it."""
        for line in self.guest.lines:
            if line.startswith('POWERCUT OK'):
                self._note_verdict(line)
            elif line.startswith('POWERCUT') or 'Kernel panic' in line:
                raise CutFailed(line)

    # The cuts.

    def _random_delay(self):
        return self.rng.random() ** 2 * self.config.max_load_ms / 1000

    def _cut_reset(self, early):
        delay_ms = round(self._random_delay() * 1000)
        guest = self._boot(dict(self._load_arguments(), reset_ms=delay_ms,
                                reset_from='mount' if early else 'load'))
        ended = guest.wait_exit(BOOT_SECONDS)
        self._check_after_cut()
        if not ended:
            raise CutFailed('the guest hung')
        self.cut = f'reset after {delay_ms} ms' + (' of recovery' if early else '')

    def _run_until_cut(self, early, write_log=None):
        guest = self._boot(self._load_arguments(), write_log)
        # A failed verification prints its verdict instead of the awaited line.
        line = guest.wait_for(['MOUNTED' if early else 'LOADING', 'POWERCUT V', 'POWERCUT B'],
                              BOOT_SECONDS)
        if line is None or line.startswith('POWERCUT'):
            self._check(line)
        delay = self._random_delay()
        time.sleep(delay)
        return delay

    def _cut_kill(self, early):
        delay = self._run_until_cut(early)
        self.guest.kill()
        self._check_after_cut()
        self.cut = f'kill after {round(delay * 1000)} ms' + (' of recovery' if early else '')

    def _cut_log(self, early):
        self._run_until_cut(early, self.log_path)
        self.guest.stop_at_once()
        self._check_after_cut()
        log = WriteLog(self.log_path)
        base = self._path('base.img')
        os.replace(self.before, base)
        for replay in range(self.config.replays):
            if replay > 0:
                # Only the last of the disks is used for the next load.
                copy_image(self.image, self.before)
                self._boot({'load': 0})
                self._await_verdict()
            copy_image(base, self.image)
            point = random_point(log, FS_BYTES, self.rng)
            outcome = cut_disk(log, self.image, FS_BYTES, point, self.rng)
            self.cut = f'log of {len(log.entries)}: {outcome}'
        remove(base)

    def _new_store(self):
        copy_image(self.template, self.image)
        self.store_seed = self.rng.getrandbits(63)
        self.load_count = 0
        self.cut = None

    def _round(self, kind):
        if self.load_count == LOADS_PER_STORE:
            if self.cut is not None:
                copy_image(self.image, self.before)
                self._boot({'load': 0})
                self._await_verdict()
            self._new_store()
        self.load_count += 1
        copy_image(self.image, self.before)
        early = self.cut is not None and self.rng.random() < 0.2
        {'reset': self._cut_reset, 'kill': self._cut_kill, 'log': self._cut_log}[kind](early)

    def _keep_evidence(self, error):
        kept = os.path.join(GUEST_DIR, f'failed_{os.getpid()}_{self.failed}')
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(kept)
        if os.path.exists(self.before):
            os.replace(self.before, os.path.join(kept, 'before.img'))
        lines = self.guest.lines if self.guest else []
        with open(os.path.join(kept, 'serial.txt'), 'w', encoding='utf-8') as out:
            out.write('\n'.join([f'store seed {self.store_seed}', f'cut: {self.cut}', str(error)]
                                + lines) + '\n')
        print(f'FAILED {self.cut}: {error} (store seed {self.store_seed}; {kept})')
        print('\n'.join('    ' + line for line in lines[-10:]), flush=True)

    def run(self):
        kinds = self.config.kinds
        while self.passed + self.failed < self.config.rounds and self.failed < MAX_FAILURES:
            try:
                self._round(kinds[self.round % len(kinds)])
            except CutFailed as error:
                # The last serial lines of the guest.
                self.guest.wait_exit(5)
                self.failed += 1
                self._keep_evidence(error)
                self.cut = None
                self.load_count = LOADS_PER_STORE
            self.round += 1

    def close(self):
        if self.guest and self.guest.running():
            self.guest.kill()


def names(allowed):
    def parse(text):
        chosen = text.split(',')
        if not set(chosen) <= set(allowed):
            raise argparse.ArgumentTypeError(f'choose from {",".join(allowed)}')
        return chosen
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description='Cuts the power of guests that write to a store.')
    parser.add_argument('--rounds', type=int, default=30, help='cuts to verify (%(default)s)')
    parser.add_argument('--seed', type=int, default=None, help='of all draws; random by default')
    parser.add_argument('--kinds', type=names(KINDS), default=KINDS, help='reset,kill,log')
    parser.add_argument('--modes', type=names(MODES), default=MODES, help='none,group,every')
    parser.add_argument('--replays', type=int, default=REPLAYS_PER_LOG,
                        help='disks that are put together from one log (%(default)s)')
    parser.add_argument('--max-load-ms', type=int, default=2500,
                        help='the power goes so late, at the most (%(default)s)')
    config = parser.parse_args()
    if config.seed is None:
        config.seed = random.SystemRandom().getrandbits(32)
    return config


def main():
    config = parse_arguments()
    check_machine()
    work_dir = make_work_dir('run')
    print(f'seed {config.seed}', flush=True)
    began = time.monotonic()
    trial = None
    try:
        initramfs = os.path.join(work_dir, 'initramfs.gz')
        make_initramfs(os.path.join(GUEST_DIR, 'init'), initramfs)
        trial = Trial(config, work_dir, os.path.join(GUEST_DIR, 'vmlinuz'), initramfs)
        trial.run()
    finally:
        if trial:
            trial.close()
        shutil.rmtree(work_dir, ignore_errors=True)
    print(f'{trial.acknowledged} durable operations checked, '
          f'{time.monotonic() - began:.0f} s')
    if trial.failed == 0 and trial.acknowledged == 0:
        print('FAILED nothing was ever acknowledged as durable')
        trial.failed = 1
    print(f'{trial.passed} passed, {trial.failed} failed')
    sys.exit(0 if trial.failed == 0 and trial.passed > 0 else 1)


if __name__ == '__main__':
    main()
