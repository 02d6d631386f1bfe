"""Reads result files. A file without anything to show is an error; model.py has the rules for
single fields.
"""
import json
import os
import statistics

from . import race
from .markup import safe_text
from .model import (PERCENTILES, Fields, Rate, Run, Source, flat_texts, rate_of, rates_of,
                    why_no_number)

MAX_FILE_BYTES = 256 << 20
MAX_RUNS = 20000
MAX_POINTS = 1000000  # of one timeline, and buckets


class BadInput(Exception):
    """A file that cannot be shown, with the reason."""


def load(path):
    """The JSON of a file."""
    try:
        if not os.path.isfile(path):
            raise BadInput(f"{path}: there is no such file" if not os.path.exists(path)
                           else f"{path}: is not a regular file")
        if os.path.getsize(path) > MAX_FILE_BYTES:
            raise BadInput(f"{path}: is larger than {MAX_FILE_BYTES >> 20} MiB")
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise BadInput(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"{path}: is not JSON: {safe_text(str(error))}") from None


def read_run(fields):
    """The run, or nothing where it cannot be shown."""
    store, phase = fields.text("store"), fields.text("phase")
    if store is None or phase is None:
        fields.source.note(fields.where, "has no store or no phase; left out")
        return None
    operations, seconds = fields.number("operations"), fields.number("seconds")
    rate = fields.number("operations_per_s")
    if rate is None:
        rate = rate_of(operations, seconds)
    if rate is None:
        fields.source.note(fields.where, f"{store}, {phase}: has no rate; left out")
        return None
    cpu = [part for part in (fields.number("cpu_user_s"), fields.number("cpu_system_s"))
           if part is not None]
    run = Run(store, phase, rate, operations=operations, seconds=seconds,
              round=int(fields.number("round") or 0), threads=fields.number("threads"),
              bytes=fields.number("bytes"), finished=fields.flag("finished", True),
              cpu_s=sum(cpu) if cpu else None)
    for name in ("open_s", "close_s", "rss_peak_bytes", "device_read_bytes",
                 "device_written_bytes", "write_amplification", "space_amplification"):
        setattr(run, name, fields.number(name))
    latency = fields.object("latency_ns")
    run.latency_ns = {name: value for name in PERCENTILES + ("mean",)
                      for value in [latency.number(name)] if value is not None}
    run.timeline = read_timeline(fields, seconds)
    return run


def read_timeline(fields, seconds):
    """[(seconds, operations a second)]. A point counts what was done since the point before it. A
    program writes no point for a second without operations; such stalls are points of rate 0."""
    intervals = []  # (begin, end, operations)
    before = 0.0  # None where the time of the last point is unknown
    for i, entry in enumerate(fields.list("timeline", MAX_POINTS)):
        point = Fields(fields.source, entry, f"{fields.where}.timeline[{i}]")
        at, operations = point.number("s"), point.number("operations")
        if at is None:
            if point.is_object:
                fields.source.note(point.where, "has no time; left out")
            before = None
            continue
        if before is not None and at - before < 1e-6:
            fields.source.note(point.where, "is not later than the point before it; left out")
            continue
        if operations is None:
            fields.source.note(point.where, "has no operations; left out")
        elif before is None:
            fields.source.note(point.where, "follows a point without a time; left out")
        else:
            intervals.append((before, at, operations))
        before = at
    if not intervals:
        return []
    usual = statistics.median(end - begin for begin, end, _ in intervals)
    if before is not None and seconds is not None and seconds - before > LONG_GAP * usual:
        intervals.append((before, seconds, 0))
    return with_whole_end(with_stalls(intervals, usual), usual)


LONG_GAP = 1.5  # times the usual interval: a longer one contains a stall


def with_stalls(intervals, usual):
    """[(begin, end, rate)]. The operations of a long interval belong to its end, as many as fit the
    usual interval. The time before has the rate 0: a first interval of the usual length, where a
    line falls, and the rest in one piece, because a hostile file may have a stall of any length."""
    parts = []
    for begin, end, operations in intervals:
        if end - begin > LONG_GAP * usual:
            resumed = begin + (round((end - begin) / usual) - 1) * usual
            fallen = begin + usual
            if begin < fallen < resumed:
                parts.append((begin, fallen, 0.0))
                begin = fallen
            if begin < resumed < end:
                parts.append((begin, resumed, 0.0))
                begin = resumed
        parts.append((begin, end, operations / (end - begin)))
    return parts


