#!/usr/bin/env python3
"""Puts faults into the engine, one at a time, and shows that some test fails for each.

    scripts/mutants.py [--json FILE] [--check] [NAME...]
    scripts/mutants.py --random N [--seed S] [--room ROOM...] [--own-tests] [--json FILE]

Without --random the faults are known ones. The first lines of each test/mutants/NAME.patch say
what it breaks and which tests must find it ("Filter: ", a googletest filter).

--random draws N small changes of the engine's sources (scripts/random_mutants.py says which). All
tests of the source's own room judge each; where they pass, the end-to-end tests, those of faults
and those of power losses follow, as CI runs them. --own-tests leaves these out, --room draws from
the sources of these rooms alone (`door` is engine_race/*.cc). A seed gives the same changes each
time; without --seed it is random, and is printed. test/mutants/equivalents.txt has changes that
no test can notice.

The script copies the tree with its build/checked. So for each fault it compiles only the changed
sources and links only the programs whose tests must find it. --check only checks that the patches
apply and that the equivalents are still changes of their sources. The last line is "N of N mutants
caught". The exit code is 0 when all known faults were caught, or nine in ten random ones.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import random_mutants

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATCHES = ROOT / "test" / "mutants"
BUILD = pathlib.Path("build/checked")
TEST_TIMEOUT_S = 900
# What judges a random mutant after its own room's tests, the programs in this order.
CI_JUDGES = ("e2e", "faults", "power")
LEAST_CAUGHT = 0.9
# Headers that more objects include would take too long to compile for one mutant.
MAX_RECOMPILED_COUNT = 12


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
    for source, before, after in random_mutants.stale_equivalents():
        print(f"{random_mutants.EQUIVALENTS.name}: {source} has no change any more from\n"
              f"  {before}\nto\n  {after}")
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
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)
    (target / "build").mkdir()
    subprocess.run(["cp", "-a", "--reflink=auto", str(ROOT / BUILD), str(target / BUILD)],
                   check=True)


def build(tree, *targets):
    # Without -Werror: what a fault leaves unused is no reason not to build it.
    env = {name: value for name, value in os.environ.items() if name != "WERROR"}
    return subprocess.run(
        ["make", "-j", str(os.cpu_count()), "FLAVOUR=checked", *targets],
        cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


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


def run_tests(tree, rooms, test_filter, timeouts_s=None):
    """How the tests of these rooms failed, None when they passed."""
    for room in rooms:
        limit_s = TEST_TIMEOUT_S if timeouts_s is None else timeouts_s[room]
        failure = run_room(tree, room, test_filter, limit_s)
        if failure is not None:
            return failure
    return None


def run_room(tree, room, test_filter, limit_s):
    # A test that died or hung leaves its stores behind.
    with tempfile.TemporaryDirectory(prefix="tests.", dir=tree.parent) as stores:
        env = dict(os.environ, ENGINE_BIN_DIR=str(tree / BUILD / "bin"), TMPDIR=stores)
        command = [str(tree / BUILD / "tests" / room), f"--gtest_filter={test_filter}",
                   "--gtest_break_on_failure=0", "--gtest_fail_fast"]
        with subprocess.Popen(command, cwd=tree, env=env, stdout=subprocess.PIPE, text=True,
                              errors="replace", stderr=subprocess.STDOUT,
                              start_new_session=True) as run:
            try:
                output, _ = run.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
                run.communicate()
                return f"{room} hung"
    failed = re.findall(r"^\[  FAILED  \] (\S+)", output, re.MULTILINE)
    if failed:
        return failed[0].rstrip(",")
    if run.returncode != 0:
        return f"{room} died with {run.returncode}"
    return None


def sources_of(tree, rooms):
    """The sources to draw from: all of these rooms, and headers that few objects include."""
    included_count = {}
    for folder in ("engine_race", "harness", "test", "unity"):
        for path in (tree / BUILD / folder).rglob("*.d"):
            for header in set(re.findall(r"\bengine_race/\S+?\.h\b", path.read_text())):
                included_count[header] = included_count.get(header, 0) + 1
    sources = []
    for path in sorted((tree / "engine_race").rglob("*")):
        name = str(path.relative_to(tree))
        if room_of(name) not in rooms:
            continue
        if path.suffix == ".cc" or (
                path.suffix == ".h" and
                0 < included_count.get(name, 0) <= MAX_RECOMPILED_COUNT):
            sources.append(name)
    return sources


def room_of(source):
    parts = pathlib.PurePath(source).parts
    return parts[1] if len(parts) == 3 else "door"


def judges_of(room, own_tests_only):
    """The test programs that judge a room's mutants; the door's own tests are the end-to-end ones."""
    own = "e2e" if room == "door" else room
    return [own] + [each for each in CI_JUDGES if each != own and not own_tests_only]


def time_unbroken(tree, judges):
    """Runs each program without a fault: it must pass. Returns limits of time for broken ones."""
    timeouts_s = {}
    for judge in judges:
        began = time.monotonic()
        failure = run_tests(tree, [judge], "*")
        if failure is not None:
            sys.exit(f"the unbroken tree fails {failure}")
        timeouts_s[judge] = 60 + 10 * (time.monotonic() - began)
    return timeouts_s


def try_random(tree, flags):
    seed = random.randrange(1 << 32) if flags.seed is None else flags.seed
    print(f"seed {seed}", flush=True)
    known = sorted({path.name for path in (ROOT / "engine_race").iterdir() if path.is_dir()})
    rooms = flags.room or known + ["door"]
    for room in rooms:
        if room not in known + ["door"]:
            sys.exit(f"there is no room {room}")
    judges = sorted({judge for room in rooms for judge in judges_of(room, flags.own_tests)})
    if build_rooms(tree, judges).returncode != 0:
        sys.exit("the unbroken tree does not build")
    timeouts_s = time_unbroken(tree, judges)
    results = []
    changes = random_mutants.draw(sources_of(tree, rooms), seed,
                                  random_mutants.read_equivalents(), tree)
    for change in changes:
        if len(results) == flags.random:
            break
        began = time.monotonic()
        change.apply(tree)
        found_by = None
        is_built = True
        for judge in judges_of(room_of(change.path), flags.own_tests):
            is_built = build_rooms(tree, [judge]).returncode == 0
            found_by = run_tests(tree, [judge], "*", timeouts_s) if is_built else None
            if found_by is not None or not is_built:
                break
        change.undo(tree)
        if not is_built:
            print(f"not built  {change}", flush=True)
            continue
        results.append({"name": f"{change.path}:{change.line}", "fault": str(change),
                        "caught_by": found_by})
        print(f"{'caught' if found_by else 'SURVIVED'}  {change}: "
              f"{found_by or 'no test failed'} ({time.monotonic() - began:.0f} s)", flush=True)
    print("survivors:")
    for result in results:
        if result["caught_by"] is None:
            print(f"  {result['fault']}")
    return results


def try_known(tree, paths):
    # Without the fault the tests must pass: otherwise a failure would prove nothing.
    if build(tree, "tests").returncode != 0:
        sys.exit("the unbroken tree does not build")
    filters = sorted({headline(path)[1] for path in paths})
    rooms = {test_filter: rooms_of(tree, test_filter) for test_filter in filters}
    for test_filter in filters:
        failure = run_tests(tree, rooms[test_filter], test_filter)
        if failure is not None:
            sys.exit(f"the unbroken tree fails {failure} of {test_filter}")
    results = []
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
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--random", type=int, metavar="N")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--room", action="append")
    parser.add_argument("--own-tests", action="store_true")
    parser.add_argument("names", nargs="*")
    flags = parser.parse_args()
    if flags.random is not None and (flags.random <= 0 or flags.names or flags.check):
        parser.error("--random takes a number above 0 and no names")
    if flags.random is None and (flags.seed is not None or flags.room or flags.own_tests):
        parser.error("--seed, --room and --own-tests are for --random")
    paths = sorted(PATCHES.glob("*.patch"))
    if flags.names:
        paths = [PATCHES / f"{name}.patch" for name in flags.names]
    if flags.check:
        return 0 if check(paths) else 1

    with tempfile.TemporaryDirectory(prefix="engine_race_mutants.") as scratch:
        tree = pathlib.Path(scratch) / "tree"
        tree.mkdir()
        copy_tree(tree)
        results = try_known(tree, paths) if flags.random is None else try_random(tree, flags)
    caught = sum(result["caught_by"] is not None for result in results)
    if flags.json:
        pathlib.Path(flags.json).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(flags.json).write_text(json.dumps(
            {"mutant_count": len(results), "caught_count": caught, "mutants": results}, indent=2))
    print(f"{caught} of {len(results)} mutants caught")
    least = 1 if flags.random is None else LEAST_CAUGHT
    return 0 if results and caught >= least * len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
