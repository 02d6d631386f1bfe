#!/usr/bin/env python3
"""Tests of scripts/bench_compare.py with shell scripts in the place of its programs."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock as mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.dont_write_bytecode = True

import bench_compare  # noqa: E402

# Leaves its arguments in the file that follows --json, as bin/compare leaves its figures.
COMPARE = """
case "$*" in *--check_only*) exit "${ROOM:-0}" ;; esac
all=$*
while [ "$1" != --json ]; do shift; done
echo "$all" > "$2"
"""
FIGURES = """
while [ "$1" != --json ]; do shift; done
echo '{"claims": {"some": 1}}' > "$2"
"""


class Parts(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)
        self.program("compare", COMPARE)
        for name, value in (("BIN", self.dir), ("make_environment", lambda: "no Python here")):
            patch = mock.patch.object(bench_compare, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def program(self, name, text):
        path = self.dir / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def run_with(self, *parts, most_seconds=100):
        """The exit code of a run with these parts: (name, script, whether it is in Python)."""
        made = [bench_compare.Part(name, [self.program(name, text)], [], [f"claim_of_{name}"],
                                   most_seconds, in_python)
                for name, text, in_python in parts]
        with mock.patch.object(bench_compare, "PARTS", made):
            return bench_compare.main(["--dir", str(self.dir / "work"), "--json",
                                       str(self.dir / "all.json")])

    def figures(self, name):
        return json.loads((self.dir / f"bench-{name}.json").read_text())

    def test_every_part_is_merged(self):
        self.assertEqual(self.run_with(("good", FIGURES, False), ("also", FIGURES, False)), 0)
        self.assertEqual(self.figures("good"), {"claims": {"some": 1}})
        merged = (self.dir / "all.json").read_text()
        for name in ("good", "also"):
            self.assertIn(f"--merge {self.dir}/bench-{name}.json", merged)

    def test_a_part_that_fails_leaves_its_reason(self):
        self.assertEqual(self.run_with(("bad", "exit 3", False), ("good", FIGURES, False)), 0)
        left = self.figures("bad")
        self.assertEqual(left["claims"], {})
        self.assertIn("code 3", left["not_measured"]["claim_of_bad"])
        self.assertEqual(len(left["errors"]), 1)
        self.assertEqual(self.figures("good"), {"claims": {"some": 1}})
        self.assertIn("bench-bad.json", (self.dir / "all.json").read_text())

    def test_figures_of_an_earlier_run_do_not_count(self):
        (self.dir / "bench-bad.json").write_text('{"claims": {"claim_of_bad": 1}}')
        self.run_with(("bad", "exit 3", False))
        self.assertEqual(self.figures("bad")["claims"], {})

    def test_without_python_its_parts_say_so(self):
        self.run_with(("snake", FIGURES, True))
        self.assertEqual(self.figures("snake")["not_measured"], {"claim_of_snake": "no Python here"})

    def test_a_part_that_takes_too_long_is_told_to_end(self):
        ended = self.dir / "ended"
        self.run_with(("slow", f"trap 'touch {ended}; exit' TERM\nwhile :; do sleep 0.05; done",
                       False), most_seconds=1)
        self.assertIn("1 s", self.figures("slow")["not_measured"]["claim_of_slow"])
        self.assertTrue(ended.exists())

    def test_without_room_nothing_runs(self):
        with mock.patch.dict(os.environ, ROOM="2"):
            self.assertEqual(self.run_with(("good", FIGURES, False)), 2)
        self.assertFalse((self.dir / "bench-good.json").exists())

    def test_an_interrupt_ends_the_part_that_runs(self):
        began, ended = self.dir / "began", self.dir / "ended"
        self.program("bench_c_api", f"trap 'touch {ended}; exit' TERM\ntouch {began}\n"
                                    "while :; do sleep 0.05; done")
        code = ("import pathlib, sys; sys.path.insert(0, 'scripts'); import bench_compare as bench\n"
                "bench.BIN = pathlib.Path(sys.argv[1]); bench.make_environment = lambda: 'none'\n"
                "bench.PARTS[0].command = [bench.BIN / 'bench_c_api']\n"
                "sys.exit(bench.main(sys.argv[2:]))")
        with subprocess.Popen([sys.executable, "-B", "-c", code, self.dir, "--dir",
                               self.dir / "work", "--json", self.dir / "all.json"], cwd=ROOT,
                              stderr=subprocess.DEVNULL) as run:
            while not began.exists():
                self.assertIsNone(run.poll())
                time.sleep(0.01)
            run.terminate()
            self.assertEqual(run.wait(), 130)
        self.assertTrue(ended.exists())
        self.assertFalse((self.dir / "all.json").exists())


if __name__ == "__main__":
    unittest.main()
