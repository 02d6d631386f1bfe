"""Many processes that read one store, and loads from files, in alternating rounds.

    python python/benchmarks/users.py --dir /tmp --json out/bench-users.json

Before each timed run the readers gather random rows for as long, to warm up.

readers_8_processes   rows/s of 8 processes that have the store open for reading only, over those of
                      8 threads of one process; from the disk, without hot values
readers_shared_cache  rows/s of 8 such processes with the option page_cache, over 8 that gather the
                      same rows from a numpy.memmap; both from the page cache
follow_writer_cost    the share of its rows/s that a writer loses to a process that follows it and
                      polls refresh every 5 ms
follow_lag_ms_p99     from the end of a write to the poll that finds it, in those rounds
import_npy_ratio      rows/s of load_npy over write_many from an array, each into a new store
"""
import argparse
import contextlib
import multiprocessing
import os
import shutil
import threading
import time

import numpy
from followers import written_rate
from rounds import (ROW_SHAPE, add_arguments, alternate, fill, gather, need_disk, ratio, rows_of,
                    show, write_figures)

import engine_race

# By the path that `rounds` adds.
from long_work import Progress, end_on_signals, work_directory  # isort: skip

RATIOS = ["readers_8_processes", "readers_shared_cache", "import_npy_ratio"]
CLAIMS = [*RATIOS, "follow_writer_cost", "follow_lag_ms_p99"]
READER_COUNT = 8
# How long a reader waits for others, one of which may have failed.
MOST_WARM_UP_SECONDS = 120
ON_DISK = {"hot_value_bytes": 0, "memory_budget_bytes": "64m"}
CACHED = {"page_cache": True, "memory_budget_bytes": "64m"}


@contextlib.contextmanager
def store_reader(path, options):
    with engine_race.open(path, mode="r", **options) as store:
        yield lambda ids, into: store.read_many(ids, out=into)


@contextlib.contextmanager
def array_reader(path):
    table = numpy.load(path, mmap_mode="r")
    # The mode keeps take from copying through a buffer.
    yield lambda ids, into: table.take(ids.view(numpy.int64), axis=0, out=into,
                                                mode="clip")


def gather_beside(read, count, arguments, seed, start):
    """Rows a second of one reader. All begin together once each is warm."""
    random = numpy.random.default_rng(seed)
    out = numpy.empty((arguments.batch, *ROW_SHAPE), numpy.uint64)
    gather(read, count, out, arguments.seconds, random)
    start.wait()
    return gather(read, count, out, arguments.seconds, random)


def run_child(rates, opened, opened_args, count, arguments, seed, start):
    with opened(*opened_args) as read:
        rates.put(gather_beside(read, count, arguments, seed, start))


def processes_rate(opened, opened_args, count, arguments, number):
    context = multiprocessing.get_context("spawn")
    rates = context.SimpleQueue()
    start = context.Barrier(READER_COUNT, timeout=MOST_WARM_UP_SECONDS)
    children = [context.Process(target=run_child, daemon=True,
                                args=(rates, opened, opened_args, count, arguments,
                                      number * READER_COUNT + i, start))
                for i in range(READER_COUNT)]
    try:
        for child in children:
            child.start()
        for child in children:
            child.join()
            if child.exitcode != 0:
                raise RuntimeError(f"a reader ended with code {child.exitcode}")
    finally:
        for child in children:
            if child.is_alive():
                child.kill()
    return sum(rates.get() for _ in children)


