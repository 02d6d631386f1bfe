"""Which charts a page has, and the figures that each of them shows."""
import dataclasses
import re

from . import charts, look, scales
from .charts import Bar, Canvas, Level, Panel, Plot, Ratio, Series
from .limits import limits_of
from .model import PERCENTILES, median

ENGINE = "engine_race"
MAX_PHASES = 40
MAX_LINE_POINTS = 240
SHOWN_PERCENTILES = ("P50", "P90", "P99", "P99.9", "P99.99", "max")


@dataclasses.dataclass
class Table:
    heads: list
    rows: list
    words: int = 1  # columns from the left that are words


@dataclasses.dataclass
class Chart:
    slug: str
    title: str
    desc: str
    draw: object  # draws onto a canvas
    table: Table
    full: bool = False  # takes the whole width of a page

    def picture(self, width, shows_title=False):
        canvas = Canvas(self.slug, self.title, self.desc, width, shows_title)
        self.draw(canvas)
        return canvas.finish()


@dataclasses.dataclass
class Section:
    title: str
    charts: list


class Entrants:
    """The stores of all files: the label of each and its colour, the same in every chart."""

    def __init__(self, sources):
        self.sources = sources
        found = list(dict.fromkeys((source.name, store) for source in sources
                                   for store, _ in source.rates))
        found.sort(key=lambda pair: pair[1] != ENGINE)
        several = len(sources) > 1
        self.labels = {pair: f"{pair[1]} ({pair[0]})" if several else pair[1] for pair in found}
        self.colours = {pair: i for i, pair in enumerate(found[:look.SERIES])}
        self.not_drawn = [self.labels[pair] for pair in found[look.SERIES:]]
        self.limits = {source.name: limits_of(source) for source in sources}
        self.runs = {}
        for source in sources:
            for run in source.runs:
                self.runs.setdefault((source.name, run.store, run.phase), []).append(run)
        phases = list(dict.fromkeys(phase for source in sources for _, phase in source.rates))
        self.phases = phases[:MAX_PHASES]
        self.phases_not_drawn = phases[MAX_PHASES:]

    def drawn(self):
        """(source, store, label, colour) of each store that has a colour."""
        by_name = {source.name: source for source in self.sources}
        for (name, store), colour in self.colours.items():
            yield by_name[name], store, self.labels[name, store], colour

    def runs_of(self, source, store, phase):
        return self.runs.get((source.name, store, phase), [])

    def levels(self, phase):
        several = len(self.sources) > 1
        for source in self.sources:
            limit = self.limits[source.name].get(phase)
            if limit:
                yield Level(f"device ({source.name})" if several else "device", limit)


class Slugs:
    """Names of files and anchors: unlike each other, of small letters and digits."""

    def __init__(self):
        self.taken = set()

    def of(self, *words):
        plain = re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:60].strip("-")
        slug, i = plain or "chart", 1
        while slug in self.taken:
            i += 1
            slug = f"{plain or 'chart'}-{i}"
        self.taken.add(slug)
        return slug


def rate_chart(entrants, slugs):
    panels, rows = [], []
    for phase in entrants.phases:
        bars = []
        levels = list(entrants.levels(phase))
        for source, store, label, colour in entrants.drawn():
            rate = source.rates.get((store, phase))
            if rate is None:
                continue
            tip = (f"{label}, {phase}: {scales.count(rate.median)} operations/s, "
                   f"{scales.count(rate.low)} to {scales.count(rate.high)}")
            bars.append(Bar(label, colour, rate.median, rate.low, rate.high, not rate.finished,
                            tip))
        panels.append(Panel(phase, bars, levels))
    for phase in entrants.phases:
        for source in entrants.sources:
            for store in dict.fromkeys(store for store, held in source.rates if held == phase):
                rate = source.rates[store, phase]
                limit = entrants.limits[source.name].get(phase)
                rows.append([phase, entrants.labels[source.name, store], scales.count(rate.median),
                             scales.count(rate.low), scales.count(rate.high),
                             scales.ratio(rate.median / limit) if limit else "–",
                             "yes" if rate.finished else "no"])
    panels = [panel for panel in panels if panel.bars]
    if not panels:
        return None
    return Chart(slugs.of("throughput"), "Operations a second by phase",
                 "A bar is the median of the rounds, its whisker goes from the least to the most. "
                 "A dashed line is what the device allows. Each phase has an axis of its own.",
                 lambda canvas: charts.bar_panels(canvas, panels, scales.count),
                 Table(["phase", "store", "ops/s, median", "least", "most", "of device",
                        "finished"], rows, 2), full=True)


