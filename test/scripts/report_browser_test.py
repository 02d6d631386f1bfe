#!/usr/bin/env python3
"""Looks at the pages and charts of bin/report in headless Chromium, in several windows, light and
dark: no chart is empty, nothing overflows or is faint, and the console has no complaint.

    test/scripts/report_browser_test.py [--pictures DIR]

report_look.js does the looking. Pages that are broken on purpose show that each fault is found. The
last line is "N passed, N failed", or says why the tests were skipped. --pictures keeps a picture of
each page in each window.
"""
import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
sys.path.insert(0, str(ROOT / "test" / "scripts"))

import chromium  # noqa: E402
from report import cli  # noqa: E402

SAMPLES = ROOT / "test" / "scripts" / "report"
LOOK = (ROOT / "test" / "scripts" / "report_look.js").read_text(encoding="utf-8")
# A phone, the widths around which the layout changes, and a desktop.
WIDTHS = (360, 640, 641, 1000, 1199, 1260, 1400)
WORLDS = {"bench": ["bench"], "compare": ["compare"], "race": ["race"],
          "failed": ["failed"], "hostile": ["hostile"],
          "together": ["compare", "bench", "race"], "all": ["hostile", "race", "compare", "bench"]}
pictures = None
browser = None  # one for all tests
# The colours of all marks, and the part of the picture where the marks lie. Legends lie above it.
PLOT = """(() => {
  const marks = [...document.querySelectorAll('.mark')];
  const boxes = marks.map((mark) => mark.getBoundingClientRect());
  const x = Math.min(...boxes.map((box) => box.left)), y = Math.min(...boxes.map((box) => box.top));
  return {
    colours: [...new Set(marks.filter((mark) => !mark.matches('.unfinished')).map((mark) => {
      const style = getComputedStyle(mark);
      return style.fill === 'none' ? style.stroke : style.fill;
    }))],
    clip: {x, y, width: Math.max(...boxes.map((box) => box.right)) - x,
           height: Math.max(...boxes.map((box) => box.bottom)) - y},
  };
})()"""


class InBrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(holder.cleanup)
        cls.dir = pathlib.Path(holder.name)

    @classmethod
    def page_of(cls, world):
        """The page of a world, whose charts lie in a folder beside it."""
        path = cls.dir / f"{world}.html"
        if not path.exists():
            files = [str(SAMPLES / f"{name}.json") for name in WORLDS[world]]
            said = io.StringIO()
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = cli.main(files + ["-o", str(path), "--svg", str(cls.dir / world)])
            assert code == 0, said.getvalue()
        return path

    def faults(self, path, width=1000, dark=False):
        """What is wrong with the page or chart, in this window."""
        browser.open(path, width, 900, dark)
        faults = browser.evaluate(LOOK)
        return faults + [f"console: {text}" for text in browser.complaints]

    def unpainted(self, path):
        """Colours of marks that few pixels of the plot have, because something lies over them."""
        browser.open(path, 700, 900, False)
        plot = browser.evaluate(PLOT)
        self.assertTrue(plot["colours"])
        painted = browser.colours(**plot["clip"])
        return [colour for colour in plot["colours"]
                if painted.get(tuple(int(part) for part in colour[4:-1].split(",")), 0) <= 10]

    def check(self, path, width, dark):
        scheme = "dark" if dark else "light"
        with self.subTest(path=path.name, width=width, scheme=scheme):
            self.assertEqual(self.faults(path, width, dark), [])
            if pictures:
                browser.screenshot(pictures / f"{path.stem}-{width}-{scheme}.png")


class Pages(InBrowser):
    """A test for each world: see below."""

    def check_world(self, world):
        path = self.page_of(world)
        for width in WIDTHS:
            for dark in (False, True):
                self.check(path, width, dark)


class Files(InBrowser):
    def check_world(self, world):
        self.page_of(world)
        files = sorted((self.dir / world).iterdir())
        self.assertTrue(files)
        for path in files:
            for dark in (False, True):
                self.check(path, 1000, dark)

    def test_the_charts_of_the_documents(self):
        paths = sorted((ROOT / "docs").rglob("*.svg"))
        self.assertGreater(len(paths), 1)
        for path in paths:
            for dark in (False, True):
                self.check(path, 1000, dark)


for name in WORLDS:
    setattr(Pages, f"test_{name}", lambda self, world=name: self.check_world(world))
    if len(WORLDS[name]) == 1:
        setattr(Files, f"test_{name}", lambda self, world=name: self.check_world(world))


class Schemes(InBrowser):
    def test_light_and_dark_differ(self):
        path = self.page_of("bench")
        grounds = []
        for dark in (False, True):
            browser.open(path, 1000, 900, dark)
            grounds.append(browser.evaluate(
                "[getComputedStyle(document.body).backgroundColor,"
                " getComputedStyle(document.querySelector('.plate')).fill,"
                " getComputedStyle(document.querySelector('.mark')).fill]"))
        for light, dark in zip(*grounds):
            self.assertNotEqual(light, dark)

    def test_marks_are_painted(self):
        self.page_of("compare")
        for name in ("throughput", "timeline-read", "latency-read", "bucket-fill", "best-peer"):
            with self.subTest(name=name):
                self.assertEqual(self.unpainted(self.dir / "compare" / f"{name}.svg"), [])


