#!/usr/bin/env python3
"""Tests of the changes that scripts/mutants.py --random draws."""
import argparse
import contextlib
import io
import itertools
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))

import mutants  # noqa: E402
import random_mutants  # noqa: E402


def changed(text, kind=None):
    return [change.after for change in random_mutants.changes_of("a.cc", text)
            if kind in (None, change.kind)]


class Changes(unittest.TestCase):
    def test_each_comparison_of_a_line_is_turned_alone(self):
        self.assertEqual(changed("  return a < b == (c >= d);", "comparison"),
                         ["  return a <= b == (c >= d);", "  return a < b != (c >= d);",
                          "  return a < b == (c > d);"])

    def test_templates_and_operators_are_no_comparisons(self):
        for line in ("template <typename T>", "  std::vector<int> a;",
                     "  bool operator==(const A& other) const;", "  a << b;", "  a->b();",
                     "  auto operator <=> (const A&) const;"):
            self.assertEqual(changed(line, "comparison"), [], line)

    def test_and_becomes_or(self):
        self.assertEqual(changed("  return a && b || c;", "conjunction"),
                         ["  return a || b || c;", "  return a && b && c;"])
        self.assertEqual(changed("  void Move(T&& from);", "conjunction"), [])

    def test_a_condition_is_negated_as_a_whole(self):
        self.assertEqual(changed("  if (F(a) == b) return;", "condition"),
                         ["  if (!(F(a) == b)) return;"])
        self.assertEqual(changed("  } while (F(a));", "condition"), ["  } while (!(F(a)));"])

    def test_a_condition_over_two_lines_or_with_a_declaration_stays(self):
        self.assertEqual(changed("  if (a ||\n      b) {", "condition"), [])
        self.assertEqual(changed("  if (const int a = F(); a > b) {", "condition"), [])

    def test_a_call_is_left_out(self):
        for call in ("F();", "a_.b->c(d[1], e);", "(void)F(a);", "base::F(a());", "a[i].F();",
                     "RETURN_IF_ERROR(F(a));"):
            self.assertEqual(changed("{\n  " + call, "call"), ["  ;"], call)

    def test_declarations_and_parts_of_statements_are_no_calls(self):
        for text in ("{\n  Lock lock(mutex);", "{\n  return F(a);", "  a = b +\n      F(a);",
                     "{\n  a = F(b);", "{\n  const A a(b);", "{\n  if (a) F(b);"):
            self.assertEqual(changed(text, "call"), [], text)

    def test_one_is_added_to_a_number_and_taken_from_it(self):
        self.assertEqual(changed("  a = b + 64;", "number"), ["  a = b + 65;", "  a = b + 63;"])
        self.assertEqual(changed("  a = 0;", "number"), ["  a = 1;"])

    def test_parts_of_names_and_types_are_no_numbers(self):
        for line in ("  uint32_t a1 = b2;", "  A<3> a;", "  a = 0x10;", "  a = 1.5;",
                     "  a = 1'000;", "constexpr int kA = 4;"):
            self.assertEqual(changed(line, "number"), [], line)

    def test_comments_strings_assertions_and_includes_stay(self):
        for line in ("// if (a == b && c) F(1);", '  text = "a == 1 && b";', "#if A == 1",
                     "  ENGINE_RACE_ASSERT(a == 1 && b);", "  static_assert(a == 1);"):
            self.assertEqual(changed(line), [], line)
        self.assertEqual(changed("  F(a == b);  // a != 1", "comparison"),
                         ["  F(a != b);  // a != 1"])

    def test_a_change_is_applied_and_undone(self):
        text = "{\n  F(a);\n  F(a);\n}\n"
        second = random_mutants.changes_of("a.cc", text)[1]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.cc"
            path.write_text(text)
            second.apply(folder)
            self.assertEqual(path.read_text(), "{\n  F(a);\n  ;\n}\n")
            with self.assertRaises(AssertionError):
                second.apply(folder)
            second.undo(folder)
            self.assertEqual(path.read_text(), text)


