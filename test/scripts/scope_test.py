#!/usr/bin/env python3
"""scripts/scope.sh: what it makes of paths, and that it prints everything when it cannot tell."""

import fnmatch
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SCRIPT = ROOT / "scripts" / "scope.sh"
ALL = "engine bindings harness bench numa nvme lint service go report bare".split()


def run(*command, cwd, **options):
    return subprocess.run([str(part) for part in command], cwd=cwd, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options).stdout


def scope_of(*files):
    return run(SCRIPT, "--files", cwd=ROOT, input="".join(f"{file}\n" for file in files)).split()


class PathsTest(unittest.TestCase):
    def test_rooms(self):
        self.assertEqual(scope_of("cluster/node/service.go"), ["service", "go"])
        self.assertEqual(scope_of("engine_race/log/tail.cc"), ["engine", "lint", "service"])
        self.assertEqual(scope_of("harness/bench/report.cc"), ["harness", "bench", "lint"])
        self.assertEqual(scope_of("test/log/tail_test.cc"), ["engine"])
        self.assertEqual(scope_of("docs/format.md"), [])
        self.assertEqual(scope_of("docs/python.md", "docs/python-api.md"), ["bindings", "bare"])

    def test_a_door_of_the_library_concerns_the_harness(self):
        self.assertIn("harness", scope_of("engine_race/store.h"))
        self.assertIn("service", scope_of("include/engine_race_c.h"))
        self.assertIn("bindings", scope_of("include/engine_race_c.h"))

    def test_words_add_up(self):
        self.assertEqual(scope_of("docs/format.md", "cluster/go.mod", "test/log/tail_test.cc"),
                         ["engine", "service", "go"])

    def test_an_unknown_path_concerns_everything(self):
        for path in ("scripts/setup.sh", "scripts/guest_kernel.sh", "new/file", ".clang-tidy"):
            self.assertEqual(scope_of("docs/format.md", path), ALL, path)

    def test_how_tests_are_built_and_run_concerns_all_but_guests(self):
        without_guests = [word for word in ALL if word not in ("numa", "nvme")]
        for path in ("Makefile", "harness/programs.mk", "test/rooms.mk", "test/runs.mk", ".ci/run",
                     "scripts/run_tests.sh", "scripts/scope.sh"):
            self.assertEqual(scope_of("docs/format.md", path), without_guests, path)

    def test_each_rule_fits_a_file(self):
        files = run("git", "ls-files", cwd=ROOT).split()
        body = SCRIPT.read_text().split("words_of() {")[1].split("esac")[0]
        patterns = re.findall(r"^    ([^#\n]*)\) echo", body, re.MULTILINE)
        patterns = [pattern for line in patterns for pattern in line.split(" | ")]
        self.assertGreater(len(patterns), 20)
        for pattern in patterns:
            self.assertTrue(fnmatch.filter(files, pattern), pattern)


class CommitsTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.tree = pathlib.Path(self.scratch.name) / "tree"
        (self.tree / "scripts").mkdir(parents=True)
        shutil.copy2(SCRIPT, self.tree / "scripts" / "scope.sh")
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "test@example.com")
        self.git("config", "user.name", "test")
        self.commit("docs/first.md")

    def git(self, *arguments, cwd=None):
        return run("git", *arguments, cwd=cwd or self.tree).strip()

    def commit(self, name):
        path = self.tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", name)

    def scope(self, tree=None):
        tree = tree or self.tree
        return run(tree / "scripts" / "scope.sh", cwd=tree).split()

    def base(self, tree=None):
        tree = tree or self.tree
        return run(tree / "scripts" / "scope.sh", "--base", cwd=tree).strip()

    def branch(self):
        self.git("checkout", "-q", "-b", "work")
        self.commit("cluster/node.go")

    def test_a_branch(self):
        base = self.git("rev-parse", "HEAD")
        self.branch()
        self.assertEqual(self.scope(), ["service", "go"])
        self.assertEqual(self.base(), base)

    def test_changes_that_are_not_committed_count(self):
        self.branch()
        (self.tree / "test" / "log").mkdir(parents=True)
        (self.tree / "test" / "log" / "new_test.cc").write_text("\n")
        self.assertEqual(self.scope(), ["engine", "service", "go"])

    def test_a_moved_file_concerns_its_old_place_too(self):
        self.commit("test/log/long_name_test.cc")
        self.git("checkout", "-q", "-b", "work")
        (self.tree / "cluster").mkdir()
        self.git("mv", "test/log/long_name_test.cc", "cluster/place.go")
        self.git("commit", "-q", "-m", "moved")
        self.assertEqual(self.scope(), ["engine", "service", "go"])

    def test_a_clone_of_the_branch(self):
        self.branch()
        clone = pathlib.Path(self.scratch.name) / "clone"
        self.git("clone", "-q", "-b", "work", self.tree, clone)
        self.git("checkout", "-q", "--detach", cwd=clone)
        # The clone's own HEAD of origin is the branch that was checked out there.
        self.git("remote", "set-head", "origin", "main", cwd=clone)
        self.assertEqual(self.scope(clone), ["service", "go"])

    def test_head_in_the_main_branch(self):
        self.assertEqual(self.scope(), ALL)
        self.assertEqual(self.base(), "")
        self.git("checkout", "-q", "--detach")
        self.assertEqual(self.scope(), ALL)

    def test_no_main_branch(self):
        self.branch()
        self.git("branch", "-q", "-D", "main")
        self.assertEqual(self.scope(), ALL)

    def test_a_shallow_clone(self):
        self.branch()
        clone = pathlib.Path(self.scratch.name) / "clone"
        self.git("clone", "-q", "--depth", "1", "-b", "work", self.tree.as_uri(), clone)
        self.git("fetch", "-q", "origin", "main:main", cwd=clone)
        self.assertEqual(self.scope(clone), ALL)

    def test_no_repository(self):
        shutil.rmtree(self.tree / ".git")
        self.assertEqual(self.scope(), ALL)

    def test_an_unrelated_main_branch(self):
        self.git("checkout", "-q", "--orphan", "work")
        self.commit("cluster/node.go")
        self.assertEqual(self.scope(), ALL)


if __name__ == "__main__":
    unittest.main()