class BrokenPages(InBrowser):
    """Each fault that report_look.js looks for, put into a good page."""

    def faults_after(self, old, new, width=1000, count=1, file=None):
        path = self.page_of("compare") if file is None else self.dir / "compare" / file
        text = path.read_text(encoding="utf-8")
        self.assertIn(old, text)
        broken = self.dir / f"broken{path.suffix}"
        broken.write_text(text.replace(old, new, count), encoding="utf-8")
        return "\n".join(self.faults(broken, width))

    def test_the_page_is_good_before(self):
        self.assertEqual(self.faults(self.page_of("compare")), [])

    def test_an_empty_chart(self):
        self.assertIn("is empty", self.faults_after('class="mark ', 'class="', count=-1))
        self.assertIn("is empty", self.faults_after('class="mark ', 'class="', count=-1,
                                                    file="throughput.svg"))

    def test_marks_without_size_colour_or_visibility(self):
        self.assertIn("has no size", self.faults_after('class="mark s0"',
                                                       'class="mark s0" transform="scale(0)"'))
        self.assertIn("has no colour", self.faults_after(".s0 { fill: var(--s0); stroke: var(--s0)",
                                                         ".s0 { fill: none; stroke: none"))
        self.assertIn("is faint", self.faults_after(".s0 { fill: var(--s0)",
                                                    ".s0 { fill: var(--surface)"))
        self.assertIn("a line is filled", self.faults_after(".line { fill: none;", ".line {"))
        self.assertIn("is hidden", self.faults_after(".s0 {", ".s0 { visibility: hidden;"))
        self.assertIn("lies outside", self.faults_after('class="mark s0"',
                                                        'class="mark s0" transform="scale(50)"'))

    def test_a_plate_over_the_plot(self):
        self.page_of("compare")
        text = (self.dir / "compare" / "timeline-read.svg").read_text(encoding="utf-8")
        ys = [float(pair.split(",")[1]) for points in re.findall(r'points="([^"]*)"', text)
              for pair in points.split()]
        plate = f'<rect class="plate" y="{min(ys) - 2}" width="640" height="300"></rect></svg>'
        broken = self.dir / "plate.svg"
        broken.write_text(text.replace("</svg>", plate), encoding="utf-8")
        # One colour for each of the five stores; their samples in the legend are still there.
        self.assertEqual(len(self.unpainted(broken)), 5)

    def test_no_chart_at_all(self):
        self.assertIn("has no chart", self.faults_after("figure", "div", count=-1))
        self.assertIn("shows 0 pictures", self.faults_after("display: block; width: 100%",
                                                            "display: none; width: 100%"))

    def test_an_overflow_of_the_page(self):
        wide = '<div style="width: 3000px">wide</div></body>'
        self.assertIn("wide in a window of 1000", self.faults_after("</body>", wide))
        self.assertIn("wide in a window of 360", self.faults_after("overflow-x: auto",
                                                                   "color: inherit", width=360))

    def test_text_that_leaves_its_chart_or_overlaps(self):
        long = "<text x=\"500\" y=\"20\">" + "long " * 20 + "</text></svg>"
        self.assertIn("lies outside", self.faults_after("</svg>", long))
        twice = '<text x="20" y="50">one</text><text x="24" y="52">two</text></svg>'
        self.assertIn("overlap", self.faults_after("</svg>", twice))

    def test_text_that_is_small_or_faint(self):
        self.assertIn("is too small", self.faults_after("font-size: 12px", "font-size: 7px"))
        self.assertIn("is faint", self.faults_after("svg text.quiet { fill: var(--quiet)",
                                                    "svg text.quiet { fill: var(--rule)"))
        self.assertIn("is faint", self.faults_after("figcaption, .quiet { color: var(--quiet)",
                                                    "figcaption, .quiet { color: var(--rule)"))

    def test_a_chart_without_table_or_name(self):
        self.assertIn("has no table", self.faults_after("td", "div", count=-1))
        self.assertIn("no one id", self.faults_after('id="throughput-wide-title"', ""))

    def test_complaints_on_the_console(self):
        self.assertIn("console: ", self.faults_after('class="mark s0"', 'class="mark s0" rx="NaN"'))
        self.assertIn("console: ", self.faults_after("<main>", '<main><img src="none.png"></img>'))
        policy = "default-src 'none'; "
        script = "<script>{}</script></body>"
        self.assertIn("console: ", self.faults_after("</body>", script.format("1")))
        path = self.page_of("compare")
        text = path.read_text(encoding="utf-8").replace(policy, "")
        broken = self.dir / "script.html"
        for code, said in (("console.error('some ' + 'words')", "console: some words"),
                           ("throw new Error('x')", "console: Uncaught")):
            broken.write_text(text.replace("</body>", script.format(code)), encoding="utf-8")
            self.assertIn(said, "\n".join(self.faults(broken)))


def tally(result):
    """(tests that passed, tests and classes that failed). A test may fail in several of its
    windows. A class whose preparation failed has run no test."""
    failed = {str(getattr(test, "test_case", test)): isinstance(test, unittest.TestCase)
              for test, _ in result.failures + result.errors}
    return result.testsRun - sum(failed.values()), len(failed)


def main(arguments):
    global browser, pictures
    if arguments[:1] == ["--pictures"] and len(arguments) == 2:
        pictures = pathlib.Path(arguments[1])
        pictures.mkdir(parents=True, exist_ok=True)
    elif arguments:
        print(__doc__, file=sys.stderr)
        return 2
    browser, why = chromium.started()
    if browser is None:
        print(f"skipped: {why}")
        return 0
    with contextlib.closing(browser):
        suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__])
        result = unittest.TextTestRunner(verbosity=2).run(suite)
    passed, failed = tally(result)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or result.testsRun == 0 else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