def peer_charts(entrants, slugs):
    """For each comparison: the engine over the best peer of each phase."""
    for source in entrants.sources:
        ratios, rows = [], []
        for phase in entrants.phases:
            ours = source.rates.get((ENGINE, phase))
            peers = [(rate.median, store) for (store, held), rate in source.rates.items()
                     if held == phase and store != ENGINE and rate.median > 0]
            if ours is None or ours.median <= 0 or not peers:
                continue
            rate, best = max(peers)
            ratio = ours.median / rate
            finished = source.rates[best, phase].finished
            ratios.append(Ratio(phase, ratio,
                                f"{scales.ratio(ratio)} × {best}" + ("" if finished else " †")))
            mark = "" if finished else ", did not finish"
            rows.append([phase, scales.ratio(ratio), best + mark, scales.count(ours.median),
                         scales.count(rate)])
        if ratios:
            several = f", {source.name}" if len(entrants.sources) > 1 else ""
            yield Chart(slugs.of("best peer", several), f"{ENGINE} over the best peer{several}",
                        f"Operations a second of {ENGINE} over those of the best other store of "
                        "each phase, on a logarithmic axis. A bar to the right is faster than the "
                        "peer, one to the left is slower. A peer with † did not finish and counts "
                        "by the rate that it reached.",
                        lambda canvas, held=ratios: charts.ratio_chart(canvas, [("", held)],
                                                                       "equal"),
                        Table(["phase", "ratio", "best peer", f"{ENGINE}, ops/s", "peer, ops/s"],
                              rows), full=True)


