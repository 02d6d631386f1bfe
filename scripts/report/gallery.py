"""Which charts a page has, and the figures that each of them shows."""
import dataclasses
import re
import statistics

from . import charts, look, ratios, scales
from .charts import Bar, Canvas, Level, Panel, Plot, Series
from .limits import limits_of
from .model import PERCENTILES
from .ratios import Ratio, is_beyond

ENGINE = "engine_race"
MAX_PHASES = 40
MAX_LINE_POINTS = 240
MAX_ROUNDS = 12  # of a store, as lines of one chart
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


def cells_of(source):
    """(store, phase) of each run and of each rate."""
    return dict.fromkeys([(run.store, run.phase) for run in source.runs] + list(source.rates))


class Entrants:
    """The stores of all files: the label of each and its colour, the same in every chart."""

    def __init__(self, sources):
        self.sources = sources
        pairs = list(dict.fromkeys((source.name, store) for source in sources
                                   for store, _ in cells_of(source)))
        pairs.sort(key=lambda pair: pair[1] != ENGINE)
        several = len(sources) > 1
        self.labels = {pair: f"{pair[1]} ({pair[0]})" if several else pair[1] for pair in pairs}
        self.colours = {pair: i for i, pair in enumerate(pairs[:look.SERIES])}
        self.not_drawn = [self.labels[pair] for pair in pairs[look.SERIES:]]
        self.limits = {source.name: limits_of(source) for source in sources}
        self.runs = {}
        self.failures = {}  # the reasons of runs that failed
        for source in sources:
            for run in source.runs:
                cell = source.name, run.store, run.phase
                if run.failure is None:
                    self.runs.setdefault(cell, []).append(run)
                else:
                    self.failures[cell] = run.failure
        phases = list(dict.fromkeys(phase for source in sources for _, phase in cells_of(source)))
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


def rate_bar(entrants, source, store, phase, label, colour):
    """The bar of a store, or None where it has neither a rate nor a failure."""
    rate = source.rates.get((store, phase))
    failure = entrants.failures.get((source.name, store, phase))
    if rate is not None:
        tip = (f"{label}, {phase}: {scales.count(rate.median)} operations/s, "
               f"{scales.count(rate.low)} to {scales.count(rate.high)}")
        return Bar(label, colour, rate.median, rate.low, rate.high, not rate.finished, tip)
    if failure is not None:
        return Bar(label, colour, None, tip=f"{label}, {phase}: failed: {failure}")
    return None


def rate_rows(entrants, phase):
    for source in entrants.sources:
        for store in (store for store, of_phase in cells_of(source) if of_phase == phase):
            label = entrants.labels[source.name, store]
            rate = source.rates.get((store, phase))
            failure = entrants.failures.get((source.name, store, phase))
            limit = entrants.limits[source.name].get(phase)
            if rate is not None:
                yield [phase, label, scales.count(rate.median), scales.count(rate.low),
                       scales.count(rate.high),
                       scales.ratio(rate.median / limit) if limit else "–",
                       "yes" if rate.finished else "no"]
            if failure is not None:
                yield [phase, label, "–", "–", "–", "–", f"failed: {failure}"]


def rate_chart(entrants, slugs):
    panels, rows = [], []
    for phase in entrants.phases:
        bars = [rate_bar(entrants, source, store, phase, label, colour)
                for source, store, label, colour in entrants.drawn()]
        bars = [bar for bar in bars if bar is not None]
        if bars:
            panels.append(Panel(phase, bars, list(entrants.levels(phase))))
        rows += rate_rows(entrants, phase)
    if not panels:
        return None
    return Chart(slugs.of("throughput"), "Operations a second by phase",
                 "A bar is the median of the rounds, its whisker goes from the least to the most. "
                 "A dashed line is what the device allows, where that is known. Each phase has an "
                 "axis of its own.",
                 lambda canvas: charts.bar_panels(canvas, panels, scales.count),
                 Table(["phase", "store", "ops/s, median", "least", "most", "of device",
                        "finished"], rows, 2), full=True)


