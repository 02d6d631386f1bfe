"""A table of embeddings that is larger than memory, gathered at random in batches.

    python embeddings.py --dir /tmp --limit 1g --times 4 --json figures.json

A row has --dim floats, by default 1024; its id is the key. One thread gathers batches of random
rows, each into a new array: `store.read_many(ids)` from the store, `table[ids]` from a memory map.

The claim embeddings_vs_memmap is the store's rate over the faster of two maps, the median of the
rounds. One map is a plain numpy.memmap. The kernel reads ahead at each of its page faults, as far
as the device's read_ahead_kb says; the figures have that number. The other map has MADV_RANDOM and
reads nothing ahead. So no setting of the device makes the store look better.

Further columns are figures and no part of the claim: the second map gathered by --threads threads,
which wait for several page faults at once, and LMDB, where it is installed. Each column shows what
a row costs, in bytes read from the device and in time of the CPU.

The order of the columns changes with each round. Each round of a column is a process of its own. A
cgroup limits its memory and its page cache. The table is --times as large as that limit, and every
process first gathers half as many rows again as fit in the limit, for --warm-seconds at most. No
claim is made if that time was too short to fill the memory of one of its columns. The store's memory
is half of the limit unless --memory says otherwise.
"""
import argparse
import contextlib
import json
import mmap
import os
import pathlib
import resource
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import numpy

import engine_race
from long_work import (Progress, end_on_signals, refuse, why_in_memory, why_no_room,
                       work_directory)
from memory_limit import MemoryLimit

CLAIM = "embeddings_vs_memmap"
COLUMNS_OF_CLAIM = ("engine_race", "memmap", "random_map")
LOADED_AT_ONCE = 4096
WARMING_LIMITS = 1.5


def rows_of(first, count, dim):
    """Rows that hold their ids, so that a gathered batch can be checked."""
    rows = numpy.empty((count, dim), numpy.float32)
    rows[:] = numpy.arange(first, first + count, dtype=numpy.float32)[:, None]
    return rows


def pieces_of(count, dim):
    for first in range(0, count, LOADED_AT_ONCE):
        yield first, rows_of(first, min(LOADED_AT_ONCE, count - first), dim)


class InStore:
    name = column = "engine_race"

    def __init__(self, directory, arguments):
        self.path, self._memory_bytes = directory / "store", arguments.memory
        self._dim = arguments.dim

    def load(self, count):
        with engine_race.open(self.path, dtype="float32", shape=self._dim) as store:
            for first, rows in pieces_of(count, self._dim):
                store.write_many(numpy.arange(first, first + len(rows)), rows)
            store.sync()

    def __enter__(self):
        self._store = engine_race.open(self.path, dtype="float32", shape=self._dim,
                                       memory_budget_bytes=self._memory_bytes)
        return self

    def __exit__(self, *_):
        self._store.close()

    def gather(self, ids):
        return self._store.read_many(ids)


class InMemmap:
    """As people do without a store: a numpy.memmap, indexed with the ids of a batch."""

    name, column = "memmap", "numpy.memmap"

    def __init__(self, directory, arguments):
        self.path, self._dim = directory / "table", arguments.dim

    def load(self, count):
        with open(self.path, "wb") as file:
            for _, rows in pieces_of(count, self._dim):
                file.write(rows)
            file.flush()
            os.fsync(file.fileno())

    def __enter__(self):
        self._table = numpy.memmap(self.path, numpy.float32, mode="r").reshape(-1, self._dim)
        return self

    def __exit__(self, *_):
        del self._table

    def gather(self, ids):
        return self._table[ids]


class InRandomMap(InMemmap):
    """The same without reading ahead."""

    name, column = "random_map", "MADV_RANDOM"

    def load(self, count):
        """The table is that of numpy.memmap, which was loaded before."""

    def __enter__(self):
        super().__enter__()
        # The mmap that the array lies in.
        self._table.base.base.madvise(mmap.MADV_RANDOM)
        return self


