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
import subprocess

import numpy
from rounds import (ROOT, ROW_SHAPE, add_arguments, alternate, fill, gather, need_disk, ratio,
                    refuse, show, write_figures)

import engine_race

# By the path that `rounds` adds.
from long_work import Progress, end_on_signals, work_directory  # isort: skip

CLAIMS = ["python_read_many_ratio", "python_hot_ratio"]


def python_rate(path, count, memory_bytes, arguments, seed):
    random = numpy.random.default_rng(seed)
    out = numpy.empty((arguments.batch, *ROW_SHAPE), numpy.uint64)
    with engine_race.open(path, create_if_missing=False,
                          memory_budget_bytes=memory_bytes) as store:
        def read(ids, into):
            store.read_many(ids, out=into)

        gather(read, count, out, arguments.seconds, random)
        return gather(read, count, out, arguments.seconds, random)


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
    rounds = alternate(name, {
        "python": lambda number: python_rate(path, count, memory_bytes, arguments, number),
        "multi_read_into": lambda number: program_rate(path, count, memory_bytes, arguments,
                                                       number)}, arguments.rounds, progress)
    shutil.rmtree(path)
    return rounds


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_arguments(parser, batch=4096)
    parser.add_argument("--program", default=ROOT / "bin" / "bench", type=pathlib.Path)
    parser.add_argument("--disk-keys", default=2 << 20, type=int)
    parser.add_argument("--disk-memory-bytes", default=256 << 20, type=int)
    parser.add_argument("--hot-keys", default=16 << 10, type=int)
    parser.add_argument("--hot-memory-bytes", default=1 << 30, type=int)
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
    need_disk(parser, arguments, CLAIMS, most_keys)
    end_on_signals()
    progress = Progress(4 * arguments.rounds)
    try:
        with work_directory("read_many.", arguments.dir) as directory:
            disk = compare(directory, "disk", arguments.disk_keys, arguments.disk_memory_bytes,
                           arguments, progress)
            hot = compare(directory, "hot", arguments.hot_keys, arguments.hot_memory_bytes,
                          arguments, progress)
    finally:
        progress.clear()
    show("disk", disk)
    show("hot", hot)
    write_figures(arguments, dict(zip(CLAIMS, (ratio(disk), ratio(hot)))),
                  {"disk": disk, "hot": hot})


if __name__ == "__main__":
    main()