class Draws(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        (self.root / "a.cc").write_text("{\n" + "  F(a == 1 && b);\n" * 8 + "}\n")
        self.notes = self.root / "notes.txt"

    def draw(self, seed, count=None, equivalents=()):
        drawn = random_mutants.draw(["a.cc"], seed, equivalents, self.root)
        return list(itertools.islice(drawn, count))

    def test_a_seed_gives_the_same_changes(self):
        self.assertEqual(self.draw(5), self.draw(5))
        self.assertNotEqual(self.draw(5), self.draw(6))

    def test_all_changes_are_drawn_once_the_kinds_in_turn(self):
        drawn = self.draw(1)
        self.assertEqual(len(drawn), len(set(drawn)))
        self.assertEqual(set(drawn), set(random_mutants.changes_of(
            "a.cc", (self.root / "a.cc").read_text())))
        self.assertEqual([change.kind for change in drawn[:4]],
                         ["call", "comparison", "conjunction", "number"])

    def test_equivalents_are_left_out_wherever_they_are(self):
        self.notes.write_text("# Notes.\n\na.cc\n- F(a == 1 && b);\n+ F(a != 1 && b);\n= Why.\n"
                              "= More of it.\n")
        notes = random_mutants.read_equivalents(self.notes)
        self.assertEqual({change.kind for change in self.draw(1, equivalents=notes)},
                         {"call", "conjunction", "number"})
        self.assertEqual(random_mutants.stale_equivalents(self.root, self.notes), [])

    def test_notes_of_lines_that_are_gone_are_stale(self):
        self.notes.write_text("a.cc\n- F(a == 2 && b);\n+ F(a != 2 && b);\n= Why.\n\n"
                              "b.cc\n- F(c);\n+ ;\n= Why.\n")
        self.assertEqual(random_mutants.stale_equivalents(self.root, self.notes),
                         [("a.cc", "F(a == 2 && b);", "F(a != 2 && b);"), ("b.cc", "F(c);", ";")])

    def test_a_note_without_a_reason_is_refused(self):
        self.notes.write_text("a.cc\n- F(a == 1 && b);\n+ F(a != 1 && b);\n")
        with self.assertRaises(ValueError):
            random_mutants.read_equivalents(self.notes)


class Judges(unittest.TestCase):
    def test_a_room_judges_its_own_sources_first(self):
        self.assertEqual(mutants.room_of("engine_race/log/row_file.cc"), "log")
        self.assertEqual(mutants.judges_of("log", False), ["log", "e2e", "faults", "power"])
        self.assertEqual(mutants.judges_of("log", True), ["log"])

    def test_end_to_end_tests_are_those_of_the_door(self):
        self.assertEqual(mutants.room_of("engine_race/store.cc"), "door")
        self.assertEqual(mutants.judges_of("door", False), ["e2e", "faults", "power"])


class Trials(unittest.TestCase):
    """Trials of a tree whose programs are made up."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name)
        self.source = self.tree / "engine_race" / "scan" / "a.cc"
        self.source.parent.mkdir(parents=True)
        self.source.write_text("{\n  F();\n  G();\n  H();\n}\n")
        self.asked = []
        self.text = None

    def run_tests(self, tree, rooms, test_filter, timeouts_s=None):
        """The room's tests miss the loss of G, which the end-to-end tests see; none sees H's."""
        self.assertEqual((tree, test_filter), (self.tree, "*"))
        self.text = self.source.read_text()
        if timeouts_s is not None:
            self.asked.append(rooms[0])
        lost = [name for name in "FGH" if name not in self.text]
        seen = {"scan": "F", "e2e": "FG"}.get(rooms[0], "")
        return f"{rooms[0]}.Test" if any(name in seen for name in lost) else None

    def try_random(self, count, builds=lambda text: True, **flags):
        flags = argparse.Namespace(random=count, seed=1, room=["scan"], own_tests=False, **flags)
        built = lambda tree, rooms: argparse.Namespace(
            returncode=0 if builds(self.source.read_text()) else 2)
        with mock.patch.multiple(mutants, build_rooms=built, run_tests=self.run_tests), \
                contextlib.redirect_stdout(io.StringIO()) as output:
            results = mutants.try_random(self.tree, flags)
        return {result["name"].rsplit(":", 1)[1]: result["caught_by"] for result in results}, \
            output.getvalue()

    def test_the_rooms_tests_come_first_and_then_those_that_ci_runs(self):
        results, output = self.try_random(3)
        self.assertEqual(results, {"2": "scan.Test", "3": "e2e.Test", "4": None})
        self.assertEqual(sorted(self.asked), sorted(
            ["scan", "scan", "e2e", "scan", "e2e", "faults", "power"]))
        self.assertEqual(output.splitlines()[-2:],
                         ["survivors:", "  engine_race/scan/a.cc:4 call: `H();` became `;`"])

    def test_the_source_is_as_before_afterwards(self):
        before = self.source.read_text()
        self.try_random(3)
        self.assertNotEqual(self.text, before)
        self.assertEqual(self.source.read_text(), before)

    def test_what_does_not_compile_is_drawn_anew(self):
        results, output = self.try_random(2, builds=lambda text: "F" in text)
        self.assertEqual(results, {"3": "e2e.Test", "4": None})
        self.assertEqual(output.count("not built"), 1 if "a.cc:2" in output else 0)


if __name__ == "__main__":
    unittest.main()
