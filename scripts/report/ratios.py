"""A chart of ratios as SVG: bars to both sides of one, on a logarithmic axis."""
import dataclasses
import math

from .charts import PAD, ROW, WIDE, labels_that_fit
from .markup import fit, number, text_width


@dataclasses.dataclass
class Ratio:
    name: str
    value: float
    note: str


RATIO_POWERS = -6, 7  # of two: a bar of a ratio beyond them ends in an arrow


def is_beyond(ratio):
    return not RATIO_POWERS[0] <= math.log2(ratio) <= RATIO_POWERS[1]


class RatioAxis:
    """A logarithmic axis around one that is long enough for the ratios."""

    def __init__(self, values, begin, end):
        low, top = RATIO_POWERS
        powers = [math.log2(value) for value in values] + [-1, 1]
        self.low = max(low, math.floor(min(powers)))
        self.top = min(top, math.ceil(max(powers)))
        self.begin, self.end = begin, end

    def place(self, value):
        power = min(max(math.log2(value), self.low), self.top)
        return self.begin + (self.end - self.begin) * (power - self.low) / (self.top - self.low)

    def ticks(self):
        return [2.0 ** power for power in range(self.low, self.top + 1)]


def draw_ratio_ticks(canvas, axis, top, bottom, middle_name):
    """Lines with their numbers above; `middle_name` takes the place of the number 1."""
    ticks = axis.ticks()
    shown = [f"{tick:g} ×" if tick > 1 else f"1/{1 / tick:g} ×" for tick in ticks]
    places = [axis.place(tick) for tick in ticks]
    middle = ticks.index(1)
    shown[middle] = middle_name
    # Numbers are kept from the middle outwards, so that `middle_name` is always shown.
    right = labels_that_fit(places[middle:], shown[middle:], canvas.width)
    mirrored = [canvas.width - place for place in places[middle::-1]]
    left = labels_that_fit(mirrored, shown[middle::-1], canvas.width)
    kept = {middle + i for i in right} | {middle - i for i in left}
    for i, place in enumerate(places):
        canvas.line(place, top - 4, place, bottom, "axis" if i == middle else "rule")
        if i in kept:
            canvas.text(place, top - 8, shown[i], "quiet small", "middle")


def ratio_chart(canvas, sections, middle_name):
    """[(heading, [Ratio])]: a bar to the right of the line is better than what `middle_name` says,
    and a bar to the left is worse. On a narrow canvas names and notes stand above the bars."""
    rows = [row for _, rows in sections for row in rows]
    above = canvas.width < WIDE
    left = PAD + min(max(text_width(row.name) for row in rows), 0.35 * canvas.width) + 8
    room = min(max(text_width(row.note) for row in rows), (0.6 if above else 0.3) * canvas.width)
    note_x = canvas.width - PAD - room
    if above:
        axis = RatioAxis([row.value for row in rows], PAD + 12, canvas.width - PAD - 12)
    else:
        axis = RatioAxis([row.value for row in rows], left + 4, note_x - 16)
    height = ROW * 2 - 4 if above else ROW
    canvas.y += ROW
    top = canvas.y
    bottom = top + height * len(rows) + sum(ROW + 4 for heading, _ in sections if heading)
    draw_ratio_ticks(canvas, axis, top, bottom, middle_name)
    for heading, section in sections:
        if heading:
            canvas.text(PAD, canvas.y + 18, fit(heading, canvas.width - 2 * PAD), "head")
            canvas.y += ROW + 4
        for row in section:
            if above:
                canvas.text(PAD, canvas.y + 15, fit(row.name, note_x - 2 * PAD))
                canvas.text(canvas.width - PAD, canvas.y + 15, fit(row.note, room), None, "end")
            else:
                canvas.text(left - 6, canvas.y + 14, fit(row.name, left - 6 - PAD), None, "end")
                canvas.text(note_x, canvas.y + 14, fit(row.note, room))
            canvas.y += height
            begin, end = sorted((axis.place(1), axis.place(row.value)))
            tip, class_ = f"{row.name}: {row.note}", "good" if row.value >= 1 else "bad"
            canvas.mark("rect", tip, class_, x=begin, y=canvas.y - ROW + 4,
                        width=max(end - begin, 1.5), height=ROW - 8)
            if is_beyond(row.value):
                x, step = (end, 8) if row.value > 1 else (begin, -8)
                canvas.mark("path", tip, class_,
                            d=f"M{number(x)},{number(canvas.y - ROW)} l{step},10 l{-step},10 z")
    canvas.y = bottom