def thinned(points):
    """Means of neighbouring points, so that a line has at most MAX_LINE_POINTS."""
    group = -(-len(points) // MAX_LINE_POINTS)
    if group <= 1:
        return points
    made = []
    before = 0.0
    for i in range(0, len(points), group):
        held = points[i:i + group]
        done = 0.0
        begin = before
        for at, rate in held:
            done += rate * (at - before)
            before = at
        made.append((before, done / (before - begin)))
    return made


def timeline_chart(entrants, phase, slugs):
    series, rows = [], []
    longest = 0
    for source, store, label, colour in entrants.drawn():
        for run in entrants.runs_of(source, store, phase):
            if not run.timeline:
                continue
            rates = [rate for _, rate in run.timeline]
            longest = max(longest, len(rates))
            series.append(Series(label, colour, thinned(run.timeline),
                                 f"{label}, round {run.round}", not run.finished))
            rows.append([label, str(run.round), scales.seconds(run.timeline[-1][0]),
                         scales.count(rates[0]), scales.count(min(rates)),
                         scales.count(median(rates)), scales.count(max(rates)),
                         scales.count(rates[-1])])
    if not series:
        return None
    levels = list(entrants.levels(phase))
    thinning = " Long lines are means over several seconds." if longest > MAX_LINE_POINTS else ""
    plot = Plot("seconds", "operations/s", scales.count, scales.count)
    return Chart(slugs.of("timeline", phase), f"{phase}: operations/s over time",
                 "A line is a round. A cross ends a round that did not finish." + thinning,
                 lambda canvas: charts.line_chart(canvas, plot, series, levels),
                 Table(["store", "round", "length", "first", "least", "median", "most", "last"],
                       rows))


def latency_chart(entrants, phase, slugs):
    series, rows = [], []
    for source, store, label, colour in entrants.drawn():
        runs = entrants.runs_of(source, store, phase)
        points, cells = [], []
        for i, name in enumerate(PERCENTILES):
            values = [run.latency_ns[name] for run in runs if run.latency_ns.get(name, 0) > 0]
            cells.append(scales.duration_ns(median(values)) if values else "–")
            if values:
                points.append((i, median(values)))
        if points:
            tip = f"{label}: " + ", ".join(f"{SHOWN_PERCENTILES[i]} {scales.duration_ns(value)}"
                                           for i, value in points)
            series.append(Series(label, colour, points, tip))
            rows.append([label] + cells)
    if not series:
        return None
    plot = Plot("", "latency", None, scales.duration_ns, list(SHOWN_PERCENTILES), log_y=True)
    return Chart(slugs.of("latency", phase), f"{phase}: latency percentiles",
                 "Medians of the rounds, on a logarithmic axis.",
                 lambda canvas: charts.line_chart(canvas, plot, series, []),
                 Table(["store"] + list(SHOWN_PERCENTILES), rows))


def cpu_per_operation(run):
    if run.cpu_s is None or not run.operations:
        return None
    return run.cpu_s / run.operations * 1e9


RESOURCES = (
    ("Write amplification", "Bytes written to the device over bytes of keys and values.",
     lambda run: run.write_amplification, scales.ratio),
    ("Space amplification", "Bytes on disk over bytes of keys and values.",
     lambda run: run.space_amplification, scales.ratio),
    ("Peak memory", "Resident memory of the process at its largest.",
     lambda run: run.rss_peak_bytes, scales.bytes_),
    ("CPU time of an operation", "CPU time of the process, user and system, over its operations.",
     cpu_per_operation, scales.duration_ns),
)


def resource_chart(entrants, slugs, title, desc, value_of, show):
    panels, rows = [], []
    for phase in entrants.phases:
        bars = []
        for source, store, label, colour in entrants.drawn():
            values = [value for run in entrants.runs_of(source, store, phase)
                      for value in [value_of(run)] if value is not None]
            if values:
                low, high, middle = min(values), max(values), median(values)
                bars.append(Bar(label, colour, middle, low, high,
                                tip=f"{label}, {phase}: {show(middle)}"))
                rows.append([phase, label, show(middle), show(low), show(high)])
        if bars:
            levels = memory_levels(entrants) if show is scales.bytes_ else []
            panels.append(Panel(phase, bars, levels))
    if not panels:
        return None
    return Chart(slugs.of(title), title, desc + " Medians, least and most of the rounds.",
                 lambda canvas: charts.bar_panels(canvas, panels, show),
                 Table(["phase", "store", "median", "least", "most"], rows, 2))


def memory_levels(entrants):
    several = len(entrants.sources) > 1
    return [Level(f"limit ({source.name})" if several else "limit", source.memory_limit_bytes)
            for source in entrants.sources if source.memory_limit_bytes]


MAX_BINS = 32


def bins_of(values):
    """[(from, to, how many)] of whole numbers, about MAX_BINS bins of a round width at most."""
    low, top = min(values), max(values)
    found = scales.ticks(max(top - low, 1), MAX_BINS - 2)
    width = max(found[1] if len(found) > 1 else 1, 1)
    first = low // width
    made = [0] * (int(top // width - first) + 1)
    for value in values:
        made[int(value // width - first)] += 1
    return [((first + i) * width, (first + i + 1) * width, held) for i, held in enumerate(made)]


def fill_charts(entrants, slugs):
    for source in entrants.sources:
        values = source.bucket_fill
        if not values:
            continue
        bins = bins_of(values)
        several = f", {source.name}" if len(entrants.sources) > 1 else ""
        rows = [["buckets", scales.count(len(values))], ["records", scales.count(sum(values))],
                ["least", scales.count(min(values))], ["median", scales.count(median(values))],
                ["mean", scales.count(sum(values) / len(values))],
                ["most", scales.count(max(values))],
                ["empty buckets", scales.count(values.count(0))]]
        yield Chart(slugs.of("bucket fill", several), f"Bucket fill{several}",
                    "How many buckets hold how many records.",
                    lambda canvas, held=bins: charts.histogram(canvas, held, "records in a bucket",
                                                               "buckets"),
                    Table(["", "figure"], rows))


def sections_of(entrants):
    """The sections of a page that have a chart."""
    slugs = Slugs()

    def by_phase(chart_of):
        return [chart for phase in entrants.phases
                for chart in [chart_of(entrants, phase, slugs)] if chart]

    resources = [resource_chart(entrants, slugs, *resource) for resource in RESOURCES]
    throughput = rate_chart(entrants, slugs)
    sections = [
        Section("Beside the best peer", list(peer_charts(entrants, slugs))),
        Section("Throughput", [throughput] if throughput else []),
        Section("Over time", by_phase(timeline_chart)),
        Section("Latency", by_phase(latency_chart)),
        Section("Amplification, memory and CPU time", [one for one in resources if one]),
        Section("Bucket fill", list(fill_charts(entrants, slugs))),
    ]
    return [section for section in sections if section.charts]