class InRandomMapByThreads(InRandomMap):
    """Several threads gather parts of the batch, and so wait for several page faults at once."""

    name = "random_map_threads"

    def __init__(self, directory, arguments):
        super().__init__(directory, arguments)
        self._count = arguments.threads
        self.column = f"the same, {self._count} threads"

    def __enter__(self):
        super().__enter__()
        self._pool = ThreadPoolExecutor(self._count)
        return self

    def __exit__(self, *_):
        self._pool.shutdown()
        super().__exit__()

    def gather(self, ids):
        out = numpy.empty((len(ids), self._dim), numpy.float32)
        # numpy releases the interpreter's lock while it copies rows.
        parts = zip(numpy.array_split(ids, self._count), numpy.array_split(out, self._count))
        for gathered in [self._pool.submit(numpy.take, self._table, some, axis=0, out=rows,
                                           mode="clip") for some, rows in parts]:
            gathered.result()
        return out


class InLmdb:
    name = column = "LMDB"

    def __init__(self, directory, arguments):
        self.path, self._dim = directory / "lmdb", arguments.dim

    def load(self, count):
        import lmdb

        size = count * (4 * self._dim + 4096) + (1 << 30)
        with lmdb.open(str(self.path), map_size=size, sync=False) as table:
            for first, rows in pieces_of(count, self._dim):
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

    def gather(self, ids):
        out = numpy.empty((len(ids), self._dim), numpy.float32)
        # All lookups in one call of the library. It answers in the order of the keys given.
        keys = ids.astype(">u8").tobytes()
        with self._table.begin(buffers=True) as transaction, transaction.cursor() as cursor:
            found = cursor.getmulti([keys[at:at + 8] for at in range(0, len(keys), 8)])
            for row, (_, value) in zip(out, found):
                row[:] = numpy.frombuffer(value, numpy.float32)
        return out


def forget_pages(directory):
    """Evicts the page cache of every file in it: a run must not find what others have read."""
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def gather_some(table, count, batch, random, enough, on_batch=None):
    """Gathers batches until enough(rows, seconds); both."""
    gathered, began = 0, time.monotonic()
    while not (gathered and enough(gathered, time.monotonic() - began)):
        ids = random.integers(0, count, batch)
        out = table.gather(ids)
        if (out[:, 0] != ids).any() or (out[:, -1] != ids).any():
            raise RuntimeError(f"{table.name} gave a wrong row")
        gathered += batch
        if on_batch:
            on_batch(gathered)
    return gathered, time.monotonic() - began


def measured(table, arguments, seed, progress):
    """Rows a second, what a row cost, and the rows gathered before. Warming goes by rows, not by
    time, so all are equally warm, unless --warm-seconds ends the warming of a slow one."""
    random = numpy.random.default_rng(seed)

    def show(rows):
        progress.show(f"{table.column} warms, {min(100 * rows // arguments.warm_rows, 100)} %")

    with table:
        at_start = resource.getrusage(resource.RUSAGE_SELF)
        warmed, _ = gather_some(table, arguments.rows, arguments.batch, random,
                                lambda rows, seconds: rows >= arguments.warm_rows
                                or seconds >= arguments.warm_seconds, show)
        progress.show(f"{table.column} is timed")
        when_warm = resource.getrusage(resource.RUSAGE_SELF)
        rows, seconds = gather_some(table, arguments.rows, arguments.batch, random,
                                    lambda _, seconds: seconds >= arguments.seconds)
        at_end = resource.getrusage(resource.RUSAGE_SELF)
    cpu = at_end.ru_utime + at_end.ru_stime - when_warm.ru_utime - when_warm.ru_stime
    # The system counts in units of 512 bytes.
    return {"rows_a_second": rows / seconds, "rows_warmed": warmed, "cpu_us_a_row": cpu * 1e6 / rows,
            "bytes_read_to_warm": (when_warm.ru_inblock - at_start.ru_inblock) * 512,
            "bytes_read_a_row": (at_end.ru_inblock - when_warm.ru_inblock) * 512 / rows}


