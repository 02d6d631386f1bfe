#!/usr/bin/env python3
"""Tests of bin/report without a browser: charts and pages are parsed as XML, and bad input is
refused or left out."""
import contextlib
import copy
import io
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock as mock
import xml.etree.ElementTree as ElementTree
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "test" / "scripts"))

import chromium  # noqa: E402
import report_browser_test  # noqa: E402
from report import charts, cli, gallery, limits, look, markup, model, ratios  # noqa: E402
from report import reading, scales  # noqa: E402
from report.page import page  # noqa: E402

SAMPLES = ROOT / "test" / "scripts" / "report"
SVG = "{http://www.w3.org/2000/svg}"


def sample(name):
    return json.loads((SAMPLES / f"{name}.json").read_text(encoding="utf-8"))


class Files(unittest.TestCase):
    """Tests that need a directory."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = pathlib.Path(holder.name)

    def file(self, content, name="some.json"):
        path = self.dir / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def source(self, result):
        return reading.read(self.file(result), "some")

    def run_main(self, *arguments):
        """(exit code, standard output, standard error)"""
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = cli.main([str(argument) for argument in arguments])
            except SystemExit as ended:
                code = ended.code
        return code, out.getvalue(), err.getvalue()


def page_of(*sources):
    entrants = gallery.Entrants(list(sources))
    return page("Some", list(sources), entrants, gallery.sections_of(entrants))


def charts_of(*sources):
    return {chart.slug: chart for section in gallery.sections_of(gallery.Entrants(list(sources)))
            for chart in section.charts}


def marks_of(root, tag=None):
    return [node for node in root.iter() if "mark" in node.get("class", "").split()
            and tag in (None, node.tag)]


def run_of(**fields):
    run = {"store": "a", "phase": "read", "round": 0, "threads": 1, "operations": 1000,
            "bytes": 4096000, "seconds": 2.0, "operations_per_s": 500.0, "finished": True}
    run.update(fields)
    return run


def result_of(*runs, **fields):
    return {"kind": "bench", "machine": {}, "config": {}, "runs": list(runs), **fields}


class Scales(unittest.TestCase):
    def test_ticks_are_round_and_cover_the_axis(self):
        self.assertEqual(scales.ticks(100, 5), [0, 20, 40, 60, 80, 100])
        self.assertEqual(scales.ticks(0, 5), [0])
        for top in (1e-9, 0.3, 7, 99, 1234567, 1e21):
            ticks = scales.ticks(top, 5)
            self.assertTrue(2 <= len(ticks) <= 6, (top, ticks))
            self.assertLessEqual(ticks[-1], top * (1 + 1e-9))
            self.assertGreater(ticks[-1], top * 0.59)

    def test_a_linear_axis_places_in_proportion_and_stays_within(self):
        axis = scales.Linear(0, 200, 10, 110)
        self.assertEqual([axis.place(x) for x in (0, 50, 200, 400)], [10, 35, 110, 110])

    def test_a_decade_of_a_log_axis_has_one_length(self):
        axis = scales.Log(3, 2000, 400, 0)
        self.assertEqual((axis.low, axis.top), (0, 4))
        self.assertAlmostEqual(axis.place(10) - axis.place(100), 100)
        self.assertEqual(axis.ticks(6), [1, 10, 100, 1000, 10000])
        self.assertEqual(scales.Log(10, 10, 0, 1).top, 2)

    def test_numbers_have_three_digits_and_a_unit(self):
        for value, shown in ((0, "0"), (999.4, "999"), (999.6, "1k"), (71234, "71.2k"),
                             (1.5e6, "1.5M"), (0.25, "0.25"), (3e25, "3e+25")):
            self.assertEqual(scales.count(value), shown)
        self.assertEqual(scales.bytes_(1536 << 20), "1.5 GiB")
        self.assertEqual(scales.duration_ns(4287), "4.29 us")
        self.assertLess(len(scales.duration_ns(1e-300)), 20)


class Look(unittest.TestCase):
    @staticmethod
    def contrast(a, b):
        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            r, g, b = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
            return 0.2126 * r + 0.7152 * g + 0.0722 * b
        low, high = sorted((luminance(a), luminance(b)))
        return (high + 0.05) / (low + 0.05)

    def test_colours_have_contrast_in_light_and_dark(self):
        self.assertEqual(look.LIGHT.keys(), look.DARK.keys())
        for colours in (look.LIGHT, look.DARK):
            for name in ("text", "quiet"):
                for ground in ("surface", "page"):
                    self.assertGreaterEqual(self.contrast(colours[name], colours[ground]), 4.5)
            for name in ["good", "bad"] + [f"s{i}" for i in range(look.SERIES)]:
                self.assertGreaterEqual(self.contrast(colours[name], colours["surface"]), 3, name)

    def test_an_svg_file_has_colours_and_a_page_has_variables(self):
        self.assertNotRegex(look.svg_style(), r"var\(|\$")
        self.assertIn(look.DARK["s0"], look.svg_style())
        self.assertNotIn("$", look.page_style())
        self.assertNotRegex(look.page_style(), "[<>&]")


class Markup(unittest.TestCase):
    def test_text_of_the_input_is_safe(self):
        self.assertEqual(markup.safe_text("a\0b\u202ec\ud800d"), "a\ufffdb\ufffdc\ufffdd")
        self.assertEqual(len(markup.safe_text("x" * 5000)), markup.MAX_TEXT)
        self.assertEqual(markup.to_text(markup.element(None, "p", "<b>&", title='"')),
                         '<p title="&quot;">&lt;b&gt;&amp;</p>')

    def test_text_is_cut_to_the_space(self):
        self.assertEqual(markup.fit("some text", 1000), "some text")
        cut = markup.fit("some text that is long", 60)
        self.assertTrue(cut.startswith("some") and cut.endswith("…"))
        self.assertLessEqual(markup.text_width(cut), 60)


class Charts(unittest.TestCase):
    @staticmethod
    def drawn(draw, *arguments, width=charts.WIDE):
        canvas = charts.Canvas("some", "Title", "About it.", width)
        draw(canvas, *arguments)
        return ElementTree.fromstring(charts.stand_alone(canvas.finish()))

    def test_bars_are_in_proportion_with_whiskers_and_levels(self):
        panel = charts.Panel("read", [charts.Bar("a", 0, 100, 80, 120),
                                      charts.Bar("b", 1, 50, 50, 50, unfinished=True)],
                             [charts.Level("device", 150), charts.Level("far", 1000)])
        root = self.drawn(charts.bar_panels, [panel], scales.count)
        a, b = marks_of(root, SVG + "rect")
        self.assertAlmostEqual(float(a.get("width")) / float(b.get("width")), 2, places=2)
        self.assertIn("unfinished", b.get("class"))
        lines = [node.get("class") for node in root.iter(SVG + "line")]
        self.assertEqual(lines.count("whisker"), 3)
        # Both levels are named, and the one that is far away is not drawn.
        self.assertEqual(lines.count("limit"), 3)
        texts = [node.text for node in root.iter(SVG + "text")]
        self.assertIn("far: 1k, beyond the axis", texts)
        self.assertIn("50 †", texts)

    def test_a_line_goes_through_its_points(self):
        plot = charts.Plot("s", "ops", scales.count, scales.count)
        series = charts.Series("a", 0, [(0, 0), (5, 50), (10, 100)], unfinished=True)
        root = self.drawn(charts.line_chart, plot, [series], [])
        line, cross = marks_of(root)
        points = [tuple(map(float, pair.split(","))) for pair in line.get("points").split()]
        self.assertAlmostEqual(points[1][0], (points[0][0] + points[2][0]) / 2, places=1)
        self.assertAlmostEqual(points[1][1], (points[0][1] + points[2][1]) / 2, places=1)
        self.assertGreater(points[0][1], points[2][1])
        self.assertEqual(cross.tag, SVG + "path")

    def test_one_point_is_a_mark(self):
        plot = charts.Plot("s", "ops", scales.count, scales.count)
        root = self.drawn(charts.line_chart, plot, [charts.Series("a", 0, [(1, 7)])], [])
        self.assertEqual([node.tag for node in marks_of(root)], [SVG + "circle"])

    def test_latencies_stand_on_a_logarithmic_axis(self):
        plot = charts.Plot("", "latency", None, scales.duration_ns, ["a", "b", "c"], log_y=True)
        root = self.drawn(charts.line_chart, plot,
                          [charts.Series("a", 0, [(0, 10), (1, 100), (2, 1000)])], [])
        ys = [float(pair.split(",")[1]) for pair in marks_of(root)[0].get("points").split()]
        self.assertAlmostEqual(ys[0] - ys[1], ys[1] - ys[2], places=1)

    def test_better_ratios_lie_to_the_right(self):
        rows = [ratios.Ratio("a", 4, "4"), ratios.Ratio("b", 0.5, "0.5")]
        root = self.drawn(ratios.ratio_chart, [("Some", rows)], "aim")
        a, b = marks_of(root)
        self.assertIn("good", a.get("class"))
        self.assertIn("bad", b.get("class"))
        self.assertAlmostEqual(float(a.get("width")), 2 * float(b.get("width")), places=1)
        self.assertAlmostEqual(float(b.get("x")) + float(b.get("width")), float(a.get("x")), 1)

    def test_arrows_end_bars_of_ratios_beyond_the_axis(self):
        rows = [ratios.Ratio(f"{value}", value, "") for value in (1e9, 1 / 64, 1e-9, 128, 129)]
        for width in (charts.WIDE, charts.NARROW):
            root = self.drawn(ratios.ratio_chart, [("Some", rows)], "aim", width=width)
            bars, arrows = marks_of(root, SVG + "rect"), marks_of(root, SVG + "path")
            self.assertEqual([arrow.find(SVG + "title").text.split(":")[0] for arrow in arrows],
                             ["1000000000.0", "1e-09", "129"])
            for arrow, bar in zip(arrows, (bars[0], bars[2], bars[4])):
                x, step = re.match(r"M([\d.]+),[\d.]+ l(-?\d+),", arrow.get("d")).groups()
                self.assertEqual(float(step) > 0, "good" in bar.get("class"))
                left, right = float(bar.get("x")), float(bar.get("x")) + float(bar.get("width"))
                self.assertAlmostEqual(float(x), right if float(step) > 0 else left, places=1)
                self.assertTrue(0 < float(x) + float(step) < width)

    def test_a_histogram_has_a_bar_for_each_bin_that_is_not_empty(self):
        root = self.drawn(charts.histogram, [(0, 10, 4), (10, 20, 0), (20, 30, 2)], "x", "y")
        first, last = marks_of(root)
        self.assertAlmostEqual(float(first.get("height")), 2 * float(last.get("height")), places=1)


class Gallery(Files):
    def test_bins_hold_all_values(self):
        for values in ([5], [0, 0, 0], list(range(1000)), [1, 10 ** 20], [7.5, 7.6]):
            bins = gallery.bins_of(values)
            self.assertEqual(sum(count for _, _, count in bins), len(values))
            self.assertLessEqual(len(bins), gallery.MAX_BINS + 1)
            self.assertTrue(bins[0][0] <= min(values) and max(values) < bins[-1][1] or
                            max(values) == 10 ** 20)

    def test_a_thinned_line_counts_the_same_operations(self):
        points = [(float(i + 1), float(i % 7)) for i in range(1000)]
        thin = gallery.thinned(points)
        self.assertLessEqual(len(thin), gallery.MAX_LINE_POINTS)
        before, done = 0.0, 0.0
        for at, rate in thin:
            done += rate * (at - before)
            before = at
        self.assertAlmostEqual(done, sum(rate for _, rate in points))

    def test_each_kind_of_chart_comes_from_its_fields(self):
        by_slug = charts_of(self.source(sample("compare")))
        for slug in ("best-peer", "throughput", "timeline-write", "latency-read",
                     "write-amplification", "space-amplification", "peak-memory",
                     "cpu-time-of-an-operation", "bucket-fill"):
            self.assertIn(slug, by_slug)
        bare = charts_of(self.source(result_of(run_of())))
        self.assertEqual(list(bare), ["throughput"])

    def test_the_best_peer_is_the_fastest_other_store_of_the_phase(self):
        result = result_of(run_of(store="engine_race", operations_per_s=300.0),
                         run_of(store="b", operations_per_s=100.0),
                         run_of(store="c", operations_per_s=200.0, finished=False))
        table = charts_of(self.source(result))["best-peer"].table
        self.assertEqual(table.rows, [["read", "1.5", "c", "300", "200", "yes", "no"]])

    def texts_of(self, chart):
        return [node.text for node in chart.picture(charts.WIDE).iter("text")]

    def test_an_unfinished_run_is_marked_in_each_chart(self):
        fields = {"latency_ns": {"p50": 100, "p99": 200}, "rss_peak_bytes": 1 << 20,
                  "timeline": [{"s": 1, "operations": 5}, {"s": 2, "operations": 5}]}
        for unfinished, sign in ((("engine_race",), " ‡"), (("b",), " †"),
                                 (("engine_race", "b"), " ‡ †"), ((), "")):
            by_slug = charts_of(self.source(result_of(
                *[run_of(store=store, finished=store not in unfinished, **fields)
                  for store in ("engine_race", "b")])))
            self.assertEqual([text for text in self.texts_of(by_slug["best-peer"]) if "×" in text
                              and text.endswith("b" + sign)], ["1 × b" + sign])
            self.assertEqual(by_slug["best-peer"].table.rows[0][5:],
                             ["no" if store in unfinished else "yes"
                              for store in ("engine_race", "b")])
            for slug, count in (("throughput", 2), ("peak-memory", 2)):
                marks = marks_of(by_slug[slug].picture(charts.WIDE))
                self.assertEqual(["unfinished" in mark.get("class") for mark in marks],
                                 [store in unfinished for store in ("engine_race", "b")], slug)
            for slug in ("latency-read", "timeline-read"):
                texts = self.texts_of(by_slug[slug])
                for store in ("engine_race", "b"):
                    shown = store + " (did not finish)" * (store in unfinished)
                    self.assertEqual(texts.count(shown), 1, (slug, shown))
            for slug in ("latency-read", "peak-memory"):
                self.assertEqual([row[-1] for row in by_slug[slug].table.rows],
                                 ["no" if store in unfinished else "yes"
                                  for store in ("engine_race", "b")], slug)

    def test_a_chart_of_lines_has_a_bounded_number_of_rounds(self):
        points = [{"s": 1, "operations": 5}, {"s": 2, "operations": 6}]
        for count in (gallery.MAX_ROUNDS, gallery.MAX_ROUNDS + 1):
            runs = [run_of(round=i, timeline=points) for i in range(count)]
            chart = charts_of(self.source(result_of(*runs)))["timeline-read"]
            lines = marks_of(chart.picture(charts.WIDE), "polyline")
            self.assertEqual(len(lines), gallery.MAX_ROUNDS)
            self.assertEqual(len(chart.table.rows), count)
            self.assertEqual("first 12 rounds are drawn" in chart.desc, count > 12)

    def test_a_median_over_time_weighs_points_by_their_time(self):
        self.assertEqual(gallery.median_over_time([(1, 5), (2, 6), (3, 7)]), 6)
        self.assertEqual(gallery.median_over_time([(1, 5), (2, 6), (9, 0)]), 0)

    def test_the_engine_comes_first_and_keeps_its_colour(self):
        result = result_of(run_of(store="b"), run_of(store="engine_race"))
        self.assertEqual(list(gallery.Entrants([self.source(result)]).colours.values()), [0, 1])
        self.assertEqual(list(gallery.Entrants([self.source(result)]).labels.values()),
                         ["engine_race", "b"])

    def test_stores_beyond_the_colours_are_named(self):
        result = result_of(*[run_of(store=f"store{i}") for i in range(20)])
        self.assertIn("Charts show the first 8 stores", page_of(self.source(result)))

    def test_names_of_charts_differ(self):
        slugs = gallery.Slugs()
        self.assertEqual([slugs.of("a", "b"), slugs.of("a/b"), slugs.of("🙂"), slugs.of("../..")],
                         ["a-b", "a-b-2", "chart", "chart-2"])


class Reading(Files):
    def test_names_beyond_the_first_are_noted(self):
        many = {f"name{i}": i for i in range(model.MAX_FLAT + 1)}
        for fields, where in (({"machine": many}, "machine"), ({"config": {"a": many}}, "config.a"),
                              ({"stores": many}, "stores"), ({"stores": {"a": many}}, "stores.a")):
            source = self.source(result_of(run_of(), **fields))
            self.assertEqual(source.notes, [f"{where}: has 201 names; those beyond the first 200 "
                                            "are left out"])
            del many["name0"]
            self.assertEqual(self.source(result_of(run_of(), **fields)).notes, [])
            many["name0"] = 0

    def test_samples_are_read_without_notes(self):
        for name in ("bench", "compare", "race"):
            source = reading.read(str(SAMPLES / f"{name}.json"), name)
            self.assertEqual((source.kind, source.notes), (name, []))

    def test_a_point_of_a_timeline_is_a_rate_since_the_point_before(self):
        run = run_of(timeline=[{"s": 1.0, "operations": 50}, {"s": 1.5, "operations": 50}])
        self.assertEqual(self.source(result_of(run)).runs[0].timeline, [(1.0, 50), (1.5, 100)])

    def timeline(self, points, seconds=2.0):
        return self.source(result_of(run_of(timeline=points, seconds=seconds))).runs[0].timeline

    def test_a_short_last_interval_is_no_point_of_its_own(self):
        points = [{"s": 1.0, "operations": 50}, {"s": 2.0, "operations": 60},
                  {"s": 2.5, "operations": 0}]
        self.assertEqual(len(self.timeline(points)), 3)
        points[2]["s"] = 2.25
        self.assertEqual(self.timeline(points), [(1.0, 50), (2.25, 48)])
        self.assertEqual(self.timeline(points[:1]), [(1.0, 50)])
        # Short beside the usual interval, though not beside the one before it.
        points = [{"s": 1.0, "operations": 50}, {"s": 2.0, "operations": 50},
                  {"s": 2.6, "operations": 60}, {"s": 3.0, "operations": 20}]
        self.assertEqual(self.timeline(points), [(1.0, 50), (2.0, 50), (3.0, 80)])

    def test_a_point_left_out_does_not_lower_the_rate_of_the_next(self):
        points = [{"s": 1.0, "operations": 50}, {"s": 2.0, "operations": -1},
                  {"s": 3.0, "operations": 60}, {"operations": 9}, {"s": 5.0, "operations": 70},
                  {"s": 6.0, "operations": 80}]
        self.assertEqual(self.timeline(points, seconds=6.0), [(1.0, 50), (3.0, 60), (6.0, 80)])

    def test_a_stall_has_the_rate_0(self):
        def ends(*seconds):
            return [{"s": end, "operations": 50} for end in seconds]
        self.assertEqual(self.timeline(ends(1, 2, 4, 5), seconds=5.0),
                         [(1, 50), (2, 50), (3, 0), (4, 50), (5, 50)])
        # Two points of rate 0 bound a stall of any length.
        self.assertEqual(self.timeline(ends(1, 2, 3, 1e6), seconds=1e6),
                         [(1, 50), (2, 50), (3, 50), (4, 0), (999999, 0), (1e6, 50)])
        self.assertEqual(self.timeline(ends(3, 4, 5), seconds=5.0),
                         [(1, 0), (2, 0), (3, 50), (4, 50), (5, 50)])
        self.assertEqual(self.timeline(ends(1, 2), seconds=9.0),
                         [(1, 50), (2, 50), (3, 0), (8, 0), (9, 0)])
        # No stall: the operations of a second may be noted late.
        self.assertEqual(self.timeline(ends(1, 2, 3.4, 4), seconds=4.0)[2], (3.4, 50 / 1.4))
        rates = charts_of(self.source(result_of(run_of(timeline=ends(1, 2, 9), seconds=9.0))))
        self.assertEqual(rates["timeline-read"].table.rows,
                         [["a", "0", "9 s", "50", "0", "0", "50", "50"]])

    def test_claims_have_their_quartiles(self):
        source = self.source(result_of(run_of(), claims={"a": 2.5, "b": 1}, figures={
            "a": {"median": 2.5, "lower_quartile": 2.25, "upper_quartile": 3.75}}))
        self.assertEqual(source.claims, [("a", "2.5", 2.25, 3.75), ("b", "1", None, None)])
        self.assertIn("3.75", page_of(source))

    def test_missing_stores_errors_and_reasons_are_shown(self):
        text = page_of(self.source(result_of(
            run_of(), missing_stores=["lmdb"], errors=["b, read: <ended> with 9"],
            stores={"a": {"size": {"value": 4096, "why": "the default"},
                          "log": {"value": True, "why": "for kill -9"}}})))
        for shown in ("missing_stores: lmdb did not take part", "b, read: &lt;ended&gt; with 9",
                      "4096: the default", "true: for kill -9"):
            self.assertIn(shown, text)

    def test_the_summary_counts_and_a_contradiction_is_noted(self):
        entry = {"store": "a", "phase": "read", "finished": False,
                 "operations_per_s": {"median": 900, "min": 800, "max": 1000}}
        source = self.source(result_of(run_of(), summary=[entry]))
        self.assertEqual(source.rates["a", "read"], model.Rate(900, 800, 1000, False))
        self.assertIn("another median", source.notes[0])

    def test_rates_come_from_rounds_without_a_summary(self):
        source = self.source(result_of(run_of(operations_per_s=10), run_of(operations_per_s=40),
                                       run_of(operations_per_s=20, finished=False)))
        self.assertEqual(source.rates["a", "read"], model.Rate(20, 10, 40, False))

    def test_limits_are_in_operations_of_the_phase(self):
        floor = {"random_read_ops_per_s": 7.0, "sequential_read_bytes_per_s": 8192.0,
                 "sequential_write_bytes_per_s": 40960.0}
        runs = [run_of(phase=phase) for phase in ("read", "YCSB-C", "readseq", "fillseq", "ycsba")]
        source = self.source(result_of(*runs, floor=floor))
        self.assertEqual(limits.limits_of(source),
                         {"read": 7.0, "YCSB-C": 7.0, "readseq": 2.0, "fillseq": 10.0})

    def test_scans_of_several_threads_have_no_limit(self):
        # 64 threads count each record 64 times, and the device may read it once.
        floor = {"sequential_read_bytes_per_s": 8192.0, "sequential_write_bytes_per_s": 40960.0}
        runs = [run_of(phase=phase, threads=threads) for phase, threads in (
            ("range", 64), ("readseq", 1), ("readseq", 2), ("scanall", None), ("write", 64))]
        self.assertEqual(limits.limits_of(self.source(result_of(*runs, floor=floor))),
                         {"write": 10.0})
        compared = reading.read(str(SAMPLES / "compare.json"), "some")
        rate = compared.rates["engine_race", "range"].median
        self.assertGreater(rate * 4096, 10 * compared.floor["sequential_read_bytes_per_s"])
        self.assertNotIn("range", limits.limits_of(compared))

    def test_a_race_has_fio_beside_each_phase(self):
        result = sample("race")
        source = self.source(result)
        self.assertEqual([phase for _, phase in source.rates],
                         ["write", "read", "range, pass 1", "range, pass 2"])
        for phase, run in zip(result["phases"], source.runs):
            fraction = phase.get("fraction_of_device", phase.get("pass1_fraction_of_device"))
            self.assertAlmostEqual(run.rate / limits.limits_of(source)[run.phase], fraction)

    def test_a_failed_phase_is_marked(self):
        result = sample("race")
        result["phases"][1]["engine"].update(ok=False, error="the disk is <gone>")
        source = self.source(result)
        self.assertNotIn(("engine_race", "read"), source.rates)
        self.assertIn("read: failed: the disk is <gone>", source.notes[0])
        by_slug = charts_of(source)
        rows = [row for row in by_slug["throughput"].table.rows if row[0] == "read"]
        self.assertEqual(rows, [["read", "engine_race", "–", "–", "–", "–",
                                 "failed: the disk is <gone>"]])
        self.assertNotIn("latency-read", by_slug)
        picture = by_slug["throughput"].picture(charts.WIDE)
        self.assertEqual(len(marks_of(picture, "path")), 1)
        self.assertEqual(len(marks_of(picture, "rect")), 3)
        texts = [node.text for node in picture.iter("text")]
        self.assertEqual((texts.count("failed"), texts.count("read")), (1, 1))
        self.assertNotIn("†", "".join(texts))
        # In the chart's two tables and in the notes, but with no rate among all runs.
        text = page_of(source)
        cell = '<td class="words long">failed: the disk is &lt;gone&gt;</td>'
        self.assertEqual(text.count(cell), 2)

    def test_a_race_whose_phases_all_failed_has_a_page(self):
        result = sample("race")
        for phase in result["phases"]:
            phase["engine"].update(ok=False, error="")
        chart = charts_of(self.source(result))["throughput"]
        self.assertEqual(len(marks_of(chart.picture(charts.NARROW), "path")), 3)
        self.assertEqual({row[-1] for row in chart.table.rows}, {"failed: it gave no reason"})

    def test_files_that_are_no_results_are_refused(self):
        for result in ("", "{", "[]", "3", '"kind"', "{}", '{"kind": "bench"}',
                       '{"kind": ["bench"]}', '{"kind": "race", "runs": []}', '{"phases": 3}',
                       '{"phases": [3, null, []]}', '{"kind": "bench", "runs": {}}', "[" * 100000,
                       "\ufeff{}", "9" * 5000,
                       result_of(run_of(operations_per_s=-1, operations=None))):
            with self.assertRaises(reading.BadInput, msg=str(result)[:40]):
                self.source(result)

    def test_files_that_cannot_be_read_are_refused(self):
        binary = self.dir / "binary.json"
        binary.write_bytes(b"\xff\xfe\x00")
        for path in (self.dir / "none.json", self.dir, binary):
            with self.assertRaises(reading.BadInput):
                reading.read(str(path), "some")


# What fields of a hostile file may hold.
HOSTILE = (None, True, -1, 0, 1e-320, 1e-15, 1e21, math.nan, 10 ** 400, "",
           "</style><script>alert(1)</script>", "\0\ud800\u202e]]>" + "x" * 5000,
           {"a": {"a": {"a": {"a": {"a": {}}}}}}, [None, -1, {}, []])


def places_in(tree, place=()):
    """Every place in a JSON value, but of each list only its first."""
    yield place
    if isinstance(tree, dict):
        for name, inner in tree.items():
            yield from places_in(inner, place + (name,))
    elif isinstance(tree, list):
        for i, inner in enumerate(tree[:1]):
            yield from places_in(inner, place + (i,))


def replaced(tree, place, value):
    changed = copy.deepcopy(tree)
    if not place:
        return value
    inner = changed
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return changed


def small(name):
    """A sample with few runs, so that pages are made fast."""
    result = sample(name)
    if "runs" in result:
        result["runs"] = result["runs"][:2]
        for run in result["runs"]:
            run["timeline"] = run["timeline"][:2]
        result["summary"] = result["summary"][:2]
        result["bucket_fill"] = result["bucket_fill"][:8]
        for name in ("machine", "config", "stores", "claims"):
            result[name] = dict(list(result[name].items())[-2:])
    else:
        result["phases"] = result["phases"][:2]
    return result


class Hostile(Files):
    def check_page(self, source):
        text = page_of(source)
        root = ElementTree.fromstring(text)
        self.assertEqual([node for node in root.iter() if node.tag == "script"], [])
        self.assertNotRegex(text, r'="[^"]*\b(nan|inf)\b[^"]*"')
        for node in marks_of(root):
            for name in ("x", "y", "width", "height", "cx", "cy"):
                self.assertTrue(-1 <= float(node.get(name, 0)) <= 20000, (name, node.attrib))

    def test_any_field_may_hold_anything(self):
        for name in ("compare", "race"):
            result = small(name)
            self.check_page(self.source(result))
            for i, place in enumerate(places_in(result)):
                for j, value in enumerate(HOSTILE):
                    with self.subTest(name=name, place=place, value=str(value)[:40]):
                        try:
                            source = self.source(json.dumps(replaced(result, place, value)))
                        except reading.BadInput:
                            continue
                        # Pages take most of the time, so a place has one for a few of its values.
                        if (i + j) % 4 == 0:
                            self.check_page(source)

    def test_any_field_may_be_absent(self):
        for name in ("compare", "race"):
            result = small(name)
            for place in places_in(result):
                if not place or not isinstance(place[-1], str):
                    continue
                changed = copy.deepcopy(result)
                inner = changed
                for step in place[:-1]:
                    inner = inner[step]
                del inner[place[-1]]
                with self.subTest(name=name, place=place):
                    try:
                        source = self.source(changed)
                    except reading.BadInput:
                        self.assertIn(place[-1], ("kind", "phases"))
                        continue
                    self.check_page(source)

    def test_what_is_left_out_is_noted(self):
        for field, value, note in (("operations", "many", "runs[1].operations: is not a number"),
                                   ("seconds", -1, "runs[1].seconds: is negative"),
                                   ("rss_peak_bytes", math.nan, "is not a finite number"),
                                   ("bytes", 1e30, "is too large"),
                                   ("finished", 1, "is neither true nor false"),
                                   ("store", 7, "runs[1].store: is not a text"),
                                   ("latency_ns", 3, "runs[1].latency_ns: is not an object"),
                                   ("timeline", {}, "runs[1].timeline: is not a list"),
                                   ("timeline", [{"s": 1}], "timeline[0]: has no operations"),
                                   ("timeline", [{"operations": 1}], "timeline[0]: has no time")):
            source = self.source(result_of(run_of(), run_of(**{field: value})))
            self.assertTrue(any(note in noted for noted in source.notes), (note, source.notes))
            self.assertIn("Notes on the input", page_of(source))

    def test_notes_end(self):
        source = self.source(result_of(run_of(), *[3] * 500))
        self.assertEqual((len(source.notes), source.left_out > 400), (model.MAX_NOTES, True))


class Page(Files):
    def test_the_page_is_whole_by_itself(self):
        sources = [reading.read(str(SAMPLES / f"{name}.json"), name)
                   for name in ("bench", "compare", "race")]
        text = page_of(*sources)
        root = ElementTree.fromstring(text)
        for node in root.iter():
            self.assertNotIn(node.tag, ("script", "link", "img", "iframe", "object"))
            for name, value in node.attrib.items():
                self.assertFalse(name in ("src", "href") and not value.startswith("#"), value)
        self.assertNotRegex(text, r"url\(|@import|https?://(?!www\.w3\.org/2000/svg)")
        ids = [node.get("id") for node in root.iter() if node.get("id")]
        self.assertEqual(len(ids), len(set(ids)))
        for node in root.iter("a"):
            self.assertIn(node.get("href")[1:], ids)

    def test_each_chart_has_a_title_a_description_and_a_table(self):
        root = ElementTree.fromstring(page_of(reading.read(str(SAMPLES / "compare.json"), "some")))
        figures = list(root.iter("figure"))
        self.assertGreater(len(figures), 10)
        for figure in figures:
            pictures = list(figure.iter(SVG + "svg"))
            self.assertEqual(len(pictures), 2)
            for picture in pictures:
                ids = [picture.find(SVG + "title").get("id"), picture.find(SVG + "desc").get("id")]
                self.assertEqual(picture.get("aria-labelledby"), " ".join(ids))
                self.assertTrue(marks_of(picture))
            self.assertTrue(list(figure.iter("td")))

    def test_figures_of_the_file_are_on_the_page(self):
        text = page_of(self.source(result_of(
            run_of(operations_per_s=12345.0, rss_peak_bytes=3 << 30, write_amplification=1.07,
                   latency_ns={"p99": 4287}), claims={"some_claim": 5.25})))
        for shown in ("12.3k", "3 GiB", "1.07", "4.29 us", "some_claim", "5.25"):
            self.assertIn(shown, text)

    def test_markup_in_names_is_text(self):
        name = "<b>bold</b>&amp;"
        result = result_of(run_of(store=name, phase='"><i>'), machine={"<u>": "<u>"},
                         stores={name: {"<s>": "<s>"}}, claims={"<em>": 1})
        root = ElementTree.fromstring(page_of(self.source(result)))
        tags = {node.tag for node in root.iter()}
        self.assertEqual(tags & {"b", "i", "u", "s", "em"}, set())
        self.assertIn(name, [node.text for node in root.iter("td")])


class Command(Files):
    def test_a_page_and_charts_are_written(self):
        path, folder = self.dir / "page.html", self.dir / "charts"
        code, out, err = self.run_main(SAMPLES / "compare.json", SAMPLES / "race.json", "-o", path,
                                       "--svg", folder, "--title", "A <title>")
        self.assertEqual((code, out), (0, ""))
        self.assertEqual(err.splitlines()[-1], str(path))
        self.assertEqual(ElementTree.parse(path).find("head/title").text, "A <title>")
        self.assertEqual(path.stat().st_mode & 0o111, 0)
        files = sorted(folder.iterdir())
        self.assertEqual(sorted(err.splitlines()[:-1]), [str(file) for file in files])
        for file in files:
            self.assertTrue(marks_of(ElementTree.parse(file).getroot()), file)

    def test_files_of_the_same_name_are_told_apart(self):
        names = cli.names_of(["a/run.json", "b/run.json", "run", "x" * 500, "y\n.json"]
                             + ["x" * 499] * 10)
        self.assertEqual(names[:3], ["run", "run 2", "run 3"])
        self.assertEqual(len(set(names)), 15)
        self.assertTrue(all(len(name) <= cli.MAX_NAME and name.isprintable() for name in names))

    def test_bad_input_ends_with_a_message_and_writes_nothing(self):
        bad, page_path = self.file("{"), self.dir / "page.html"
        code, out, err = self.run_main(SAMPLES / "race.json", bad, "-o", page_path)
        self.assertEqual((code, out), (2, ""))
        self.assertIn(f"report: {bad}: is not JSON", err)
        self.assertFalse(page_path.exists())

    def test_output_that_cannot_be_written(self):
        file = self.file(sample("race"))
        for arguments in (["-o", self.dir / "no" / "page.html"], ["--svg", file], ["-o", file],
                          ["-o", self.dir]):
            code, _, err = self.run_main(file, *arguments)
            self.assertEqual((code, err.startswith("report: ")), (2, True), arguments)
        self.assertEqual(json.loads(pathlib.Path(file).read_text()), sample("race"))
        self.assertEqual([path.name for path in self.dir.iterdir()], ["some.json"])

    def test_an_input_is_never_overwritten(self):
        file = self.file(sample("race"))
        link = self.dir / "link.html"
        link.symlink_to(file)
        (self.dir / "charts").mkdir()
        (self.dir / "charts" / "throughput.svg").symlink_to(file)
        for arguments in (["-o", file], ["-o", link], ["--svg", self.dir / "charts"]):
            code, _, err = self.run_main(file, *arguments)
            self.assertEqual(code, 2, arguments)
            self.assertIn("is also an input; refusing to overwrite it", err)
        self.assertEqual(json.loads(pathlib.Path(file).read_text()), sample("race"))

    def test_a_link_is_written_through_and_the_mode_is_kept(self):
        page_path, link, far = (self.dir / name for name in ("page.html", "link", "far"))
        page_path.write_text("before")
        page_path.chmod(0o640)
        link.symlink_to("page.html")
        far.symlink_to(link)
        before = page_path.stat()
        code, out, err = self.run_main(SAMPLES / "race.json", "-o", far)
        self.assertEqual((code, out, err), (0, "", f"{far}\n"))
        self.assertTrue(link.is_symlink() and far.is_symlink())
        self.assertTrue(page_path.read_text().startswith("<!DOCTYPE html>"))
        self.assertEqual(page_path.stat().st_mode, before.st_mode)
        # The file was replaced as a whole, and nothing is left beside it.
        self.assertNotEqual(page_path.stat().st_ino, before.st_ino)
        self.assertEqual(len(list(self.dir.iterdir())), 3)
        dangling = self.dir / "dangling"
        dangling.symlink_to("new.html")
        self.assertEqual(self.run_main(SAMPLES / "race.json", "-o", dangling)[0], 0)
        self.assertTrue((self.dir / "new.html").is_file() and dangling.is_symlink())

    def test_open_files_devices_and_pipes_are_written_and_not_replaced(self):
        link = self.dir / "link"
        with open(self.dir / "open.html", "w+", encoding="utf-8") as file:
            link.symlink_to(f"/proc/self/fd/{file.fileno()}")
            self.assertEqual(self.run_main(SAMPLES / "race.json", "-o", link)[0], 0)
            # The program that holds the file open sees the page.
            self.assertTrue(file.read().startswith("<!DOCTYPE html>"))
        self.assertTrue(link.is_symlink())
        null = self.dir / "null"
        null.symlink_to("/dev/null")
        # Written only after this, so that a mistake does not cost the machine its device.
        for path in ("/dev/null", str(null), "/dev/stdout", "/dev/fd/1", "/dev/shm/page.html"):
            self.assertIsNone(cli.replaceable(path), path)
        self.assertEqual(self.run_main(SAMPLES / "race.json", "-o", null), (0, "", ""))
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as cat:
            self.assertEqual(self.run_main(SAMPLES / "race.json", "-o", pipe), (0, "", ""))
            self.assertTrue(cat.stdout.read().startswith(b"<!DOCTYPE html>"))
        self.assertTrue(pipe.is_fifo())
        loop = self.dir / "loop"
        loop.symlink_to("loop")
        self.assertIn("cannot be written", self.run_main(SAMPLES / "race.json", "-o", loop)[2])

    def test_wrong_command_lines(self):
        for arguments in ([], ["some.json"], ["-o", "x"], ["some.json", "-o", "x", "--frob"]):
            self.assertEqual(self.run_main(*arguments)[0], 2, arguments)
        code, out, _ = self.run_main("--help")
        self.assertEqual((code, out.startswith(cli.SUMMARY + "\nUsage: report ")), (0, True))

    def test_the_exit_codes_are_those_of_all_programs(self):
        header = (ROOT / "harness/system/exit_codes.h").read_text(encoding="utf-8")
        lines = re.findall(r'^    "(.*?)(?:\\n)?";?$', header, re.MULTILINE)
        self.assertEqual(cli.ENDING, "\n".join(lines))
        self.assertIn(cli.ENDING, self.run_main("--help")[1])

    def test_notes_are_told(self):
        code, _, err = self.run_main(self.file(result_of(run_of(), 3)), "-o", self.dir / "p.html")
        self.assertEqual(code, 0)
        self.assertIn("runs[1]: is not an object", err)


@unittest.skipUnless(shutil.which("make"), "there is no make")
class Packed(Files):
    """bin/report as the Makefile packs it, in a directory of the test."""

    def pack(self, **variables):
        """Makes the program, and returns its path and the time of its last change."""
        program = self.dir / "bin" / "report"
        variables = {"BIN": program.parent, "BUILD": self.dir / "build", **variables}
        # Not the flags of a make that runs this test.
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("MAKE", "MFLAGS"))}
        subprocess.run(["make", "-C", ROOT, program]
                       + [f"{name}={value}" for name, value in variables.items()],
                       check=True, env=environment, stdout=subprocess.DEVNULL)
        return program, program.stat().st_mtime_ns

    def test_the_packed_program_writes_the_same_page(self):
        packed, plain = self.dir / "packed.html", self.dir / "plain.html"
        moved = self.dir / "moved"
        self.pack()[0].rename(moved)
        subprocess.run([moved, SAMPLES / "bench.json", "-o", packed], check=True, cwd=self.dir,
                       stderr=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})
        self.run_main(SAMPLES / "bench.json", "-o", plain)
        self.assertEqual(packed.read_text(), plain.read_text())
        version = subprocess.run([moved, "--version"], check=True, capture_output=True, text=True,
                                 cwd=self.dir).stdout
        header = (ROOT / "include" / "engine_race_c.h").read_text(encoding="utf-8")
        numbers = re.findall(r"#define ENGINE_RACE_VERSION_\w+ (\d+)", header)
        self.assertEqual(version, f"report (engine_race) {'.'.join(numbers)}\n")

    def test_it_is_packed_again_for_other_sources_and_another_python(self):
        program, first = self.pack()
        self.assertEqual(self.pack()[1], first)
        with zipfile.ZipFile(program) as archive:
            self.assertIn("report/race.py", archive.namelist())
        sources = [f"scripts/report/{path.name}" for path in
                   sorted((ROOT / "scripts" / "report").glob("*.py")) if path.name != "race.py"]
        less = {"report_sources": " ".join(sources)}
        _, second = self.pack(**less)
        self.assertGreater(second, first)
        with zipfile.ZipFile(program) as archive:
            self.assertNotIn("report/race.py", archive.namelist())
        _, third = self.pack(REPORT_PYTHON="/opt/some python", **less)
        self.assertGreater(third, second)
        self.assertTrue(program.read_bytes().startswith(b"#!/opt/some python\n"))


class Browser(Files):
    """What the tests in the browser do where it does not start."""

    def run_with(self, script):
        """Standard output with a program of this script as the browser, in lines."""
        stub = self.dir / "chromium"
        stub.write_text(script)
        stub.chmod(0o755)
        out = io.StringIO()
        with mock.patch.object(chromium, "program", lambda: str(stub)), \
                mock.patch.object(chromium, "START_S", 1), contextlib.redirect_stdout(out):
            self.assertEqual(report_browser_test.main([]), 0)
        return out.getvalue().splitlines()

    def test_a_browser_that_does_not_start_is_a_skip(self):
        for script, why in (("#!/bin/sh\necho 'install the snap\nwith snap' >&2; exit 1\n",
                             "the browser ended; the end of the browser's log: | install the snap |"
                             " with snap"),
                            ("#!/bin/sh\nsleep 100\n", "no answer within 1 s"),
                            ("#!/no/such/shell\n", "No such file or directory")):
            lines = self.run_with(script)
            self.assertEqual(len(lines), 1, lines)
            self.assertTrue(lines[0].startswith("skipped: chromium does not start: "), lines)
            self.assertIn(why, lines[0])

    def test_a_missing_browser_is_a_skip(self):
        out = io.StringIO()
        with mock.patch.object(chromium, "program", lambda: None), contextlib.redirect_stdout(out):
            self.assertEqual(report_browser_test.main([]), 0)
        self.assertTrue(out.getvalue().startswith("skipped: chromium is missing"))

    def test_passes_are_counted_where_a_class_could_not_be_prepared(self):
        class Unprepared(unittest.TestCase):
            @classmethod
            def setUpClass(cls):
                raise OSError("no directory")

            def test_something(self):
                pass

        class Mixed(unittest.TestCase):
            def test_good(self):
                pass

            def test_bad_twice(self):
                for i in range(2):
                    with self.subTest(i=i):
                        self.fail()

        suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromTestCase(case)
                                   for case in (Unprepared, Mixed))
        result = unittest.TestResult()
        suite.run(result)
        self.assertEqual(report_browser_test.tally(result), (1, 2))


if __name__ == "__main__":
    unittest.main()