def peer_chart(source, phases, slug, several):
    """The engine over the best peer of each phase, or None where no phase has both."""
    bars, rows = [], []
    for phase in phases:
        ours = source.rates.get((ENGINE, phase))
        peers = [(rate.median, store) for (store, of_phase), rate in source.rates.items()
                 if of_phase == phase and store != ENGINE and rate.median > 0]
        if ours is None or ours.median <= 0 or not peers:
            continue
        rate, best = max(peers)
        ratio = ours.median / rate
        signs = ("" if ours.finished else " ‡") + ("" if source.rates[best, phase].finished
                                                   else " †")
        bars.append(Ratio(phase, ratio, f"{scales.ratio(ratio)} × {best}{signs}"))
        rows.append([phase, scales.ratio(ratio), best, scales.count(ours.median),
                     scales.count(rate), "yes" if ours.finished else "no",
                     "yes" if source.rates[best, phase].finished else "no"])
    if not bars:
        return None
    beyond = (" An arrow ends a bar that is longer than the axis."
              if any(is_beyond(bar.value) for bar in bars) else "")
    return Chart(slug, f"{ENGINE} over the best peer{several}",
                 f"Operations a second of {ENGINE} over those of the best other store of each "
                 "phase, on a logarithmic axis. A bar to the right is faster than the peer, one to "
                 f"the left is slower. † marks a peer that did not finish, ‡ a run of {ENGINE} "
                 f"that did not. Each counts by the rate that it reached.{beyond}",
                 lambda canvas: ratios.ratio_chart(canvas, [("", bars)], "equal"),
                 Table(["phase", "ratio", "best peer", f"{ENGINE}, ops/s", "peer, ops/s",
                        f"{ENGINE} finished", "peer finished"], rows), full=True)


def peer_charts(entrants, slugs):
    """A chart for each comparison."""
    for source in entrants.sources:
        if not any(store == ENGINE for store, _ in source.rates) or \
                all(store == ENGINE for store, _ in source.rates):
            continue
        several = f", {source.name}" if len(entrants.sources) > 1 else ""
        chart = peer_chart(source, entrants.phases, slugs.of("best peer", several), several)
        if chart is not None:
            yield chart


