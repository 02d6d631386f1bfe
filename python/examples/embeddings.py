"""A table of embeddings that is larger than memory, gathered at random in batches.

    python embeddings.py --dir /tmp --limit 1g --times 4 --json figures.json

A row has 1024 floats, which are 4096 bytes; its id is the key. The same rows are gathered from the
store, from numpy.memmap and, where it is installed, from LMDB, in alternating rounds. Each round is
a process of its own, in a cgroup that limits its memory and its page cache. The table is --times
as large as that limit. The store's memory is half of the limit unless --memory says otherwise.
"""
import argparse
import json
import mmap
import os
import pathlib
import shutil
import statistics
import tempfile
import time

import numpy

import engine_race
from memory_limit import MemoryLimit

WIDTH = 1024
ROW_BYTES = 4096
LOADED_AT_ONCE = 4096


def rows_of(first, count):
    """Rows that tell their ids, so that a gathered batch can be checked."""
    rows = numpy.empty((count, WIDTH), numpy.float32)
    rows[:] = numpy.arange(first, first + count, dtype=numpy.float32)[:, None]
    return rows


def pieces_of(count):
    for first in range(0, count, LOADED_AT_ONCE):
        yield first, rows_of(first, min(LOADED_AT_ONCE, count - first))


class InStore:
    name = "engine_race"

    def __init__(self, directory, memory_bytes):
        self._path, self._memory_bytes = directory / "store", memory_bytes

    def load(self, count):
        with engine_race.open(self._path) as store:
            for first, rows in pieces_of(count):
                store.write_many(numpy.arange(first, first + len(rows)), rows)
            store.sync()

    def __enter__(self):
        self._store = engine_race.open(self._path, memory_budget_bytes=self._memory_bytes)
        return self

    def __exit__(self, *_):
        self._store.close()

    def gather(self, ids, out):
        self._store.read_many(ids, out=out)


class InMemmap:
    name = "numpy.memmap"

    def __init__(self, directory, _):
        self._path = directory / "table"

    def load(self, count):
        with open(self._path, "wb") as file:
            for _, rows in pieces_of(count):
                file.write(rows)
            file.flush()
            os.fsync(file.fileno())

    def __enter__(self):
        with open(self._path, "rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # What numpy.memmap does, and no reading ahead, which would help nobody here.
        self._memory.madvise(mmap.MADV_RANDOM)
        self._table = numpy.frombuffer(self._memory, numpy.float32).reshape(-1, WIDTH)
        return self

    def __exit__(self, *_):
        del self._table
        self._memory.close()

    def gather(self, ids, out):
        numpy.take(self._table, ids, axis=0, out=out, mode="clip")


class InLmdb:
    name = "LMDB"

    def __init__(self, directory, _):
        self._path = str(directory / "lmdb")

    def load(self, count):
        import lmdb

        with lmdb.open(self._path, map_size=count * 2 * ROW_BYTES + (1 << 30), sync=False) as table:
            for first, rows in pieces_of(count):
                with table.begin(write=True) as transaction:
                    for number, row in enumerate(rows, first):
                        transaction.put(number.to_bytes(8, "big"), row.tobytes(), append=True)
            table.sync(True)

    def __enter__(self):
        import lmdb

        self._table = lmdb.open(self._path, readonly=True, readahead=False)
        return self

    def __exit__(self, *_):
        self._table.close()

    def gather(self, ids, out):
        with self._table.begin(buffers=True) as transaction:
            for row, number in zip(out, ids):
                row[:] = numpy.frombuffer(transaction.get(int(number).to_bytes(8, "big")),
                                          numpy.float32)


def forget_pages(directory):
    """Of every file in it, so that a run under a limit does not find what others have read."""
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def rows_a_second(table, count, batch, warm_seconds, seconds, seed):
    random = numpy.random.default_rng(seed)
    out = numpy.empty((batch, WIDTH), numpy.float32)
    with table:
        for limit in (warm_seconds, seconds):
            gathered, began = 0, time.monotonic()
            while (now := time.monotonic()) - began < limit or gathered == 0:
                ids = random.integers(0, count, batch)
                table.gather(ids, out)
                if (out[:, 0] != ids).any() or (out[:, -1] != ids).any():
                    raise RuntimeError(f"{table.name} gave a wrong row")
                gathered += batch
    return gathered / (now - began)


def bytes_of(text):
    shift = "bkmgt".find(text[-1].lower())
    return int(text) if shift < 0 else int(text[:-1]) << (10 * shift)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default=".", type=pathlib.Path, help="works in a directory here")
    parser.add_argument("--limit", default=1 << 30, type=bytes_of, help="of memory and page cache")
    parser.add_argument("--times", default=4.0, type=float, help="the table is as large as so many "
                        "limits")
    parser.add_argument("--rows", type=int, help="of the table; by default as --times says")
    parser.add_argument("--batch", default=4096, type=int)
    parser.add_argument("--seconds", default=10.0, type=float, help="of each timed run")
    parser.add_argument("--warm-seconds", type=float, help="before each; by default as long")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--memory", type=bytes_of, help="of the store; by default half the limit")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go")
    arguments = parser.parse_args()
    if arguments.rows is None:
        arguments.rows = int(arguments.limit * arguments.times) // ROW_BYTES
    if arguments.rows > 1 << 24:
        parser.error("more rows than a float32 can count")
    if arguments.memory is None:
        arguments.memory = arguments.limit // 2
    if arguments.warm_seconds is None:
        arguments.warm_seconds = arguments.seconds
    return arguments


def kinds():
    yield from (InStore, InMemmap)
    try:
        import lmdb  # noqa: F401
        yield InLmdb
    except ImportError:
        print("LMDB is not installed")


def measure(arguments, directory, limit):
    tables = [kind(directory, arguments.memory) for kind in kinds()]
    for table in tables:
        table.load(arguments.rows)
    rates = {table.name: [] for table in tables}
    for number in range(arguments.rounds):
        for table in tables:
            forget_pages(directory)
            rates[table.name].append(limit.run(
                rows_a_second, table, arguments.rows, arguments.batch, arguments.warm_seconds,
                arguments.seconds, number))
    return rates


def main():
    arguments = parse()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="embeddings.", dir=arguments.dir))
    try:
        with MemoryLimit(arguments.limit) as limit:
            if limit.why_not:
                print(f"no memory cgroup can be made: {limit.why_not}\n"
                      "without one the page cache may hold the whole table")
            rates = measure(arguments, directory, limit)
    finally:
        shutil.rmtree(directory)
    medians = {name: statistics.median(of) for name, of in rates.items()}
    print(f"{arguments.rows} rows, {arguments.rows * ROW_BYTES / arguments.limit:.1f} times "
          f"{arguments.limit >> 20} MiB of memory, in batches of {arguments.batch}")
    for name, rate in medians.items():
        print(f"{name:14} {rate:12.0f} rows a second   "
              f"{rate / medians['numpy.memmap']:6.2f} of memmap")
    if arguments.json:
        ratios = {f"embeddings_vs_{name.split('.')[-1].lower()}": medians["engine_race"] / rate
                  for name, rate in medians.items() if name != "engine_race"}
        arguments.json.write_text(json.dumps({
            **ratios, "rows_a_second": rates, "rows": arguments.rows, "batch": arguments.batch,
            "store_memory_bytes": arguments.memory, "seconds": arguments.seconds,
            "warm_seconds": arguments.warm_seconds,
            "limit_bytes": None if limit.why_not else arguments.limit}, indent=2))


if __name__ == "__main__":
    main()
