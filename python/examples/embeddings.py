"""A table of embeddings that is larger than memory, gathered at random in batches.

    python embeddings.py --dir /tmp --limit 1g --times 4 --json figures.json

A row has 1024 floats, which are 4096 bytes; its id is the key. Rounds gather the same rows from the
store, from a memory map by one thread and by several, and from LMDB where it is installed. The
order of the tables changes with each round. Each round of a table is a process of its own. A cgroup
limits its memory and its page cache. The table is --times as large as that limit, and every process
first gathers three times as many rows as fit in the limit. The store's memory is half of the limit
unless --memory says otherwise.
"""
import argparse
import json
import mmap
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy

import engine_race
from memory_limit import MemoryLimit

WIDTH = 1024
ROW_BYTES = 4096
LOADED_AT_ONCE = 4096
WARMING_LIMITS = 3


def rows_of(first, count):
    """Rows that hold their ids, so that a gathered batch can be checked."""
    rows = numpy.empty((count, WIDTH), numpy.float32)
    rows[:] = numpy.arange(first, first + count, dtype=numpy.float32)[:, None]
    return rows


def pieces_of(count):
    for first in range(0, count, LOADED_AT_ONCE):
        yield first, rows_of(first, min(LOADED_AT_ONCE, count - first))


class InStore:
    name = column = "engine_race"

    def __init__(self, directory, arguments):
        self.path, self._memory_bytes = directory / "store", arguments.memory

    def load(self, count):
        with engine_race.open(self.path) as store:
            for first, rows in pieces_of(count):
                store.write_many(numpy.arange(first, first + len(rows)), rows)
            store.sync()

    def __enter__(self):
        self._store = engine_race.open(self.path, memory_budget_bytes=self._memory_bytes)
        return self

    def __exit__(self, *_):
        self._store.close()

    def gather(self, ids, out):
        self._store.read_many(ids, out=out)


class InMemmap:
    name, column = "memmap", "mmap, MADV_RANDOM"

    def __init__(self, directory, _):
        self.path = directory / "table"

    def load(self, count):
        with open(self.path, "wb") as file:
            for _, rows in pieces_of(count):
                file.write(rows)
            file.flush()
            os.fsync(file.fileno())

    def __enter__(self):
        with open(self.path, "rb") as file:
            self._memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # A numpy.memmap, but without reading ahead: random reads would only lose memory by it.
        self._memory.madvise(mmap.MADV_RANDOM)
        self._table = numpy.frombuffer(self._memory, numpy.float32).reshape(-1, WIDTH)
        return self

    def __exit__(self, *_):
        del self._table
        self._memory.close()

    def gather(self, ids, out):
        numpy.take(self._table, ids, axis=0, out=out, mode="clip")


class InMemmapByThreads(InMemmap):
    """Several threads gather parts of the batch, and so wait for several page faults at once."""

    name = "memmap_threads"

    def __init__(self, directory, arguments):
        super().__init__(directory, arguments)
        self._count = arguments.threads
        self.column = f"mmap, {self._count} threads"

    def load(self, count):
        """The table is that of one thread, which was loaded before."""

    def __enter__(self):
        super().__enter__()
        self._pool = ThreadPoolExecutor(self._count)
        return self

    def __exit__(self, *_):
        self._pool.shutdown()
        super().__exit__()

    def gather(self, ids, out):
        # numpy releases the interpreter's lock while it copies rows.
        parts = zip(numpy.array_split(ids, self._count), numpy.array_split(out, self._count))
        for gathered in [self._pool.submit(super(InMemmapByThreads, self).gather, *part)
                         for part in parts]:
            gathered.result()


class InLmdb:
    name = column = "LMDB"

    def __init__(self, directory, _):
        self.path = directory / "lmdb"

    def load(self, count):
        import lmdb

        size = count * 2 * ROW_BYTES + (1 << 30)
        with lmdb.open(str(self.path), map_size=size, sync=False) as table:
            for first, rows in pieces_of(count):
                with table.begin(write=True) as transaction:
                    for number, row in enumerate(rows, first):
                        transaction.put(number.to_bytes(8, "big"), row.tobytes(), append=True)
            table.sync(True)

    def __enter__(self):
        import lmdb

        self._table = lmdb.open(str(self.path), readonly=True, readahead=False)
        return self

    def __exit__(self, *_):
        self._table.close()

    def gather(self, ids, out):
        # All lookups in one call of the library. It answers in the order of the keys given.
        keys = ids.astype(">u8").tobytes()
        with self._table.begin(buffers=True) as transaction, transaction.cursor() as cursor:
            found = cursor.getmulti([keys[at:at + 8] for at in range(0, len(keys), 8)])
            for row, (_, value) in zip(out, found):
                row[:] = numpy.frombuffer(value, numpy.float32)


