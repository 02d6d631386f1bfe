"""What result files hold, and objects of the input whose fields are checked as they are taken.

A field of the wrong type and a number that is not finite, negative or too large are left out with a
note.
"""
import dataclasses
import json
import math
import statistics

from .markup import safe_text

MIN_NUMBER, MAX_NUMBER = 1e-15, 1e21  # of those that are not zero
MAX_NOTES = 50
PERCENTILES = ("p50", "p90", "p99", "p999", "p9999", "max")


@dataclasses.dataclass
class Run:
    store: str
    phase: str
    rate: float  # operations a second; None of a run that failed
    round: int = 0
    threads: float = None
    operations: float = None
    bytes: float = None
    seconds: float = None
    open_s: float = None
    close_s: float = None
    finished: bool = True
    failure: str = None  # the reason of a run that failed, which has no figures to draw
    latency_ns: dict = dataclasses.field(default_factory=dict)
    timeline: list = dataclasses.field(default_factory=list)  # [(seconds, operations a second)]
    cpu_s: float = None
    rss_peak_bytes: float = None
    device_read_bytes: float = None
    device_written_bytes: float = None
    write_amplification: float = None
    space_amplification: float = None


@dataclasses.dataclass
class Rate:
    """Operations a second of a store in a phase, over its rounds."""
    median: float
    low: float
    high: float
    finished: bool


@dataclasses.dataclass
class Source:
    """A file."""
    name: str
    kind: str
    runs: list = dataclasses.field(default_factory=list)
    rates: dict = dataclasses.field(default_factory=dict)  # {(store, phase): Rate}
    machine: list = dataclasses.field(default_factory=list)  # [(name, text)]
    config: list = dataclasses.field(default_factory=list)
    stores: list = dataclasses.field(default_factory=list)  # [(store, [(name, text)])]
    floor: dict = dataclasses.field(default_factory=dict)
    phase_limits: dict = dataclasses.field(default_factory=dict)  # {phase: operations a second}
    memory_limit_bytes: float = None
    value_bytes: float = None
    bucket_fill: list = dataclasses.field(default_factory=list)
    claims: list = dataclasses.field(default_factory=list)  # [(name, figure, its two quartiles)]
    notes: list = dataclasses.field(default_factory=list)
    left_out: int = 0  # notes beyond MAX_NOTES

    def note(self, where, why):
        if len(self.notes) < MAX_NOTES:
            self.notes.append(f"{safe_text(where)}: {why}")
        else:
            self.left_out += 1


class Fields:
    """An object of the input whose fields are taken out one by one."""

    def __init__(self, source, value, where):
        self.source, self.where = source, where
        self.value = value
        self.is_object = isinstance(value, dict)
        if not self.is_object:
            source.note(where, "is not an object; left out")
            self.value = {}

    def complain(self, name, why):
        self.source.note(f"{self.where}.{name}" if self.where else name, why + "; left out")

    def number(self, name):
        """The number, or nothing where it is absent, null or no number that can be shown."""
        value = self.value.get(name)
        if value is None:
            return None
        why = why_no_number(value)
        if why:
            self.complain(name, why)
            return None
        return value

    def text(self, name):
        value = self.value.get(name)
        if isinstance(value, str) and value.strip():
            return safe_text(value)
        if value is not None:
            self.complain(name, "is not a text" if not isinstance(value, str) else "is empty")
        return None

    def flag(self, name, otherwise):
        value = self.value.get(name)
        if value is not None and not isinstance(value, bool):
            self.complain(name, "is neither true nor false")
        return value if isinstance(value, bool) else otherwise

    def object(self, name):
        value = self.value.get(name)
        where = f"{self.where}.{name}" if self.where else name
        return Fields(self.source, {} if value is None else value, where)

    def list(self, name, most):
        value = self.value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.complain(name, "is not a list")
            return []
        if len(value) > most:
            self.complain(name, f"has {len(value)} entries, all beyond the first {most}")
        return value[:most]

    def texts(self, name):
        """All that an object holds, as names and texts."""
        fields = self.object(name)
        return list(flat_texts(self.source, fields.where, fields.value))

    def items(self):
        """The names and values of the object, as many as are shown."""
        return shown_items(self.source, self.where, self.value)


def why_no_number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return "is not a number"
    if isinstance(value, float) and not math.isfinite(value):
        return "is not a finite number"
    if value < 0:
        return "is negative"
    if value > MAX_NUMBER:
        return "is too large"
    if 0 < value < MIN_NUMBER:
        return "is too small"
    return None


def rate_of(operations, seconds):
    """Operations a second, or nothing where that is not a number that can be shown."""
    if operations is None or not seconds or why_no_number(operations / seconds):
        return None
    return operations / seconds


MAX_FLAT = 200  # names of one object that are shown


def shown_items(source, where, value):
    if len(value) > MAX_FLAT:
        source.note(where, f"has {len(value)} names; those beyond the first {MAX_FLAT} are left "
                           "out")
    return list(value.items())[:MAX_FLAT]


def flat_texts(source, where, value, name="", depth=0):
    """(name, text) of each leaf of an object, with the names of inner objects in front."""
    if isinstance(value, dict) and value.keys() == {"value", "why"} and all(
            isinstance(part, (str, int, float)) for part in value.values()):
        # How a peer was set up, and the reason.
        yield name, safe_text(f"{plain(value['value'])}: {plain(value['why'])}", 400)
    elif isinstance(value, dict) and depth < 4:
        for key, inner in shown_items(source, f"{where}.{name}" if name else where, value):
            key = safe_text(key)
            yield from flat_texts(source, where, inner, f"{name}.{key}" if name else key,
                                  depth + 1)
    elif isinstance(value, (str, int, float)):
        yield name, safe_text(plain(value), 400)
    elif value is not None:
        try:
            yield name, safe_text(json.dumps(value, ensure_ascii=False), 400)
        except (ValueError, RecursionError):
            yield name, "…"


def plain(value):
    """A value of the input as it was written, as nearly as possible."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value) if abs(value) < 10 ** 30 else "a number of more than 30 digits"


def rates_of(runs):
    """{(store, phase): Rate} of runs, over their rounds."""
    rounds = {}
    for run in runs:
        if run.failure is None:
            rounds.setdefault((run.store, run.phase), []).append(run)
    rates = {}
    for key, of_key in rounds.items():
        values = [run.rate for run in of_key]
        rates[key] = Rate(statistics.median(values), min(values), max(values),
                          all(run.finished for run in of_key))
    return rates