def with_whole_end(parts, usual):
    """[(end, rate)]. Joins a short last interval to the one before it. A run ends within a second,
    and the rate of its last milliseconds would be noise."""
    if len(parts) > 1:
        (begin, middle, rate), (last_begin, end, last_rate) = parts[-2:]
        if end - last_begin < 0.5 * usual and middle == last_begin:
            done = rate * (middle - begin) + last_rate * (end - middle)
            parts = parts[:-2] + [(begin, end, done / (end - begin))]
    return [(end, rate) for _, end, rate in parts]


def read_rates(source, fields):
    """Takes medians from the file's summary, and makes those that it lacks from the runs."""
    source.rates = rates_of(source.runs)
    for i, value in enumerate(fields.list("summary", MAX_RUNS)):
        entry = Fields(source, value, f"summary[{i}]")
        store, phase = entry.text("store"), entry.text("phase")
        rates = entry.object("operations_per_s")
        middle, low, high = (rates.number(name) for name in ("median", "min", "max"))
        if None in (store, phase, middle, low, high):
            source.note(entry.where, "has no store, phase, median, minimum or maximum; left out")
            continue
        if not low <= middle <= high:
            source.note(entry.where, "its median lies outside minimum and maximum; left out")
            continue
        known = source.rates.get((store, phase))
        if known and abs(known.median - middle) > 0.01 * max(known.median, middle):
            source.note(entry.where, f"{store}, {phase}: the runs have another median")
        finished = entry.flag("finished", known.finished if known else True)
        source.rates[store, phase] = Rate(middle, low, high, finished)


def read_result(source, fields):
    """A file of bin/bench or bin/compare."""
    for i, entry in enumerate(fields.list("runs", MAX_RUNS)):
        run_fields = Fields(source, entry, f"runs[{i}]")
        run = read_run(run_fields) if run_fields.is_object else None
        if run is not None:
            source.runs.append(run)
    read_rates(source, fields)
    floor = fields.object("floor")
    source.floor = {name: value for name in ("random_read_ops_per_s", "sequential_read_bytes_per_s",
                                             "sequential_write_bytes_per_s")
                    for value in [floor.number(name)] if value}
    source.memory_limit_bytes = fields.object("machine").number("memory_limit_bytes")
    source.value_bytes = fields.object("config").number("value_size")
    stores = fields.object("stores")
    source.stores = [(safe_text(name), list(flat_texts(source, f"stores.{name}", settings)))
                     for name, settings in stores.items()]
    for i, count in enumerate(fields.list("bucket_fill", MAX_POINTS)):
        why = why_no_number(count)
        if why:
            source.note(f"bucket_fill[{i}]", why + "; left out")
        else:
            source.bucket_fill.append(count)
    read_claims(source, fields)
    for name, why in (("missing_stores", "did not take part"), ("errors", "")):
        for text in fields.list(name, MAX_RUNS):
            if isinstance(text, str) and text:
                source.note(name, f"{safe_text(text, 400)} {why}".strip())


def read_claims(source, fields):
    """Takes the claims and, where the file has them, the quartiles of their rounds."""
    figures = fields.object("figures")
    for name, figure in fields.texts("claims"):
        quartiles = [None, None]
        if name in figures.value:
            rounds = figures.object(name)
            quartiles = [rounds.number("lower_quartile"), rounds.number("upper_quartile")]
        source.claims.append((name, figure, *quartiles))


def read(path, name):
    """The source of a file. `name` stands for the file where there are several."""
    result = load(path)
    kind = result.get("kind") if isinstance(result, dict) else None
    if kind not in ("bench", "compare"):
        if not isinstance(result, dict) or not isinstance(result.get("phases"), list):
            raise BadInput(f"{path}: is not a result of bench, compare or race")
        kind = "race"
    source = Source(safe_text(name), kind)
    fields = Fields(source, result, "")
    if kind == "race":
        race.read_race(source, fields)
    else:
        read_result(source, fields)
    source.machine = fields.texts("machine")
    source.config = fields.texts("config")
    if not source.rates and not source.bucket_fill and not source.runs:
        notes = "".join(f"\n  {note}" for note in source.notes[:10])
        raise BadInput(f"{path}: holds no run that can be shown{notes}")
    return source
