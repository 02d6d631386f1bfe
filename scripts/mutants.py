#!/usr/bin/env python3
"""Puts known faults back into the engine, one at a time, and shows that some test fails for each.

    scripts/mutants.py [--json FILE] [--check] [NAME...]

The first lines of each test/mutants/NAME.patch say what it breaks and which tests must find it
("Filter: ", a googletest filter). The script copies the tree with its build/checked. So for each
fault it compiles only the patched sources and links only the rooms whose tests must find it.
--check only checks that the patches apply. The last line is "N of N mutants caught"; exit code 0
when all were.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATCHES = ROOT / "test" / "mutants"
BUILD = pathlib.Path("build/checked")
TEST_TIMEOUT_S = 900


def patch(tree, path, *flags):
    return subprocess.run(
        ["git", "apply", "-p1", *flags, str(path)],
        cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def headline(path):
    """The description of the fault, and the filter of the tests that must find it."""
    head = path.read_text().split("\n--- ", 1)[0].strip().split("\n")
    filters = [line[len("Filter: "):] for line in head if line.startswith("Filter: ")]
    if len(filters) != 1:
        sys.exit(f"{path.name}: one line 'Filter: ' is needed")
    return " ".join(line for line in head if not line.startswith("Filter: ")).strip(), filters[0]


def check(paths):
    bad = 0
    for path in paths:
        headline(path)
        tried = patch(ROOT, path, "--check")
        if tried.returncode != 0:
            print(f"{path.name} does not apply any more:\n{tried.stdout}")
            bad += 1
    return bad == 0


def copy_tree(target):
    """Copies the sources, and the objects so that make finds them up to date."""
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split("\n")
    for name in filter(None, names):
        if not (ROOT / name).exists():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name)
    (target / "build").mkdir()
    subprocess.run(["cp", "-a", "--reflink=auto", str(ROOT / BUILD), str(target / BUILD)],
                   check=True)


def build(tree, *targets):
    return subprocess.run(
        ["make", "-j", str(os.cpu_count()), "FLAVOUR=checked", *targets],
        cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def build_rooms(tree, rooms):
    """The test programs of these rooms, and the programs that they run."""
    return build(tree, *(f"{BUILD}/tests/{room}" for room in rooms), f"{BUILD}/bin/crash")


def rooms_of(tree, test_filter):
    """The rooms that have a test which the filter selects."""
    rooms = []
    for program in sorted((tree / BUILD / "tests").iterdir()):
        if program.suffix or program.is_dir() or not os.access(program, os.X_OK):
            continue
        listed = subprocess.run([str(program), "--gtest_list_tests",
                                 f"--gtest_filter={test_filter}"],
                                cwd=tree, stdout=subprocess.PIPE, text=True, check=True)
        if re.search(r"^  ", listed.stdout, re.MULTILINE):
            rooms.append(program.name)
    if not rooms:
        sys.exit(f"no test matches {test_filter}")
    return rooms


def run_tests(tree, rooms, test_filter):
    """How the tests of these rooms failed, None when they passed."""
    for room in rooms:
        failure = run_room(tree, room, test_filter)
        if failure is not None:
            return failure
    return None


def run_room(tree, room, test_filter):
    env = dict(os.environ, ENGINE_BIN_DIR=str(tree / BUILD / "bin"))
    command = [str(tree / BUILD / "tests" / room), f"--gtest_filter={test_filter}",
               "--gtest_break_on_failure=0", "--gtest_fail_fast"]
    try:
        run = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE, errors="replace",
                             stderr=subprocess.STDOUT, text=True, timeout=TEST_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "hung"
    failed = re.findall(r"^\[  FAILED  \] (\S+)", run.stdout, re.MULTILINE)
    if failed:
        return failed[0]
    if run.returncode != 0:
        return f"died with {run.returncode}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    flags = parser.parse_args()
    paths = sorted(PATCHES.glob("*.patch"))
    if flags.names:
        paths = [PATCHES / f"{name}.patch" for name in flags.names]
    if flags.check:
        return 0 if check(paths) else 1

    results = []
    with tempfile.TemporaryDirectory(prefix="engine_race_mutants.") as scratch:
        tree = pathlib.Path(scratch) / "tree"
        tree.mkdir()
        copy_tree(tree)
        # Without the fault the tests must pass: otherwise a failure would prove nothing.
        if build(tree, "tests").returncode != 0:
            sys.exit("the unbroken tree does not build")
        filters = sorted({headline(path)[1] for path in paths})
        rooms = {test_filter: rooms_of(tree, test_filter) for test_filter in filters}
        for test_filter in filters:
            failure = run_tests(tree, rooms[test_filter], test_filter)
            if failure is not None:
                sys.exit(f"the unbroken tree fails {failure} of {test_filter}")
        for path in paths:
            began = time.monotonic()
            what, test_filter = headline(path)
            applied = patch(tree, path)
            if applied.returncode != 0:
                sys.exit(f"{path.name} does not apply:\n{applied.stdout}")
            built = build_rooms(tree, rooms[test_filter])
            if built.returncode != 0:
                sys.exit(f"{path.name} does not build:\n{built.stdout[-3000:]}")
            found_by = run_tests(tree, rooms[test_filter], test_filter)
            patch(tree, path, "-R")
            results.append({"name": path.stem, "fault": what, "caught_by": found_by})
            print(f"{'caught' if found_by else 'MISSED'}  {path.stem}: "
                  f"{found_by or 'no test failed'} ({time.monotonic() - began:.0f} s)", flush=True)
    caught = sum(result["caught_by"] is not None for result in results)
    if flags.json:
        pathlib.Path(flags.json).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(flags.json).write_text(json.dumps(
            {"mutant_count": len(results), "caught_count": caught, "mutants": results}, indent=2))
    print(f"{caught} of {len(results)} mutants caught")
    return 0 if results and caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