def bytes_on_disk(path):
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return sum(file.stat().st_blocks * 512 for file in files)


def bytes_of(text):
    shift = "bkmgt".find(text[-1].lower())
    return int(text) if shift < 0 else int(text[:-1]) << (10 * shift)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--dir", default=".", type=pathlib.Path, help="works in a directory here")
    parser.add_argument("--limit", default=1 << 30, type=bytes_of, help="of memory and page cache")
    parser.add_argument("--times", default=4.0, type=float, help="how many times the limit the "
                        "table takes")
    parser.add_argument("--dim", default=1024, type=int, help="floats of a row")
    parser.add_argument("--rows", type=int, help="of the table; by default as --times says")
    parser.add_argument("--batch", default=4096, type=int)
    parser.add_argument("--seconds", default=10.0, type=float, help="of each timed run")
    parser.add_argument("--warm-rows", type=int, help="gathered before each timed run; by default "
                        f"{WARMING_LIMITS} times those that fit in the limit")
    parser.add_argument("--warm-seconds", default=120.0, type=float, help="a column that warms for "
                        "so long is timed as it is then")
    parser.add_argument("--threads", default=4, type=int, help="of the column with several threads")
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--memory", type=bytes_of, help="of the store; by default half the limit")
    parser.add_argument("--json", type=pathlib.Path, help="where the figures go")
    arguments = parser.parse_args()
    row_bytes = arguments.row_bytes = 4 * arguments.dim
    if not 8 <= row_bytes <= 1 << 20:
        parser.error("rows have 2 to 262144 floats")
    if arguments.rows is None:
        arguments.rows = int(arguments.limit * arguments.times) // row_bytes
    if min(arguments.rows, arguments.batch, arguments.rounds, arguments.threads) < 1:
        parser.error("rows, batch, rounds and threads are at least 1")
    if arguments.rows > 1 << 24:
        parser.error("more rows than a float32 can count")
    if arguments.memory is None:
        arguments.memory = arguments.limit // 2
    if arguments.warm_rows is None:
        arguments.warm_rows = int(WARMING_LIMITS * arguments.limit) // row_bytes
    why_not = (why_in_memory(arguments.dir)
               or why_no_room(arguments.dir, needed_bytes(arguments)))
    if why_not:
        refuse(parser, arguments.json, [CLAIM], why_not)
    return arguments


def needed_bytes(arguments):
    """Of disk: the store with its logs, the mapped file, and LMDB with up to a page more a row."""
    return int(arguments.rows * (arguments.row_bytes * 3.4 + 4096 * 1.1)) + (1 << 28)


def kinds():
    yield from (InStore, InMemmap, InRandomMap, InRandomMapByThreads)
    try:
        import lmdb  # noqa: F401
        yield InLmdb
    except ImportError:
        print("LMDB is not installed")


def read_ahead_bytes(path):
    """Of the device that this lies on; None where the system does not tell."""
    number = os.stat(path).st_dev
    device = pathlib.Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    for holder in (device, device.parent):
        with contextlib.suppress(OSError, ValueError):
            return int((holder / "queue" / "read_ahead_kb").read_text(encoding="utf-8")) << 10
    return None


def measure(arguments, directory, limit):
    """The columns' headings and bytes on disk by name, and what each round measured."""
    tables = [kind(directory, arguments) for kind in kinds()]
    progress = Progress(arguments.rounds * len(tables))
    for table in tables:
        progress.show(f"{table.column} is loaded")
        table.load(arguments.rows)
    progress = Progress(arguments.rounds * len(tables))
    sizes = {table.name: bytes_on_disk(table.path) for table in tables}
    rounds = {table.name: [] for table in tables}
    for number in range(arguments.rounds):
        first = number % len(tables)
        for table in tables[first:] + tables[:first]:
            forget_pages(directory)
            rounds[table.name].append(limit.run(measured, table, arguments, number, progress))
            progress.step()
    progress.clear()
    return {table.name: table.column for table in tables}, sizes, rounds


