#!/usr/bin/env python3
"""Tests of the checks of prose and docs: each fault is found, and good text passes."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"))

import chart_figures  # noqa: E402
import check_docs  # noqa: E402
import check_prose  # noqa: E402
import prose  # noqa: E402


def markdown(content):
    return prose.markdown_texts("docs/some.md", content)


def comments(content, path="engine_race/some.h"):
    return prose.comment_texts(path, content)


def rules(texts, phrases=None):
    return [rule for text in texts for rule, _, _ in check_prose.faults_of(text, phrases or {})]


class Sentences(unittest.TestCase):
    def test_markdown_is_cut_into_sentences(self):
        texts = markdown("# A title\n\nOne. Two `a. b` and\n[three](x.md)! See e.g. this.\n")
        self.assertEqual([s for t in texts for s in t.sentences()],
                         ["A title", "One.", "Two `code` and three!", "See e.g. this."])

    def test_fences_and_rules_of_tables_are_no_text(self):
        texts = markdown("```\nwhat. is this\n```\n| a | b |\n| --- | --- |\n| c \\| d | e |\n")
        self.assertEqual([t.words for t in texts], ["a", "b", "c \\| d", "e"])

    def test_list_items_end_each_other(self):
        texts = markdown("- one\n  goes on\n- two\n1. three\n")
        self.assertEqual([t.words for t in texts], ["one goes on", "two", "three"])

    def test_comments_are_joined_and_end_with_code(self):
        texts = comments("// One\n// two.\n//\n// Three.\nint a;  // Four.\n// Five.\n")
        self.assertEqual([t.words for t in texts], ["One two.", "Three.", "Four.", "Five."])

    def test_items_of_comments_go_on_and_tables_do_not(self):
        texts = comments("// - one\n//   more\n//\n// Title\n//   bit 1  x\n//   bit 2  y\n")
        self.assertEqual([t.words for t in texts], ["one more", "Title", "bit 1  x", "bit 2  y"])

    def test_comments_of_go_are_read_without_code_and_directives(self):
        texts = comments("//go:build linux\n\n// One\n// two.\n//\n// # Title\n//\tcode here\n"
                         "//   - an item\n//     goes on\n\nvar a = 1 // Four.\n"
                         "// #cgo LDFLAGS: -lm\n//export Name\n//nolint:all\nimport \"C\"\n",
                         "cluster/some.go")
        self.assertEqual([t.words for t in texts], ["One two.", "an item goes on", "Four."])


    def test_doc_comments_of_rust_are_read_without_programs_and_headings(self):
        texts = comments("//! One\n//! two.\n//!\n//! ```\n//! let a = 1;\n//! ```\n//! # Errors\n"
                         "//!\n//! - an item\n//!   goes on\n\n    /// Four.\n    // Five.\n"
                         "/// [`six`]: crate::six\nlet b = 2; // Seven.\n", "bindings/some.rs")
        self.assertEqual([t.words for t in texts],
                         ["One two.", "an item goes on", "Four. Five.", "Seven."])


class Prose(unittest.TestCase):
    def test_a_sentence_of_26_words_is_long(self):
        self.assertEqual(rules(markdown("word " * 24 + "word.\n")), [])
        self.assertEqual(rules(markdown("word " * 25 + "word.\n")), ["long"])
        self.assertEqual(rules(comments("// " + "word " * 25 + "word.\n")), ["long"])
        self.assertEqual(rules(comments("// " + "word " * 25 + "word.\n", "a/some.cc")), [])
        self.assertEqual(rules(comments("// " + "word " * 25 + "word.\n", "a/b.go")), ["long"])
        self.assertEqual(rules(comments("// " + "word " * 25 + "word.\n", "a/b_test.go")), [])

    def test_the_subject_is_named(self):
        self.assertEqual(rules(markdown("Whoever waits is woken. What is left goes.\n")),
                         ["who", "who"])
        self.assertEqual(rules(comments("// The same of a view.\n")), ["who"])
        self.assertEqual(rules(markdown("Who submits them?\n\n# What it does\n\n| who | what |\n")),
                         [])

    def test_phrases_of_the_glossary_are_found_across_lines(self):
        phrases = check_prose.ruled_out()
        self.assertEqual(rules(comments("// The epoch of\n// a view.\n"), phrases), ["words"])
        self.assertEqual(rules(markdown("Both synced counts are moved.\n"), phrases), ["words"])
        self.assertEqual(rules(markdown("The version of a view.\n"), phrases), [])


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = check_docs.Tree()

    def faults(self, span):
        return list(check_docs.faults_of_span(span, self.tree))

    def test_files_that_are_there_pass(self):
        for span in ("engine_race/store.h", "test/log/", "test/index/*views*", "store.h",
                     "read_queue_test.cc", "build/guest/failed_*"):
            self.assertEqual(self.faults(span), [], span)

    def test_files_that_are_gone_are_found(self):
        for span in ("engine_race/stor.h", "test/lug/", "test/index/*vixws*", "stor.h"):
            self.assertEqual(len(self.faults(span)), 1, span)

    def test_commands(self):
        for span in ("make race RACE_ARGS='--dir D --num N'", "make && bin/race --num 3",
                     "GLIBC=1 make check", "scripts/mutants.py --check", "make bin/numa"):
            self.assertEqual(self.faults(span), [], span)
        for span in ("make raze", "bin/rice", "make race && make raze", "bin/race --no-such-flag",
                     "bin/race nosuchword", "scripts/mutant.py", "make bin/rice"):
            self.assertEqual(len(self.faults(span)), 1, span)

    def test_names_of_the_code(self):
        self.assertEqual(self.faults("Options::sync_mode"), [])
        self.assertEqual(self.faults("kCorruption"), [])
        self.assertEqual(len(self.faults("Options::sink_mode")), 1)
        self.assertEqual(len(self.faults("kCorrosion")), 1)

    def test_anchors_are_as_on_github(self):
        self.assertEqual(check_docs.anchor("The race: `make bench-race`"), "the-race-make-bench-race")


class Chart(unittest.TestCase):
    def test_better_is_above_one_for_both_kinds_of_aims(self):
        self.assertEqual(chart_figures.beyond("≥ 2", "4.0"), ("4.0", 2))
        self.assertEqual(chart_figures.beyond("≤ 2", "4.0 (**missed**)"), ("4.0", 0.5))
        self.assertIsNone(chart_figures.beyond("≥ 2", "–"))
        self.assertIsNone(chart_figures.beyond("", "4.0"))

    def test_a_claim_has_a_bar_for_each_machine(self):
        names = [name for _, rows in chart_figures.claims() for name in (row.name for row in rows)]
        self.assertIn("write_ratio, EPYC", names)
        self.assertIn("write_ratio, Xeon", names)
        self.assertNotIn("range_visit_over_floor, EPYC", names)
        self.assertIn("verify_read_cost", names)


if __name__ == "__main__":
    unittest.main()
