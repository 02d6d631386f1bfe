#!/usr/bin/env python3
"""scripts/pytest_sum.py: which skipped tests count, and which are left out."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts" / "pytest_sum.py"


def sum_of(cases, *optional, **counts):
    """The lines about a report that has these skipped tests, each with its reason."""
    shown = "".join(f'<testcase classname="tests.test_a" name="{name}"><skipped message="{why}"/>'
                    "</testcase>" for name, why in cases.items())
    numbers = {"tests": 10, "failures": 0, "errors": 0, "skipped": len(cases), **counts}
    words = " ".join(f'{name}="{number}"' for name, number in numbers.items())
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
        report.write(f'<?xml version="1.0"?><testsuites><testsuite {words}>'
                     f'{shown}<testcase classname="tests.test_a" name="well"/>'
                     "</testsuite></testsuites>")
        report.flush()
        return subprocess.run([sys.executable, SCRIPT, report.name, *optional], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.splitlines()


class SumTest(unittest.TestCase):
    def test_nothing_is_skipped(self):
        self.assertEqual(sum_of({}, failures=2, errors=1), ["7 3 0"])

    def test_a_skipped_test_counts_and_says_why(self):
        self.assertEqual(sum_of({"mounts": "no file system can be mounted here"}, "torch"),
                         ["skipped: tests.test_a mounts: no file system can be mounted here",
                          "9 0 1"])

    def test_a_module_that_may_be_missing(self):
        missing = {"one": "could not import 'no_such_a': No module named 'no_such_a'",
                   "two": "could not import 'no_such_b': No module named 'no_such_b'"}
        self.assertEqual(sum_of(missing, "no_such_a", failures=1),
                         [f"left out: tests.test_a one: {missing['one']}",
                          f"skipped: tests.test_a two: {missing['two']}", "7 1 1"])

    def test_a_module_that_is_here(self):
        why = "could not import 'json': it is broken"
        self.assertEqual(sum_of({"one": why}, "json"),
                         [f"skipped: tests.test_a one: {why}", "9 0 1"])


if __name__ == "__main__":
    unittest.main()