def rates_of(rounds, *names):
    """The fastest of these columns in each round."""
    return [max(at["rows_a_second"] for at in together)
            for together in zip(*(rounds[name] for name in names))]


def ratio(rounds, *names):
    """Of the store to the fastest of these columns: the median of the rounds."""
    return statistics.median(ours / theirs for ours, theirs in zip(
        rates_of(rounds, "engine_race"), rates_of(rounds, *names)))


def why_cold(rounds, arguments):
    """Nothing if each column of the claim was warm when it was timed, otherwise which one was not. A
    column that --warm-seconds cut off is warm if it has read so much that its memory was full."""
    for name in COLUMNS_OF_CLAIM:
        for at in rounds[name]:
            if (at["rows_warmed"] < arguments.warm_rows
                    and at["bytes_read_to_warm"] < arguments.limit):
                return (f"{name} was not warm: in {arguments.warm_seconds:g} s it gathered "
                        f"{at['rows_warmed']} of {arguments.warm_rows} rows, and read "
                        f"{at['bytes_read_to_warm'] >> 20} of {arguments.limit >> 20} MiB")
    return ""


def median(rounds, name, figure):
    return statistics.median(at[figure] for at in rounds[name])


def main():
    arguments = parse()
    end_on_signals()
    with work_directory("embeddings.", arguments.dir) as directory, \
            MemoryLimit(arguments.limit) as limit:
        if limit.why_not:
            print(f"no memory cgroup can be made: {limit.why_not}\n"
                  "without one the page cache may hold the whole table: no ratios are given")
        read_ahead = read_ahead_bytes(directory)
        columns, sizes, rounds = measure(arguments, directory, limit)
    has_limit = not limit.why_not
    ratios = {name: ratio(rounds, name) for name in rounds if name != "engine_race" and has_limit}
    why_not = why_cold(rounds, arguments) if has_limit else (
        f"no memory cgroup can be made: {limit.why_not}")
    claims = {} if why_not else {CLAIM: ratio(rounds, *COLUMNS_OF_CLAIM[1:])}
    print(f"{arguments.rows} rows, {arguments.rows * arguments.row_bytes / arguments.limit:.1f} times "
          f"{arguments.limit >> 20} MiB of memory, in batches of {arguments.batch}; the device "
          f"reads ahead {'unknown' if read_ahead is None else read_ahead >> 10} KiB")
    for name, column in columns.items():
        print(f"{column:20} {median(rounds, name, 'rows_a_second'):10.0f} rows a second, a row: "
              f"{median(rounds, name, 'bytes_read_a_row') / 1024:8.1f} KiB read, "
              f"{median(rounds, name, 'cpu_us_a_row'):8.1f} us of CPU;"
              f" {sizes[name] >> 20:6} MiB on disk, warmed by"
              f" {min(at['rows_warmed'] for at in rounds[name])} rows"
              + (f"; engine_race over it {ratios[name]:.2f}" if name in ratios else ""))
    for name, value in claims.items():
        print(f"{name} {value:.2f}")
    if why_not:
        print(f"{CLAIM} is not given: {why_not}")
    if arguments.json:
        arguments.json.write_text(json.dumps({
            "claims": claims, "not_measured": {CLAIM: why_not} if why_not else {},
            "ratios": ratios, "rounds": rounds, "columns": columns, "bytes_on_disk": sizes,
            "rows": arguments.rows, "dim": arguments.dim, "batch": arguments.batch,
            "read_ahead_bytes": read_ahead,
            "store_memory_bytes": arguments.memory, "seconds": arguments.seconds,
            "threads": arguments.threads, "numpy": numpy.__version__,
            "limit_bytes": arguments.limit if has_limit else None}, indent=2))


if __name__ == "__main__":
    main()