def threads_rate(path, options, count, arguments, number):
    rates, start = [], threading.Barrier(READER_COUNT, timeout=MOST_WARM_UP_SECONDS)
    with store_reader(path, options) as read:
        threads = [threading.Thread(target=lambda seed: rates.append(
            gather_beside(read, count, arguments, seed, start)),
            args=(number * READER_COUNT + i,)) for i in range(READER_COUNT)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if len(rates) != READER_COUNT:
        raise RuntimeError("a reader has failed")
    return sum(rates)


def compare_processes(directory, arguments, progress):
    path, count = directory / "store", arguments.disk_rows
    fill(path, count)
    rounds = alternate("from disk", {
        "processes": lambda number: processes_rate(store_reader, (path, ON_DISK), count, arguments,
                                                   number),
        "threads": lambda number: threads_rate(path, ON_DISK, count, arguments, number)},
        arguments.rounds, progress)
    shutil.rmtree(path)
    return rounds


def compare_caches(directory, arguments, progress):
    path, array, count = directory / "store", directory / "rows.npy", arguments.cached_rows
    fill(path, count)
    numpy.save(array, rows_of(range(count)))
    rounds = alternate("from the page cache", {
        "page_cache": lambda number: processes_rate(store_reader, (path, CACHED), count, arguments,
                                                    number),
        "memmap": lambda number: processes_rate(array_reader, (array,), count, arguments, number)},
        arguments.rounds, progress)
    shutil.rmtree(path)
    array.unlink()
    return rounds


def write_rate(directory, count, write):
    """Rows a second of write(store), which writes `count` rows into a new store."""
    path = directory / "loaded"
    with engine_race.open(path) as store:
        began = time.perf_counter()
        write(store)
        rate = count / (time.perf_counter() - began)
        assert len(store) == count
    shutil.rmtree(path)
    # What is left to write belongs to this round.
    os.sync()
    return rate


def compare_loads(directory, arguments, progress):
    array, count = directory / "rows.npy", arguments.loaded_rows
    ids = numpy.arange(count, dtype=numpy.uint64)
    rows = rows_of(ids)
    numpy.save(array, rows)
    rounds = alternate("loads", {
        "load_npy": lambda _: write_rate(directory, count, lambda store: engine_race.load_npy(
            store, array)),
        "write_many": lambda _: write_rate(directory, count, lambda store: store.write_many(
            ids, rows))}, arguments.rounds, progress)
    array.unlink()
    return rounds


def compare_following(directory, arguments, progress):
    """The rounds, and all lags in ms."""
    path, lags = directory / "store", []
    rounds = alternate("writer and follower", {
        "followed": lambda _: written_rate(path, arguments.seconds, lags),
        "alone": lambda _: written_rate(path, arguments.seconds)}, arguments.rounds, progress)
    return rounds, numpy.array(lags) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    add_arguments(parser, batch=1024)
    parser.add_argument("--disk-rows", default=1 << 20, type=int)
    parser.add_argument("--cached-rows", default=128 << 10, type=int)
    parser.add_argument("--loaded-rows", default=256 << 10, type=int)
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.disk_rows, arguments.cached_rows, arguments.loaded_rows = 4000, 2000, 2000
        arguments.batch, arguments.seconds, arguments.rounds = 64, 0.05, 1
    # At one time there are one store and one array.
    most_rows = max(arguments.disk_rows, 2 * max(arguments.cached_rows, arguments.loaded_rows))
    need_disk(parser, arguments, CLAIMS, most_rows)
    end_on_signals()
    progress = Progress(2 * (len(RATIOS) + 1) * arguments.rounds)
    try:
        with work_directory("users.", arguments.dir) as directory:
            measured = {claim: compare(directory, arguments, progress) for claim, compare in
                        zip(RATIOS, (compare_processes, compare_caches, compare_loads))}
            followed, lags_ms = compare_following(directory, arguments, progress)
    finally:
        progress.clear()
    for claim, rounds in measured.items():
        show(claim, rounds)
    show("follow_writer_cost", followed)
    claims = {claim: ratio(rounds) for claim, rounds in measured.items()}
    claims["follow_writer_cost"] = 1 - ratio(followed)
    claims["follow_lag_ms_p99"] = float(numpy.percentile(lags_ms, 99))
    print(f"follow_lag_ms_p99  {claims['follow_lag_ms_p99']:.1f} of {len(lags_ms)} batches")
    write_figures(arguments, claims, {**measured, "follow_writer_cost": followed})


if __name__ == "__main__":
    main()