def forget_pages(directory):
    """Evicts the page cache of every file in it: a run must not find what others have read."""
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def gather_some(table, count, batch, random, enough):
    """Gathers batches until enough(rows, seconds); both."""
    out = numpy.empty((batch, WIDTH), numpy.float32)
    gathered, began = 0, time.monotonic()
    while not (gathered and enough(gathered, time.monotonic() - began)):
        ids = random.integers(0, count, batch)
        table.gather(ids, out)
        if (out[:, 0] != ids).any() or (out[:, -1] != ids).any():
            raise RuntimeError(f"{table.name} gave a wrong row")
        gathered += batch
    return gathered, time.monotonic() - began


def measured(table, arguments, seed):
    """Rows a second, and the rows gathered before. By rows, not by time: all are equally warm."""
    random = numpy.random.default_rng(seed)
    with table:
        warmed, _ = gather_some(table, arguments.rows, arguments.batch, random,
                                lambda rows, _: rows >= arguments.warm_rows)
        rows, seconds = gather_some(table, arguments.rows, arguments.batch, random,
                                    lambda _, seconds: seconds >= arguments.seconds)
    return rows / seconds, warmed


def bytes_on_disk(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_blocks * 512 for file in files)


def file_system_of(path):
    return subprocess.run(["stat", "-f", "-c", "%T", path], check=True, capture_output=True,
                          text=True).stdout.strip()


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
    parser.add_argument("--warm-rows", type=int, help="gathered before each timed run; by default "
                        f"{WARMING_LIMITS} times those that fit in the limit")
    parser.add_argument("--threads", default=4, type=int, help="of the second memory map")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--memory", type=bytes_of, help="of the store; by default half the limit")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go")
    arguments = parser.parse_args()
    if arguments.rows is None:
        arguments.rows = int(arguments.limit * arguments.times) // ROW_BYTES
    if min(arguments.rows, arguments.batch, arguments.rounds, arguments.threads) < 1:
        parser.error("rows, batch, rounds and threads are at least 1")
    if arguments.rows > 1 << 24:
        parser.error("more rows than a float32 can count")
    if arguments.memory is None:
        arguments.memory = arguments.limit // 2
    if arguments.warm_rows is None:
        arguments.warm_rows = WARMING_LIMITS * arguments.limit // ROW_BYTES
    if file_system_of(arguments.dir) in ("tmpfs", "ramfs"):
        parser.error(f"{arguments.dir} is a tmpfs: a table in memory is never read from a disk")
    return arguments


def kinds():
    yield from (InStore, InMemmap, InMemmapByThreads)
    try:
        import lmdb  # noqa: F401
        yield InLmdb
    except ImportError:
        print("LMDB is not installed")


def measure(arguments, directory, limit):
    """Rates by name, the rows warmed, and bytes on disk by name."""
    tables = [kind(directory, arguments) for kind in kinds()]
    for table in tables:
        table.load(arguments.rows)
    sizes = {table.name: bytes_on_disk(table.path) for table in tables}
    rates, warmed = {table.name: [] for table in tables}, {}
    for number in range(arguments.rounds):
        first = number % len(tables)
        for table in tables[first:] + tables[:first]:
            forget_pages(directory)
            rate, warmed[table.name] = limit.run(measured, table, arguments, number)
            rates[table.name].append(rate)
    return {table.name: table.column for table in tables}, rates, warmed, sizes


def main():
    arguments = parse()
    directory = pathlib.Path(tempfile.mkdtemp(prefix="embeddings.", dir=arguments.dir))
    try:
        with MemoryLimit(arguments.limit) as limit:
            if limit.why_not:
                print(f"no memory cgroup can be made: {limit.why_not}\n"
                      "without one the page cache may hold the whole table: no ratios are given")
            columns, rates, warmed, sizes = measure(arguments, directory, limit)
    finally:
        shutil.rmtree(directory)
    medians = {name: statistics.median(of) for name, of in rates.items()}
    ratios = {} if limit.why_not else {
        "embeddings_vs_memmap":
            medians["engine_race"] / max(medians["memmap"], medians["memmap_threads"]),
        **{f"embeddings_vs_{name.lower()}_alone" if name == "memmap"
           else f"embeddings_vs_{name.lower()}": medians["engine_race"] / rate
           for name, rate in medians.items() if name != "engine_race"}}
    print(f"{arguments.rows} rows, {arguments.rows * ROW_BYTES / arguments.limit:.1f} times "
          f"{arguments.limit >> 20} MiB of memory, in batches of {arguments.batch}")
    for name, rate in medians.items():
        print(f"{columns[name]:18} {rate:12.0f} rows a second   {sizes[name] >> 20:8} MiB on disk"
              f"   warmed by {warmed[name]} rows")
    for name, ratio in ratios.items():
        print(f"{name:30} {ratio:6.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({
            **ratios, "rows_a_second": rates, "columns": columns, "rows_warmed": warmed,
            "bytes_on_disk": sizes, "rows": arguments.rows, "batch": arguments.batch,
            "store_memory_bytes": arguments.memory, "seconds": arguments.seconds,
            "threads": arguments.threads,
            "limit_bytes": None if limit.why_not else arguments.limit}, indent=2))


if __name__ == "__main__":
    main()
