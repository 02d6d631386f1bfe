#!/usr/bin/env python3
"""scripts/unity.awk: which sources share a unity file; an added one changes few groups."""

import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


class UnityTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = pathlib.Path(scratch.name)

    def group(self, lines, dry=""):
        printed = subprocess.run(
            ["awk", "-v", f"out={self.out}", "-v", f"dry={dry}", "-f",
             str(ROOT / "scripts" / "unity.awk")],
            input="".join(f"{line}\n" for line in lines), check=True, text=True,
            stdout=subprocess.PIPE).stdout
        groups = {}
        for line in printed.split():
            source, unity = line.split("=")
            groups.setdefault(unity, []).append(source)
        return groups

    def test_groups_have_14_to_29_sources_of_one_folder_and_class(self):
        lines = [f"{name}:a/{folder}/{name}{number:03}.cc" for name in ("one", "two")
                 for folder in ("b", "c") for number in range(50)]
        sources = set()
        for unity, group in self.group(lines).items():
            self.assertIn(len(group), range(14, 30))
            self.assertEqual(unity, group[0])
            self.assertEqual(len({source.rsplit("/", 1)[0] for source in group}), 1)
            sources.update(group)
        classes = self.group([f"one:a/{n}.cc" for n in range(3)] + [f"two:a/{n}.cc" for n in "xyz"])
        self.assertEqual(sorted(len(group) for group in classes.values()), [3, 3])

    def test_a_source_without_company_stays_alone(self):
        self.assertEqual(self.group(["a/one.cc", "b/two.cc"]), {})

    def test_unity_files_include_their_sources(self):
        groups = self.group([f"a/{number}.cc" for number in range(5)])
        self.assertEqual(list(groups), ["a/0.cc"])
        self.assertEqual((self.out / "a/0.cc").read_text(),
                         "".join(f'#include "a/{number}.cc"\n' for number in range(5)))

    def test_files_that_are_as_they_were_are_not_written_again(self):
        lines = [f"a/{number}.cc" for number in range(5)]
        self.group(lines)
        before = (self.out / "a/0.cc").stat().st_mtime_ns
        self.group(lines)
        self.assertEqual((self.out / "a/0.cc").stat().st_mtime_ns, before)
        self.group(lines[:-1])
        self.assertNotIn("4.cc", (self.out / "a/0.cc").read_text())

    def test_a_dry_run_writes_nothing(self):
        self.assertEqual(len(self.group(["a/0.cc", "a/1.cc"], dry="n")), 1)
        self.assertEqual(list(self.out.iterdir()), [])

    # A changed group is compiled anew. The names are made up, so that the result does not depend on the tree.
    def test_an_added_source_changes_few_groups(self):
        sources = [f"a/{letter}{number}_{letter}.cc" for letter in "bcdefghijk" for number in range(10, 55)]
        before = {tuple(group) for group in self.group(sources).values()}
        self.assertGreater(len(before), 20)
        changed = []
        for source in sources:
            others = [other for other in sources if other != source]
            without = {tuple(group) for group in self.group(others).values()}
            changed.append(len(before - without))
        # With groups of a fixed size half of them would change.
        self.assertLess(sum(changed) / len(changed), len(before) / 5)


if __name__ == "__main__":
    unittest.main()
