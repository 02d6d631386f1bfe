#!/usr/bin/env python3
"""Puts known faults back into cluster/, one at a time, and shows that a check finds each.

    scripts/cluster_mutants.py [--json FILE] [--check] [NAME...]

The first lines of each cluster/check/mutants/NAME.patch say what it breaks and what must find it:
either "Check: ", the flags of bin/cluster-check, or "Test: ", a package of cluster/ and a pattern
of its tests. The script copies the tree and builds each fault there. It builds cluster-check from
the tree without a fault. Before the faults, every check must pass without one. --check only checks
that the patches apply. The last line is "N of N mutants caught"; exit code 0 when all were. Faults
of power and networks need root.
"""

import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PATCHES = ROOT / "cluster" / "check" / "mutants"
CHECK_TIMEOUT_S = 600
TEST_TIMEOUT = "2m"


def patch(tree, path, *flags):
    return subprocess.run(
        ["git", "apply", "-p1", *flags, str(path)],
        cwd=tree, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


class Mutant:
    def __init__(self, path):
        self.path, self.name = path, path.stem
        head = path.read_text().split("\n--- ", 1)[0].strip().split("\n")
        fields = {}
        for line in head:
            name, _, value = line.partition(": ")
            if name in ("Check", "Test"):
                fields[name] = value
        self.check, self.test = fields.get("Check"), fields.get("Test")
        if (self.check is None) == (self.test is None):
            sys.exit(f"{path.name}: either one line 'Check: ' or one line 'Test: ' is needed")
        self.fault = " ".join(line for line in head
                              if line.partition(": ")[0] not in fields).strip()


def go(tree, *arguments):
    """Runs go in cluster/ of the tree, with the settings that the project's own builds have."""
    script = '. scripts/go_env.sh && use_go && cd cluster && exec go "$@"'
    return subprocess.run(["bash", "-c", script, "go", *arguments], cwd=tree,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")


def build(tree, program, target):
    built = go(tree, "build", "-o", str(target), f"./cmd/{program}")
    if built.returncode != 0:
        sys.exit(f"{program} does not build:\n{built.stdout[-3000:]}")


def copy_tree(target):
    """Copies the sources and the engine's archive."""
    names = subprocess.run(["git", "ls-files", "cluster", "include", "scripts"], cwd=ROOT,
                           stdout=subprocess.PIPE, text=True, check=True).stdout.split("\n")
    for name in [*filter(None, names), "lib/libengine.a"]:
        if not (ROOT / name).exists():
            continue
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target / name, follow_symlinks=False)


def run_check(work, flags):
    """The wrong answers that bin/cluster-check found, None without any."""
    data = work / "data"
    command = [str(work / "cluster-check"), "--binary", str(work / "engine-raced"),
               "--dir", str(data), *flags.split()]
    try:
        run = subprocess.run(command, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, errors="replace", timeout=CHECK_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "hung"
    shutil.rmtree(data, ignore_errors=True)
    if run.returncode == 0:
        return None
    if run.returncode != 1:
        sys.exit(f"cluster-check {flags} could not be made:\n{run.stdout[-3000:]}")
    claims = dict(re.findall(r"^(\w+) (\d+)$", run.stdout, re.MULTILINE))
    found = [f"{name} {count}" for name, count in claims.items()
             if name != "histories_checked" and count != "0"]
    problem = re.search(r"^problem: (.*)", run.stdout, re.MULTILINE)
    # A crash or an empty history is no proof that the checker sees wrong answers.
    if not found:
        print(f"no wrong answer, but: {problem[1] if problem else run.stdout[-500:]}")
        return None
    return ", ".join(found) + (f": {problem[1][:120]}" if problem else "")


def run_test(tree, test):
    """The test that failed, or how the process of the tests ended; None when all passed."""
    package, pattern = test.split(" ", 1)
    run = go(tree, "test", "-count=1", "-timeout", TEST_TIMEOUT, "-run", pattern, package)
    if run.returncode == 0 and "no tests to run" in run.stdout:
        sys.exit(f"no test of {package} matches {pattern}")
    if run.returncode == 0:
        return None
    found = (re.search(r"^--- FAIL: (\S+)", run.stdout, re.MULTILINE) or
             re.search(r"^(?:panic|fatal error): (.*)", run.stdout, re.MULTILINE))
    if found is None:
        sys.exit(f"{package} does not build or run:\n{run.stdout[-3000:]}")
    return found.group(1)


def find(tree, work, mutant):
    """What found the fault that the tree has, None when nothing did."""
    if mutant.test:
        return run_test(tree, mutant.test)
    build(tree, "engine-raced", work / "engine-raced")
    return run_check(work, mutant.check)


def check(mutants):
    bad = 0
    for mutant in mutants:
        tried = patch(ROOT, mutant.path, "--check")
        if tried.returncode != 0:
            print(f"{mutant.path.name} does not apply any more:\n{tried.stdout}")
            bad += 1
    return bad == 0


def prove_clean(tree, work, mutants):
    """Without a fault every check must pass: otherwise a failure would prove nothing."""
    build(tree, "engine-raced", work / "engine-raced")
    for flags in sorted({mutant.check for mutant in mutants if mutant.check}):
        failure = run_check(work, flags)
        if failure:
            sys.exit(f"the unbroken cluster fails {flags}: {failure}")
    for test in sorted({mutant.test for mutant in mutants if mutant.test}):
        failure = run_test(tree, test)
        if failure:
            sys.exit(f"the unbroken tree fails {failure}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*")
    flags = parser.parse_args()
    mutants = [Mutant(path) for path in sorted(PATCHES.glob("*.patch"))
               if not flags.names or path.stem in flags.names]
    if not mutants or flags.names and len(mutants) != len(set(flags.names)):
        sys.exit(f"there is no such mutant among {', '.join(flags.names)}")
    if flags.check:
        return 0 if check(mutants) else 1

    results = []
    with tempfile.TemporaryDirectory(prefix="cluster_mutants.") as scratch:
        work = pathlib.Path(scratch)
        tree = work / "tree"
        tree.mkdir()
        copy_tree(tree)
        build(tree, "cluster-check", work / "cluster-check")
        prove_clean(tree, work, mutants)
        for mutant in mutants:
            began = time.monotonic()
            applied = patch(tree, mutant.path)
            if applied.returncode != 0:
                sys.exit(f"{mutant.path.name} does not apply:\n{applied.stdout}")
            found_by = find(tree, work, mutant)
            patch(tree, mutant.path, "-R")
            seconds = time.monotonic() - began
            results.append({"name": mutant.name, "fault": mutant.fault, "caught_by": found_by,
                            "seconds": round(seconds, 1)})
            print(f"{'caught' if found_by else 'MISSED'}  {mutant.name}: "
                  f"{found_by or 'nothing failed'} ({seconds:.0f} s)", flush=True)
    caught = sum(result["caught_by"] is not None for result in results)
    if flags.json:
        pathlib.Path(flags.json).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(flags.json).write_text(json.dumps(
            {"mutant_count": len(results), "caught_count": caught, "mutants": results}, indent=2))
    print(f"{caught} of {len(results)} mutants caught")
    return 0 if caught == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
