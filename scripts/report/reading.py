"""Reads result files. A file without anything to show is an error; model.py has the rules for
single fields.
"""
import json
import os

from . import race
from .markup import safe_text
from .model import (MAX_FLAT, PERCENTILES, Fields, Rate, Run, Source, flat_texts, rate_of,
                    rates_of, why_no_number)

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
                           else f"{path}: is no file")
        if os.path.getsize(path) > MAX_FILE_BYTES:
            raise BadInput(f"{path}: is larger than {MAX_FILE_BYTES >> 20} MiB")
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is no UTF-8 text") from None
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except RecursionError:
        raise BadInput(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise BadInput(f"{path}: is no JSON: {safe_text(str(error))}") from None


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
    run.timeline = read_timeline(fields)
    return run


def read_timeline(fields):
    """[(seconds, operations a second)]. A point counts what was done since the point before it."""
    points = []
    before = 0.0
    for i, held in enumerate(fields.list("timeline", MAX_POINTS)):
        point = Fields(fields.source, held, f"{fields.where}.timeline[{i}]")
        at, operations = point.number("s"), point.number("operations")
        if at is None or operations is None:
            if point.is_object:
                fields.source.note(point.where, "has no time or no operations; left out")
        elif at - before < 1e-6:
            fields.source.note(point.where, "is not later than the point before it; left out")
        else:
            points.append((at, operations / (at - before)))
            before = at
    return with_whole_end(points)


def with_whole_end(points):
    """Joins a short last interval to the one before it. A run ends within a second, and the rate of
    its last milliseconds would be noise."""
    if len(points) < 2:
        return points
    begin = points[-3][0] if len(points) > 2 else 0.0
    (middle, rate), (end, last_rate) = points[-2:]
    if end - middle >= 0.5 * (middle - begin):
        return points
    done = rate * (middle - begin) + last_rate * (end - middle)
    return points[:-2] + [(end, done / (end - begin))]


def read_rates(source, fields):
    """Takes medians from the file's summary, and makes those that it lacks from the runs."""
    source.rates = rates_of(source.runs)
    for i, held in enumerate(fields.list("summary", MAX_RUNS)):
        entry = Fields(source, held, f"summary[{i}]")
        store, phase = entry.text("store"), entry.text("phase")
        rates = entry.object("operations_per_s")
        found = [rates.number(name) for name in ("median", "min", "max")]
        if store is None or phase is None or None in found:
            source.note(entry.where, "has no store, phase, median, minimum or maximum; left out")
            continue
        if not found[1] <= found[0] <= found[2]:
            source.note(entry.where, "its median lies outside minimum and maximum; left out")
            continue
        known = source.rates.get((store, phase))
        if known and abs(known.median - found[0]) > 0.01 * max(known.median, found[0]):
            source.note(entry.where, f"{store}, {phase}: the runs have another median")
        finished = entry.flag("finished", known.finished if known else True)
        source.rates[store, phase] = Rate(found[0], found[1], found[2], finished)


def read_result(source, fields):
    """A file of bin/bench or bin/compare."""
    for i, held in enumerate(fields.list("runs", MAX_RUNS)):
        run_fields = Fields(source, held, f"runs[{i}]")
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
    source.stores = [(safe_text(name), list(flat_texts(held)))
                     for name, held in list(stores.value.items())[:MAX_FLAT]]
    for i, held in enumerate(fields.list("bucket_fill", MAX_POINTS)):
        why = why_no_number(held)
        if why:
            source.note(f"bucket_fill[{i}]", why + "; left out")
        else:
            source.bucket_fill.append(held)
    read_claims(source, fields)
    source.floor_jobs = fields.texts("floor_jobs")
    for name, why in (("missing_stores", "did not take part"), ("errors", "")):
        for held in fields.list(name, MAX_RUNS):
            if isinstance(held, str) and held:
                source.note(name, f"{safe_text(held, 400)} {why}".strip())


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
    held = load(path)
    kind = held.get("kind") if isinstance(held, dict) else None
    if kind not in ("bench", "compare"):
        if not isinstance(held, dict) or not isinstance(held.get("phases"), list):
            raise BadInput(f"{path}: is no result of bin/bench, bin/compare or bin/race")
        kind = "race"
    source = Source(safe_text(name), kind)
    fields = Fields(source, held, "")
    if kind == "race":
        race.read_race(source, fields)
    else:
        read_result(source, fields)
    source.machine = fields.texts("machine")
    source.config = fields.texts("config")
    if not source.rates and not source.bucket_fill:
        notes = "".join(f"\n  {note}" for note in source.notes[:10])
        raise BadInput(f"{path}: holds no run that can be shown{notes}")
    return source
