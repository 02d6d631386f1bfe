"""Axes: where a number lies, which ticks an axis has, and how numbers are written."""
import math


def ticks(top, most):
    """At most `most` + 1 round numbers from 0 to `top`."""
    if top <= 0:
        return [0]
    power = 10.0 ** math.floor(math.log10(top / most))
    step = next(power * digit for digit in (1, 2, 5, 10, 20) if top / (power * digit) <= most)
    return [i * step for i in range(int(top / step + 1e-9) + 1)]


class Linear:
    """From `low` to `top` of the numbers, `begin` to `end` of the picture."""

    def __init__(self, low, top, begin, end):
        self.low, self.top = low, top if top > low else low + 1
        self.begin, self.end = begin, end

    def place(self, value):
        share = (value - self.low) / (self.top - self.low)
        return self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0)

    def ticks(self, most):
        """Round numbers within the axis."""
        if self.low == 0:
            return ticks(self.top, most)
        step = ticks(self.top - self.low, most)
        step = step[1] if len(step) > 1 else self.top - self.low
        first = math.ceil(self.low / step)
        return [i * step for i in range(first, math.floor(self.top / step + 1e-9) + 1)]


class Log:
    """Whole decades around the numbers, all of which are above zero."""

    def __init__(self, low, top, begin, end):
        self.low = math.floor(math.log10(low))
        self.top = max(math.ceil(math.log10(top)), self.low + 1)
        self.begin, self.end = begin, end

    def place(self, value):
        share = (math.log10(value) - self.low) / (self.top - self.low)
        return self.begin + (self.end - self.begin) * min(max(share, 0.0), 1.0)

    def ticks(self, most):
        every = max(1, math.ceil((self.top - self.low) / most))
        return [10.0 ** power for power in range(self.low, self.top + 1, every)]


def digits(value):
    """Three significant digits, without zeros behind the point."""
    if value == 0:
        return "0"
    if abs(value) < 1e-3 or abs(value) >= 1e6:
        return f"{value:.3g}"
    shown = f"{value:.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def with_units(value, units, step):
    """The number in the largest unit that leaves at least one before the point."""
    scaled, i = value, 0
    while i + 1 < len(units) and scaled >= 0.9995 * step:
        scaled /= step
        i += 1
    return digits(value) + units[0] if scaled >= 1e6 else digits(scaled) + units[i]


def count(value):
    """1.23M"""
    return with_units(value, ("", "k", "M", "G", "T", "P", "E"), 1000)


def bytes_(value):
    """1.5 GiB"""
    return with_units(value, (" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"), 1024)


def duration_ns(value):
    """4.3 us"""
    return with_units(value, (" ns", " us", " ms", " s", " ks", " Ms"), 1000)


def seconds(value):
    """12.3 s"""
    return digits(value) + " s"


def ratio(value):
    """1.25"""
    return digits(value)
