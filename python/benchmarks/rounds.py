"""Alternating rounds, and stores whose rows hold their keys."""
import json
import os
import pathlib
import platform
import statistics
import sys
import time

import numpy

import engine_race

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "examples"))

from long_work import refuse, why_in_memory, why_no_room  # noqa: E402

ROW_BYTES = 4096
ROW_SHAPE = (512,)
WRITTEN_AT_ONCE = 4096


def rows_of(ids):
    """An array in which each row holds its key."""
    rows = numpy.empty((len(ids), *ROW_SHAPE), numpy.uint64)
    rows[:] = numpy.asarray(ids, numpy.uint64)[:, None]
    return rows


def fill(path, count):
    with engine_race.open(path) as store:
        for first in range(0, count, WRITTEN_AT_ONCE):
            ids = numpy.arange(first, min(first + WRITTEN_AT_ONCE, count), dtype=numpy.uint64)
            store.write_many(ids, rows_of(ids))
        store.sync()


def gather(read, count, out, seconds, random):
    """Calls read(ids, out) with random keys below count. Rows a second."""
    batch = len(out)
    rows, began = 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds or rows == 0:
        ids = random.integers(0, count, batch, dtype=numpy.uint64)
        read(ids, out)
        rows += batch
    assert (out[:, 0] == ids).all() and (out[:, 511] == ids).all(), "a wrong row"
    return rows / (now - began)


def alternate(name, kinds, round_count, progress):
    """Calls each of `kinds` once a round, with the number of the round, in an order that rotates. A
    list of {kind: answer}."""
    rounds, names = [], list(kinds)
    for number in range(round_count):
        first = number % len(names)
        figures = {}
        for kind in names[first:] + names[:first]:
            progress.show(f"{name}, {kind}")
            figures[kind] = kinds[kind](number)
            progress.step()
        rounds.append({kind: figures[kind] for kind in names})
    return rounds


def ratio(rounds):
    """The median over the rounds of the first kind's rate over the second's."""
    return statistics.median(first / second for first, second in (one.values() for one in rounds))


def show(name, rounds):
    medians = {kind: statistics.median(one[kind] for one in rounds) for kind in rounds[0]}
    print(f"{name:14}" + "".join(f"  {kind} {rate:10.0f} rows/s" for kind, rate in medians.items())
          + f"  ratio {ratio(rounds):.3f}")


def add_arguments(parser, batch):
    parser.add_argument("--dir", default=".", type=pathlib.Path, help="works in a directory here")
    parser.add_argument("--batch", default=batch, type=int)
    parser.add_argument("--seconds", default=3.0, type=float,
                        help="of each timed run, and of the one before it that warms up")
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--tiny", action="store_true", help="everything once: no figure means much")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go")


def need_disk(parser, arguments, claims, most_rows):
    """Refuses to measure in memory, and where so many rows do not fit, with staging and logs."""
    why_not = (why_in_memory(arguments.dir)
               or why_no_room(arguments.dir, int(most_rows * ROW_BYTES * 1.3) + (1 << 28)))
    if why_not:
        refuse(parser, arguments.json, claims, why_not)


def machine():
    cpu = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8")
           if line.startswith("model name")]
    return {"cpu": cpu[0] if cpu else "unknown", "cpu_count": os.cpu_count(),
            "kernel": platform.release()}


def write_figures(arguments, claims, measured):
    if arguments.json:
        arguments.json.write_text(json.dumps({
            "claims": claims, "rows_a_second": measured, "machine": machine(),
            "config": {name: str(value) for name, value in vars(arguments).items()}}, indent=2))