def thinned(points):
    """Means of neighbouring points, so that a line has at most MAX_LINE_POINTS."""
    group = -(-len(points) // MAX_LINE_POINTS)
    if group <= 1:
        return points
    means = []
    before = 0.0
    for i in range(0, len(points), group):
        done = 0.0
        begin = before
        for at, rate in points[i:i + group]:
            done += rate * (at - before)
            before = at
        means.append((before, done / (before - begin)))
    return means


def median_over_time(points):
    """The rate that a run was at or below for half of its time."""
    times, before = [], 0.0
    for at, rate in points:
        times.append((rate, at - before))
        before = at
    passed = 0.0
    for rate, seconds in sorted(times):
        passed += seconds
        if passed >= before / 2:
            break
    return rate


def timeline_row(label, run):
    rates = [rate for _, rate in run.timeline]
    return [label, str(run.round), scales.seconds(run.timeline[-1][0]), scales.count(rates[0]),
            scales.count(min(rates)), scales.count(median_over_time(run.timeline)),
            scales.count(max(rates)), scales.count(rates[-1])]


def timeline_chart(entrants, phase, slugs):
    series, rows = [], []
    longest = most_rounds = 0
    for source, store, label, colour in entrants.drawn():
        runs = [run for run in entrants.runs_of(source, store, phase) if run.timeline]
        most_rounds = max(most_rounds, len(runs))
        rows += [timeline_row(label, run) for run in runs]
        for run in runs[:MAX_ROUNDS]:
            longest = max(longest, len(run.timeline))
            series.append(Series(label, colour, thinned(run.timeline),
                                 f"{label}, round {run.round}", not run.finished))
    if not series:
        return None
    levels = list(entrants.levels(phase))
    desc = "A line is a round. A cross ends a round that did not finish."
    if longest > MAX_LINE_POINTS:
        desc += " Long lines are means over several seconds."
    if most_rounds > MAX_ROUNDS:
        desc += f" Of each store the first {MAX_ROUNDS} rounds are drawn; the table has all."
    plot = Plot("seconds", "operations/s", scales.count, scales.count)
    return Chart(slugs.of("timeline", phase), f"{phase}: operations/s over time", desc,
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
            cells.append(scales.duration_ns(statistics.median(values)) if values else "–")
            if values:
                points.append((i, statistics.median(values)))
        if points:
            tip = f"{label}: " + ", ".join(f"{SHOWN_PERCENTILES[i]} {scales.duration_ns(value)}"
                                           for i, value in points)
            finished = all(run.finished for run in runs if run.latency_ns)
            series.append(Series(label, colour, points, tip, not finished))
            rows.append([label] + cells + ["yes" if finished else "no"])
    if not series:
        return None
    plot = Plot("", "latency", None, scales.duration_ns, list(SHOWN_PERCENTILES), log_y=True)
    return Chart(slugs.of("latency", phase), f"{phase}: latency percentiles",
                 "Medians of the rounds, on a logarithmic axis. A cross ends the line of a store "
                 "with a round that did not finish.",
                 lambda canvas: charts.line_chart(canvas, plot, series, []),
                 Table(["store"] + list(SHOWN_PERCENTILES) + ["finished"], rows))


def cpu_per_operation(run):
    if run.cpu_s is None or not run.operations:
        return None
    return run.cpu_s / run.operations * 1e9


def memory_levels(entrants):
    several = len(entrants.sources) > 1
    return [Level(f"limit ({source.name})" if several else "limit", source.memory_limit_bytes)
            for source in entrants.sources if source.memory_limit_bytes]


# Title, description, figure of a run, how it is written, and the levels of a chart, if it has any.
RESOURCES = (
    ("Write amplification", "Bytes written to the device over bytes of keys and values.",
     lambda run: run.write_amplification, scales.ratio, None),
    ("Space amplification", "Bytes on disk over bytes of keys and values.",
     lambda run: run.space_amplification, scales.ratio, None),
    ("Peak memory", "Resident memory of the process at its largest.",
     lambda run: run.rss_peak_bytes, scales.bytes_, memory_levels),
    ("CPU time of an operation", "CPU time of the process, user and system, over its operations.",
     cpu_per_operation, scales.duration_ns, None),
)


def resource_chart(entrants, slugs, title, desc, value_of, show, levels_of):
    panels, rows = [], []
    levels = levels_of(entrants) if levels_of else []
    for phase in entrants.phases:
        bars = []
        for source, store, label, colour in entrants.drawn():
            runs = [run for run in entrants.runs_of(source, store, phase)
                    if value_of(run) is not None]
            if runs:
                values = [value_of(run) for run in runs]
                low, high, middle = min(values), max(values), statistics.median(values)
                finished = all(run.finished for run in runs)
                bars.append(Bar(label, colour, middle, low, high, not finished,
                                f"{label}, {phase}: {show(middle)}"))
                rows.append([phase, label, show(middle), show(low), show(high),
                             "yes" if finished else "no"])
        if bars:
            panels.append(Panel(phase, bars, levels))
    if not panels:
        return None
    return Chart(slugs.of(title), title, desc + " Medians, least and most of the rounds.",
                 lambda canvas: charts.bar_panels(canvas, panels, show),
                 Table(["phase", "store", "median", "least", "most", "finished"], rows, 2))


MAX_BINS = 32


def bins_of(values):
    """[(from, to, how many)] of whole numbers, about MAX_BINS bins of a round width at most."""
    low, top = min(values), max(values)
    ticks = scales.ticks(max(top - low, 1), MAX_BINS - 2)
    width = max(ticks[1] if len(ticks) > 1 else 1, 1)
    first = low // width
    counts = [0] * (int(top // width - first) + 1)
    for value in values:
        counts[int(value // width - first)] += 1
    return [((first + i) * width, (first + i + 1) * width, count)
            for i, count in enumerate(counts)]


def fill_charts(entrants, slugs):
    for source in entrants.sources:
        values = source.bucket_fill
        if not values:
            continue
        bins = bins_of(values)
        several = f", {source.name}" if len(entrants.sources) > 1 else ""
        rows = [["buckets", scales.count(len(values))], ["records", scales.count(sum(values))],
                ["least", scales.count(min(values))],
                ["median", scales.count(statistics.median(values))],
                ["mean", scales.count(sum(values) / len(values))],
                ["most", scales.count(max(values))],
                ["empty buckets", scales.count(values.count(0))]]
        yield Chart(slugs.of("bucket fill", several), f"Bucket fill{several}",
                    "How many buckets hold how many records.",
                    lambda canvas, bins=bins: charts.histogram(canvas, bins, "records in a bucket",
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
        Section("Amplification, memory and CPU time", [chart for chart in resources if chart]),
        Section("Bucket fill", list(fill_charts(entrants, slugs))),
    ]
    return [section for section in sections if section.charts]
