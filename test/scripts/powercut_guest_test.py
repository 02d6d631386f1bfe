#!/usr/bin/env python3
"""Tests the limits of time of scripts/powercut_guest.py with a process that is no guest."""

import os
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'scripts'))
# pylint: disable=wrong-import-position
import powercut_guest


class FakeGuest(powercut_guest.Guest):
    """A process whose time is over at the look after `patient_looks` ones at its waits for a CPU."""

    def __init__(self, patient_looks=1, command=('sleep', '1000')):  # pylint: disable=W0231
        self.lines, self.silent = [], False
        self._changed = threading.Condition()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.looks, self.patient_looks = 0, patient_looks

    def _kept_waiting_seconds(self):
        self.looks += 1
        return 0 if self.looks <= self.patient_looks else -3600

    def close(self):
        self.kill()
        self._process.stdout.close()


class Limits(unittest.TestCase):
    def guest(self, **arguments):
        guest = FakeGuest(**arguments)
        self.addCleanup(guest.close)
        return guest

    def test_a_line_is_found(self):
        guest = self.guest(command=('echo', 'DONE well'), patient_looks=1000)
        self.assertEqual(guest.wait_for(['DONE'], 1000), 'DONE well')

    def test_a_silent_guest_is_given_up(self):
        guest = self.guest()
        self.assertIsNone(guest.wait_for(['DONE'], 10))

    def test_a_guest_that_hangs_is_killed(self):
        self.assertFalse(self.guest().wait_exit(10))

    def test_the_end_of_a_guest_is_seen(self):
        self.assertTrue(self.guest(command=('true',), patient_looks=1000).wait_exit(1000))

    def test_time_without_a_cpu_does_not_count(self):
        guest = self.guest()
        kept = iter([5, 5, 105, 205])
        guest._kept_waiting_seconds = lambda: next(kept)  # pylint: disable=W0212
        left = guest._countdown(10)  # pylint: disable=W0212
        self.assertAlmostEqual(left(), 10, delta=9)
        self.assertGreater(left(), 100)
        self.assertGreater(left(), 200)

    def test_waits_are_read_of_processes_that_run_and_that_are_gone(self):
        guest = self.guest()
        kept = powercut_guest.Guest._kept_waiting_seconds  # pylint: disable=W0212
        self.assertGreaterEqual(kept(guest), 0)
        guest.kill()
        self.assertEqual(kept(guest), 0)


if __name__ == '__main__':
    unittest.main()
