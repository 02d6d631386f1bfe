"""Batches of random reads from Python beside the same reads from C++, in alternating rounds.

    make bin/multi_read
    python python/benchmarks/read_many.py --dir /tmp --json out/python.json

Two stores: a large one, which is read from the disk, and a small one, whose values lie in memory
once they are warm. A round opens a store here, then in bin/multi_read. Each claim is the median of
the rounds' ratios. Python fills one array again and again; the claims compare it with MultiRead,
which fills strings. MultiReadInto, which fills memory of the caller, stands beside it.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

import numpy

import engine_race

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WRITTEN_AT_ONCE = 4096


def fill(path, count):
    rows = numpy.empty((WRITTEN_AT_ONCE, 512), numpy.uint64)
    with engine_race.open(path) as store:
        for first in range(0, count, WRITTEN_AT_ONCE):
            ids = numpy.arange(first, min(first + WRITTEN_AT_ONCE, count), dtype=numpy.uint64)
            rows[:len(ids)] = ids[:, None]
            store.write_many(ids, rows[:len(ids)])
        store.sync()


def run(store, count, batch, seconds, random):
    """Rows a second. Each row tells its key."""
    out = numpy.empty((batch, 512), numpy.uint64)
    rows, began = 0, time.perf_counter()
    while (now := time.perf_counter()) - began < seconds or rows == 0:
        ids = random.integers(0, count, batch, dtype=numpy.uint64)
        store.read_many(ids, out=out)
        rows += batch
    assert (out[:, 0] == ids).all() and (out[:, 511] == ids).all(), "a wrong row"
    return rows / (now - began)


def python_round(path, count, memory_bytes, arguments, seed):
    random = numpy.random.default_rng(seed)
    with engine_race.open(path, create_if_missing=False,
                          memory_budget_bytes=memory_bytes) as store:
        run(store, count, arguments.batch, arguments.warm_seconds, random)
        return run(store, count, arguments.batch, arguments.seconds, random)


def program_round(path, count, memory_bytes, arguments, seed):
    output = subprocess.run(
        [arguments.program, "--dir", path, "--keys", str(count), "--memory", str(memory_bytes),
         "--batch", str(arguments.batch), "--seconds", str(arguments.seconds),
         "--warm-seconds", str(arguments.warm_seconds), "--seed", str(seed)],
        check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def compare(directory, count, memory_bytes, arguments):
    """Rates by round."""
    path = directory / f"store-{count}"
    fill(path, count)
    rounds = []
    for number in range(arguments.rounds):
        rates = {"python": python_round(path, count, memory_bytes, arguments, number)}
        rates.update(program_round(path, count, memory_bytes, arguments, number))
        rounds.append(rates)
    shutil.rmtree(path)
    return rounds


def ratio(rounds, of="multi_read"):
    return statistics.median(rates["python"] / rates[of] for rates in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default=".", type=pathlib.Path, help="works in a directory here")
    parser.add_argument("--program", default=ROOT / "bin" / "multi_read", type=pathlib.Path)
    parser.add_argument("--disk-keys", default=2 << 20, type=int)
    parser.add_argument("--disk-memory-bytes", default=256 << 20, type=int)
    parser.add_argument("--hot-keys", default=16 << 10, type=int)
    parser.add_argument("--hot-memory-bytes", default=1 << 30, type=int)
    parser.add_argument("--batch", default=4096, type=int)
    parser.add_argument("--seconds", default=3.0, type=float, help="of each timed run")
    parser.add_argument("--warm-seconds", default=2.0, type=float, help="before each timed run")
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--tiny", action="store_true", help="everything once: no figure means much")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go")
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.disk_keys, arguments.hot_keys, arguments.batch = 4000, 1000, 256
        arguments.disk_memory_bytes = arguments.hot_memory_bytes = 64 << 20
        arguments.seconds = arguments.warm_seconds = 0.05
        arguments.rounds = 1
    if not arguments.program.exists():
        parser.error(f"{arguments.program} is missing: make bin/multi_read")
    directory = pathlib.Path(tempfile.mkdtemp(prefix="read_many.", dir=arguments.dir))
    try:
        disk = compare(directory, arguments.disk_keys, arguments.disk_memory_bytes, arguments)
        hot = compare(directory, arguments.hot_keys, arguments.hot_memory_bytes, arguments)
    finally:
        shutil.rmtree(directory)
    for name, rounds in (("disk", disk), ("hot", hot)):
        medians = {kind: statistics.median(rates[kind] for rates in rounds) for kind in rounds[0]}
        print(f"{name:5}" + "".join(f"  {kind} {rate:10.0f} rows/s"
                                    for kind, rate in medians.items())
              + f"  ratio {ratio(rounds):.3f}, to MultiReadInto"
                f" {ratio(rounds, 'multi_read_into'):.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({
            "python_read_many_ratio": ratio(disk), "python_hot_ratio": ratio(hot),
            "rows_a_second": {"disk": disk, "hot": hot},
            "config": {name: str(value) for name, value in vars(arguments).items()}}, indent=2))


if __name__ == "__main__":
    main()
