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
echo '{"rate": 5, "claims": {"some": 1}}' > "$2"
"""


class Parts(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)
        self.program("compare", COMPARE)
        for name, value in (("BIN", self.dir), ("make_environment", lambda: "no Python here"),
                            ("INTERRUPT", bench_compare.Interrupt())):
            patch = mock.patch.object(bench_compare, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        for number in bench_compare.ENDING_SIGNALS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))

    def program(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def give_python(self):
        """Parts that are said to be in Python are shell scripts too."""
        self.program("env/bin/python", 'exec "$@"')
        for name, value in (("ENVIRONMENT", self.dir / "env"), ("make_environment", lambda: "")):
            patch = mock.patch.object(bench_compare, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_with(self, *parts, most_seconds=100, flags=()):
        """The exit code of a run with these parts: (name, script, whether it is in Python)."""
        made = [bench_compare.Part(name, [self.program(name, text)], [], [f"claim_of_{name}"],
                                   most_seconds, in_python)
                for name, text, in_python in parts]
        with mock.patch.object(bench_compare, "PARTS", made):
            return bench_compare.main(["--dir", str(self.dir / "work"), "--json",
                                       str(self.dir / "all.json"), *flags])

    def figures(self, name):
        return json.loads((self.dir / f"bench-{name}.json").read_text())

    def test_every_part_is_merged(self):
        self.assertEqual(self.run_with(("good", FIGURES, False), ("also", FIGURES, False)), 0)
        self.assertEqual(self.figures("good")["claims"], {"some": 1})
        merged = (self.dir / "all.json").read_text()
        for name in ("good", "also"):
            self.assertIn(f"--merge {self.dir}/bench-{name}.json", merged)

    def test_a_part_that_fails_leaves_its_reason(self):
        self.assertEqual(self.run_with(("bad", "exit 3", False), ("good", FIGURES, False)), 0)
        left = self.figures("bad")
        self.assertEqual(left["claims"], {})
        self.assertIn("code 3", left["not_measured"]["claim_of_bad"])
        self.assertEqual(len(left["errors"]), 1)
        self.assertEqual(self.figures("good")["claims"], {"some": 1})
        self.assertIn("bench-bad.json", (self.dir / "all.json").read_text())

    def test_figures_of_an_earlier_run_do_not_count(self):
        (self.dir / "bench-bad.json").write_text('{"claims": {"claim_of_bad": 1}}')
        self.run_with(("bad", "exit 3", False))
        self.assertEqual(self.figures("bad")["claims"], {})

    def test_a_part_that_fails_after_its_figures_makes_no_claim(self):
        self.run_with(("bad", FIGURES + "exit 3", False))
        left = self.figures("bad")
        self.assertEqual(left["claims"], {})
        self.assertEqual(left["rate"], 5)
        self.assertIn("code 3", left["not_measured"]["claim_of_bad"])
        self.assertIn("code 3", left["errors"][0])

    def test_the_reason_of_a_part_stays(self):
        self.run_with(("bad", FIGURES.replace('"claims": {"some": 1}', '"claims": {}, "errors": ["a"], '
                                              '"not_measured": {"claim_of_bad": "no disk"}')
                       + "exit 2", False))
        left = self.figures("bad")
        self.assertEqual(left["not_measured"], {"claim_of_bad": "no disk"})
        self.assertEqual(left["errors"], ["a", "it ended with code 2"])

    def test_figures_that_are_cut_off_are_none(self):
        self.run_with(("bad", FIGURES.replace("}}", ""), False))
        self.assertEqual(self.figures("bad")["claims"], {})
        self.assertIn("no figures", self.figures("bad")["not_measured"]["claim_of_bad"])

    def test_a_part_that_is_killed_leaves_no_files(self):
        self.give_python()
        killed = 'touch "$2/large"; echo "$2" > "$(dirname "$0")/where"; kill -9 $$'
        self.run_with(("killed", killed, True))
        where = pathlib.Path((self.dir / "where").read_text().strip())
        self.assertEqual(where.parent, self.dir / "work")
        self.assertFalse(where.exists())
        self.assertIn("-9", self.figures("killed")["not_measured"]["claim_of_killed"])

    def test_no_process_of_a_part_outlives_it(self):
        self.run_with(("parent", f"sleep 1000 & echo $! > {self.dir}/child\n{FIGURES}", False))
        self.assertEqual(self.figures("parent")["claims"], {"some": 1})
        child = pathlib.Path("/proc") / (self.dir / "child").read_text().strip() / "stat"
        # The first process of a container may reap no orphans.
        self.assertTrue(not child.exists() or child.read_text().split()[2] in "ZX")

    def test_a_tiny_run_leaves_the_figures_of_others(self):
        (self.dir / "bench-good.json").write_text("of hours")
        self.run_with(("good", FIGURES, False), flags=["--tiny"])
        self.assertEqual((self.dir / "bench-good.json").read_text(), "of hours")
        self.assertEqual(self.figures("good-tiny")["claims"], {"some": 1})
        self.assertEqual(bench_compare.parse(["--tiny"]).json.name, "bench-compare-tiny.json")
        self.assertEqual(bench_compare.parse([]).json.name, "bench-compare.json")

    def test_another_engine_race_is_refused(self):
        with mock.patch.dict(os.environ, PYTHONPATH=str(self.dir / "site")), \
                mock.patch.object(bench_compare, "ENVIRONMENT", self.dir / "env"):
            for where, is_ours in (("elsewhere", False), ("env/lib", True)):
                package = self.dir / where / "engine_race"
                package.mkdir(parents=True)
                (package / "__init__.py").write_text("")
                (self.dir / "site").unlink(missing_ok=True)
                (self.dir / "site").symlink_to(package.parent)
                self.assertEqual(bench_compare.why_not_ours(sys.executable) == "", is_ours, where)

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
        (self.dir / "all.json").write_text("of hours")
        with mock.patch.dict(os.environ, ROOM="2"):
            self.assertEqual(self.run_with(("good", FIGURES, False)), 2)
        self.assertFalse((self.dir / "bench-good.json").exists())
        self.assertEqual((self.dir / "all.json").read_text(), "of hours")

    def test_an_interrupt_ends_the_part_that_runs(self):
        began, cleans, ended = self.dir / "began", self.dir / "cleans", self.dir / "ended"
        self.program("claims", f"trap 'touch {cleans}; sleep 0.5; touch {ended}; exit' TERM\n"
                                    f"touch {began}\nwhile :; do sleep 0.05; done")
        (self.dir / "all.json").write_text("of hours")
        code = ("import pathlib, signal, sys; sys.path.insert(0, 'scripts'); import bench_compare as bench\n"
                "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
                "bench.BIN = pathlib.Path(sys.argv[1]); bench.make_environment = lambda: 'none'\n"
                "bench.PARTS[0].command = [bench.BIN / 'claims', 'c-api']\n"
                "sys.exit(bench.main(sys.argv[2:]))")
        with subprocess.Popen([sys.executable, "-B", "-c", code, self.dir, "--dir",
                               self.dir / "work", "--json", self.dir / "all.json"], cwd=ROOT,
                              stderr=subprocess.DEVNULL) as run:
            for sign, number in ((began, signal.SIGINT), (cleans, signal.SIGTERM)):
                while not sign.exists():
                    self.assertIsNone(run.poll())
                    time.sleep(0.01)
                run.send_signal(number)
            self.assertEqual(run.wait(), 130)
        self.assertTrue(ended.exists())
        self.assertEqual((self.dir / "all.json").read_text(), "of hours")
        self.assertEqual(list((self.dir / "work").iterdir()), [])

    def test_an_interrupted_comparison_leaves_the_earlier_figures(self):
        (self.dir / "all.json").write_text("of hours")
        self.program("compare", COMPARE.replace(
            'echo "$all" > "$2"', 'echo some > "$2"; kill -INT $PPID; sleep 100'))
        with mock.patch.object(signal, "getsignal", lambda _: signal.SIG_DFL):
            self.assertEqual(self.run_with(("good", FIGURES, False)), 130)
        self.assertEqual((self.dir / "all.json").read_text(), "of hours")
        self.assertEqual((self.dir / "unfinished-all.json").read_text(), "some\n")


if __name__ == "__main__":
    unittest.main()
