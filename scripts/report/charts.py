"""Charts as SVG: bars in panels, lines and histograms; ratios.py has one more.

Each function draws onto a canvas of any width, so a page has a wide and a narrow picture of the
same chart. Elements of the class "mark" stand for numbers of the input; the test in the browser
looks at them.
"""
import dataclasses

from . import look, scales
from .markup import element, fit, number, text_width, to_text

WIDE, NARROW = 640, 300
PAD = 8
ROW = 20


@dataclasses.dataclass
class Bar:
    label: str
    colour: int
    value: float  # None of a run that failed
    low: float = None
    high: float = None
    unfinished: bool = False
    tip: str = ""


@dataclasses.dataclass
class Level:
    """A line across a chart, such as what the device allows."""
    label: str
    value: float


@dataclasses.dataclass
class Panel:
    name: str
    bars: list
    levels: list


@dataclasses.dataclass
class Series:
    label: str
    colour: int
    points: list  # [(x, y)]
    tip: str = ""
    unfinished: bool = False


class Canvas:
    """An SVG picture that grows downward. `y` is where the next thing goes. One that stands alone
    shows its title; on a page the title stands above it."""

    def __init__(self, slug, title, desc, width, shows_title=False):
        self.width = width
        self.y = PAD
        variant = "wide" if width >= WIDE else "narrow"
        names = [f"{slug}-{variant}-title", f"{slug}-{variant}-desc"]
        self.root = element(None, "svg", xmlns="http://www.w3.org/2000/svg", role="img",
                            aria_labelledby=" ".join(names), class_=f"chart {variant}")
        element(self.root, "title", title, id=names[0])
        element(self.root, "desc", desc, id=names[1])
        self.plate = element(self.root, "rect", class_="plate", width=width)
        if shows_title:
            self.text(PAD, self.y + 14, fit(title, width - 2 * PAD, 14), "head title")
            self.y += ROW + 6

    def text(self, x, y, text, class_=None, anchor=None):
        element(self.root, "text", text, x=x, y=y, class_=class_, text_anchor=anchor)

    def line(self, x1, y1, x2, y2, class_):
        element(self.root, "line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)

    def mark(self, tag, tip, class_, **attributes):
        """A mark with a title, which browsers show to a resting pointer."""
        mark = element(self.root, tag, class_=f"mark {class_}", **attributes)
        if tip:
            element(mark, "title", tip)

    def legend(self, entries):
        """[(label, class of its sample)], in as many lines as they need."""
        x = PAD
        for label, class_ in entries:
            shown = fit(label, self.width - 2 * PAD - 30)
            width = 26 + text_width(shown) + 12
            if x > PAD and x + width > self.width:
                x, self.y = PAD, self.y + ROW
            if class_.startswith("s"):
                self.line(x, self.y + 8, x + 20, self.y + 8, f"line {class_}")
            else:
                self.line(x, self.y + 8, x + 20, self.y + 8, class_)
            self.text(x + 26, self.y + 12, shown)
            x += width
        self.y += ROW + 4

    def finish(self):
        height = self.y + PAD
        self.root.set("viewBox", f"0 0 {number(self.width)} {number(height)}")
        self.root.set("width", number(self.width))
        self.root.set("height", number(height))
        self.plate.set("height", number(height))
        return self.root


def labels_that_fit(places, texts, room):
    """Indices of ticks whose texts do not touch each other, centred at `places`."""
    kept, end = [], -1e9
    for i, (place, text) in enumerate(zip(places, texts)):
        half = text_width(text, 11) / 2
        if place - half >= max(end + 4, 0) and place + half <= room:
            kept.append(i)
            end = place + half
    return kept


def draw_ticks_below(canvas, axis, most, top, bottom, show):
    """Lines from `top` to `bottom` and numbers below them."""
    ticks = axis.ticks(most)
    places, texts = [axis.place(tick) for tick in ticks], [show(tick) for tick in ticks]
    kept = labels_that_fit(places, texts, canvas.width)
    for i, place in enumerate(places):
        canvas.line(place, top, place, bottom, "rule")
        if i in kept:
            canvas.text(place, bottom + 13, texts[i], "quiet small", "middle")


BEYOND = 3  # a level this many times above all bars is not drawn, but only named


def is_drawn(level, top):
    return level.value <= BEYOND * top


def level_text(level, show, drawn):
    return f"{level.label}: {show(level.value)}" + ("" if drawn else ", beyond the axis")


def bar_panels(canvas, panels, show):
    """Bars from the left, one panel below the other, each with an axis of its own from zero. Names
    that are too long for the space beside the bars stand above them."""
    widest = max(text_width(bar.label) for panel in panels for bar in panel.bars)
    above = canvas.width < WIDE and widest > 0.34 * canvas.width
    left = PAD if above else PAD + min(widest, 0.34 * canvas.width) + 8
    right = canvas.width - PAD - 64
    row = ROW * 2 - 4 if above else ROW
    for panel in panels:
        top = max([max(bar.value, bar.high or 0) for bar in panel.bars if bar.value is not None],
                  default=0) or 1
        drawn = [level for level in panel.levels if is_drawn(level, top)]
        axis = scales.Linear(0, max([top] + [level.value for level in drawn]), left, right)
        canvas.text(PAD, canvas.y + 14, fit(panel.name, canvas.width - 2 * PAD), "head")
        canvas.y += ROW
        for level in panel.levels:
            canvas.line(PAD, canvas.y + 8, PAD + 20, canvas.y + 8, "limit")
            canvas.text(PAD + 26, canvas.y + 12,
                        fit(level_text(level, show, level in drawn), canvas.width - 50, 11),
                        "quiet small")
            canvas.y += ROW - 3
        begin, end = canvas.y + 2, canvas.y + 2 + row * len(panel.bars)
        if any(bar.value is not None for bar in panel.bars):
            draw_ticks_below(canvas, axis, 4, begin, end, show)
        for bar in panel.bars:
            if above:
                canvas.text(PAD + 3, canvas.y + 15, fit(bar.label, canvas.width - 2 * PAD))
            else:
                canvas.text(left - 6, canvas.y + 16, fit(bar.label, left - 6 - PAD), None, "end")
            canvas.y += row
            draw_bar(canvas, bar, axis, canvas.y - ROW + 2, show)
        for level in drawn:
            canvas.line(axis.place(level.value), begin, axis.place(level.value), end, "limit")
        canvas.line(left, begin, left, end, "axis")
        canvas.y = end + ROW + 6
    if any(bar.unfinished for panel in panels for bar in panel.bars):
        canvas.text(PAD, canvas.y + 8, fit("† did not finish: what it reached in its time",
                                           canvas.width - 2 * PAD, 11), "quiet small")
        canvas.y += ROW


def draw_bar(canvas, bar, axis, y, show):
    """The bar, its whisker and its number; `y` is the top of its row. A failure has a cross."""
    if bar.value is None:
        draw_cross(canvas, axis.begin + 12, y + ROW / 2, bar)
        canvas.text(axis.begin + 24, y + 14, "failed")
        return
    class_ = f"s{bar.colour}" + (" unfinished" if bar.unfinished else "")
    canvas.mark("rect", bar.tip, class_, x=axis.begin, y=y + 4,
                width=max(axis.place(bar.value) - axis.begin, 1.0), height=ROW - 8)
    if bar.low is not None and bar.high is not None and bar.low < bar.high:
        low, high = axis.place(bar.low), axis.place(bar.high)
        canvas.line(low, y + ROW / 2, high, y + ROW / 2, "whisker")
        for x in (low, high):
            canvas.line(x, y + 6, x, y + ROW - 6, "whisker")
    canvas.text(axis.end + 8, y + 14, show(bar.value) + (" †" if bar.unfinished else ""))


@dataclasses.dataclass
class Plot:
    """The axes of a chart of lines. Where x is no number, `names` are the places of its axis."""
    x_title: str
    y_title: str
    show_x: object
    show_y: object
    names: list = None
    log_y: bool = False


def line_chart(canvas, plot, series, levels):
    highest = max(y for line in series for _, y in line.points)
    drawn = [level for level in levels if is_drawn(level, highest or 1)]
    entries = list(dict.fromkeys(
        (line.label + (" (did not finish)" if line.unfinished else ""), f"s{line.colour}")
        for line in series))
    entries += [(level_text(level, plot.show_y, level in drawn), "limit") for level in levels]
    canvas.legend(entries)
    canvas.text(PAD, canvas.y + 12, fit(plot.y_title, canvas.width - 2 * PAD), "quiet")
    canvas.y += ROW
    top, bottom = canvas.y + 4, canvas.y + 4 + (230 if canvas.width >= WIDE else 200)
    if plot.log_y:
        lowest = min(y for line in series for _, y in line.points)
        y_axis = scales.Log(lowest, highest, bottom, top)
    else:
        y_axis = scales.Linear(0, max([highest] + [level.value for level in drawn]) * 1.05,
                               bottom, top)
    ticks = y_axis.ticks(6)
    left = PAD + max(text_width(plot.show_y(tick), 11) for tick in ticks) + 8
    right = canvas.width - PAD - 8
    for tick in ticks:
        canvas.line(left, y_axis.place(tick), right, y_axis.place(tick), "rule")
        canvas.text(left - 6, y_axis.place(tick) + 4, plot.show_y(tick), "quiet small", "end")
    if plot.names:
        step = (right - left) / len(plot.names)

        def place_x(x):
            return left + step * (x + 0.5)
        places = [place_x(i) for i in range(len(plot.names))]
        for i in labels_that_fit(places, plot.names, canvas.width):
            canvas.text(places[i], bottom + 15, plot.names[i], "quiet small", "middle")
    else:
        x_axis = scales.Linear(min(0, min(x for line in series for x, _ in line.points)),
                               max(x for line in series for x, _ in line.points), left, right)
        place_x = x_axis.place
        draw_ticks_below(canvas, x_axis, 6 if canvas.width >= WIDE else 4, top, bottom, plot.show_x)
    for level in drawn:
        canvas.line(left, y_axis.place(level.value), right, y_axis.place(level.value), "limit")
    canvas.line(left, bottom, right, bottom, "axis")
    for line in series:
        draw_series(canvas, line, [(place_x(x), y_axis.place(y)) for x, y in line.points],
                    marks_points=bool(plot.names) or len(line.points) < 3)
    canvas.y = bottom + ROW
    if plot.x_title:
        canvas.text((left + right) / 2, canvas.y + 10, plot.x_title, "quiet small", "middle")
        canvas.y += ROW - 4


def draw_series(canvas, series, places, marks_points):
    if len(places) > 1:
        canvas.mark("polyline", series.tip, f"line s{series.colour}",
                    points=" ".join(f"{number(x)},{number(y)}" for x, y in places))
    if marks_points:
        for x, y in places:
            draw_point(canvas, x, y, series)
    if series.unfinished:
        draw_cross(canvas, *places[-1], series)


def draw_cross(canvas, x, y, entry):
    canvas.mark("path", entry.tip, f"s{entry.colour}", stroke_width=2,
                d=f"M{number(x - 5)},{number(y - 5)} l10,10 m0,-10 l-10,10")


def draw_point(canvas, x, y, series):
    """A circle, a square, a triangle or a diamond, by the colour."""
    class_ = f"s{series.colour}"
    shape = series.colour % 4
    if shape == 0:
        canvas.mark("circle", series.tip, class_, cx=x, cy=y, r=3.5)
    elif shape == 1:
        canvas.mark("rect", series.tip, class_, x=x - 3, y=y - 3, width=6, height=6)
    else:
        path = "M{0},{1} l4,7 l-8,0 z" if shape == 2 else "M{0},{1} l4.5,4.5 l-4.5,4.5 l-4.5,-4.5 z"
        canvas.mark("path", series.tip, class_,
                    d=path.format(number(x), number(y - (4 if shape == 2 else 4.5))))


def histogram(canvas, bins, x_title, y_title):
    """[(from, to, how many)], the bins next to each other, all of a width."""
    canvas.text(PAD, canvas.y + 12, fit(y_title, canvas.width - 2 * PAD), "quiet")
    canvas.y += ROW
    top, bottom = canvas.y + 4, canvas.y + 204
    y_axis = scales.Linear(0, max(count for _, _, count in bins) * 1.05, bottom, top)
    ticks = y_axis.ticks(5)
    left = PAD + max(text_width(scales.count(tick), 11) for tick in ticks) + 8
    right = canvas.width - PAD - 8
    for tick in ticks:
        canvas.line(left, y_axis.place(tick), right, y_axis.place(tick), "rule")
        canvas.text(left - 6, y_axis.place(tick) + 4, scales.count(tick), "quiet small", "end")
    x_axis = scales.Linear(bins[0][0], bins[-1][1], left, right)
    draw_ticks_below(canvas, x_axis, 6 if canvas.width >= WIDE else 4, bottom, bottom + 4,
                     scales.count)
    for begin, end, count in bins:
        if count == 0:
            continue
        x = x_axis.place(begin)
        width = max(x_axis.place(end) - x - 1, 1.0)
        y = min(y_axis.place(count), bottom - 1)
        canvas.mark("rect", f"{begin:g} to below {end:g}: {count}", "s0", x=x, y=y, width=width,
                    height=bottom - y)
    canvas.line(left, bottom, right, bottom, "axis")
    canvas.y = bottom + ROW
    canvas.text((left + right) / 2, canvas.y + 10, fit(x_title, canvas.width - 2 * PAD, 11),
                "quiet small", "middle")
    canvas.y += ROW - 4


def stand_alone(root):
    """The text of an SVG file that needs no page around it."""
    root.insert(2, element(None, "style", look.svg_style()))
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + to_text(root) + "\n"
