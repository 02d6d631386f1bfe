"""Batches of random reads from Python beside the same reads from C++, in alternating rounds.

    make bin/bench
    python python/benchmarks/read_many.py --dir /tmp --json out/python.json

Two stores: a large one, which is read from the disk, and a small one, whose values lie in memory
once they are warm. A round measures two kinds of reads. `python` is read_many into one array.
`multi_read_into` is MultiReadInto, which fills memory of its caller too, as `bin/bench` calls it.
Each kind opens the store anew and reads for as long before the timed reads to warm it. The order of
the kinds changes with each round. Each claim is the median of the rounds' ratios.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

import numpy

import engine_race

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "python" / "examples"))

from long_work import (Progress, end_on_signals, refuse, why_in_memory,  # noqa: E402
                       why_no_room, work_directory)

ROW_BYTES = 4096
WRITTEN_AT_ONCE = 4096
CLAIMS = ["python_read_many_ratio", "python_hot_ratio"]
KINDS = ["python", "multi_read_into"]


def fill(path, count):
    rows = numpy.empty((WRITTEN_AT_ONCE, 512), numpy.uint64)
    with engine_race.open(path) as store:
        for first in range(0, count, WRITTEN_AT_ONCE):
            ids = numpy.arange(first, min(first + WRITTEN_AT_ONCE, count), dtype=numpy.uint64)
            rows[:len(ids)] = ids[:, None]
            store.write_many(ids, rows[:len(ids)])
        store.sync()


def run(store, count, out, seconds, random):
    """Rows a second. Each row holds its key."""
    batch = len(out)
    rows, began = 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds or rows == 0:
        ids = random.integers(0, count, batch, dtype=numpy.uint64)
        store.read_many(ids, out=out)
        rows += batch
    assert (out[:, 0] == ids).all() and (out[:, 511] == ids).all(), "a wrong row"
    return rows / (now - began)


def python_rate(path, count, memory_bytes, arguments, seed):
    random = numpy.random.default_rng(seed)
    out = numpy.empty((arguments.batch, 512), numpy.uint64)
    with engine_race.open(path, create_if_missing=False,
                          memory_budget_bytes=memory_bytes) as store:
        run(store, count, out, arguments.seconds, random)
        return run(store, count, out, arguments.seconds, random)


def program_rate(path, count, memory_bytes, arguments, seed):
    """The rate of the second of two runs, as that of Python. The values are not the program's."""
    figures = path.with_suffix(".json")
    subprocess.run(
        [arguments.program, "--db", path, "--use_existing_db", "--num", str(count),
         "--benchmarks", "multireadrandom,multireadrandom", "--check_values=false",
         "--batch_size", str(arguments.batch), "--duration", str(arguments.seconds),
         "--options", f"memory_budget_bytes={memory_bytes}", "--seed", str(seed),
         "--json", figures],
        check=True, capture_output=True)
    last = json.loads(figures.read_text())["runs"][-1]
    assert last["found_count"] == last["operations"], "a missing row"
    return last["operations_per_s"]


def compare(directory, name, count, memory_bytes, arguments, progress):
    """Rates by round."""
    path = directory / f"store-{count}"
    progress.show(f"the {name} store is filled")
    fill(path, count)
    rounds = []
    for number in range(arguments.rounds):
        first = number % len(KINDS)
        rates = {}
        for kind in KINDS[first:] + KINDS[:first]:
            where = path, count, memory_bytes, arguments, number
            progress.show(f"{name}, {kind}")
            rates[kind] = python_rate(*where) if kind == "python" else program_rate(*where)
            progress.step()
        rounds.append({kind: rates[kind] for kind in KINDS})
    shutil.rmtree(path)
    return rounds


def ratio(rounds, kind):
    """Of Python to this kind."""
    return statistics.median(rates["python"] / rates[kind] for rates in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default=".", type=pathlib.Path, help="works in a directory here")
    parser.add_argument("--program", default=ROOT / "bin" / "bench", type=pathlib.Path)
    parser.add_argument("--disk-keys", default=2 << 20, type=int)
    parser.add_argument("--disk-memory-bytes", default=256 << 20, type=int)
    parser.add_argument("--hot-keys", default=16 << 10, type=int)
    parser.add_argument("--hot-memory-bytes", default=1 << 30, type=int)
    parser.add_argument("--batch", default=4096, type=int)
    parser.add_argument("--seconds", default=3.0, type=float,
                        help="of each timed run, and of the one before it that warms the store")
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--tiny", action="store_true", help="everything once: no figure means much")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.disk_keys, arguments.hot_keys, arguments.batch = 4000, 1000, 256
        arguments.disk_memory_bytes = arguments.hot_memory_bytes = 64 << 20
        arguments.seconds = 0.05
        arguments.rounds = 1
    if not arguments.program.exists():
        refuse(parser, arguments.json, CLAIMS, f"{arguments.program} is missing: make bin/bench")
    # One store lies there at a time, with its logs.
    most_keys = max(arguments.disk_keys, arguments.hot_keys)
    why_not = (why_in_memory(arguments.dir)
               or why_no_room(arguments.dir, int(most_keys * ROW_BYTES * 1.3) + (1 << 28)))
    if why_not:
        refuse(parser, arguments.json, CLAIMS, why_not)
    end_on_signals()
    progress = Progress(2 * arguments.rounds * len(KINDS))
    try:
        with work_directory("read_many.", arguments.dir) as directory:
            disk = compare(directory, "disk", arguments.disk_keys, arguments.disk_memory_bytes,
                           arguments, progress)
            hot = compare(directory, "hot", arguments.hot_keys, arguments.hot_memory_bytes,
                          arguments, progress)
    finally:
        progress.clear()
    for name, rounds in (("disk", disk), ("hot", hot)):
        medians = {kind: statistics.median(rates[kind] for rates in rounds) for kind in rounds[0]}
        print(f"{name:5}" + "".join(f"  {kind} {rate:10.0f} rows/s"
                                    for kind, rate in medians.items())
              + f"  ratio {ratio(rounds, KINDS[1]):.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({
            "claims": dict(zip(CLAIMS, (ratio(disk, KINDS[1]), ratio(hot, KINDS[1])))),
            "rows_a_second": {"disk": disk, "hot": hot},
            "config": {name: str(value) for name, value in vars(arguments).items()}}, indent=2))


if __name__ == "__main__":
    main()
