"""A writer beside a process that follows it: what the follower costs it, and how far it is behind."""
import contextlib
import multiprocessing
import shutil
import time

import numpy
from rounds import rows_of

import engine_race

WRITTEN_AT_ONCE = 64
MOST_BATCHES = 1 << 20
POLL_SECONDS = 0.005
# An odd factor spreads the keys over all buckets.
SPREAD = 0x9E3779B97F4A7C15
SMALL = {"memory_budget_bytes": "64m"}


def key_of(number):
    return number * SPREAD % (1 << 64)


def follow(path, acknowledged_ns, ready, ended, lags):
    """Notes for each batch of the writer how long after its end a poll has found it, in ns."""
    noted, batch = [], 0
    with engine_race.open(path, mode="r", follow=True, **SMALL) as store:
        ready.set()
        while True:
            was_ended = ended.is_set()
            store.refresh()
            while (key := key_of((batch + 1) * WRITTEN_AT_ONCE - 1)) in store:
                # A batch may be found before the writer has noted its end.
                found, at = time.monotonic_ns(), acknowledged_ns[batch]
                noted.append(max(found - at, 0) if at else 0)
                batch += 1
                if batch % 64 == 0:
                    row = store.read_many([key], dtype=numpy.uint64)
                    assert (row == key).all(), "a wrong row"
            if was_ended:
                break
            time.sleep(POLL_SECONDS)
    lags.put(noted)


@contextlib.contextmanager
def follower(path, acknowledged_ns, noted):
    """Runs a follower; its lags are added to `noted` at the end."""
    context = multiprocessing.get_context("spawn")
    ready, ended, lags = context.Event(), context.Event(), context.SimpleQueue()
    child = context.Process(target=follow, daemon=True,
                            args=(path, acknowledged_ns, ready, ended, lags))
    child.start()
    try:
        ready.wait()
        yield
        ended.set()
        noted += lags.get()
        child.join()
    finally:
        if child.is_alive():
            child.kill()


def written_rate(path, seconds, noted=None):
    """Rows a second that are written into a new store, with a follower where `noted` is a list."""
    acknowledged_ns = multiprocessing.get_context("spawn").RawArray("q", MOST_BATCHES)
    rows = rows_of(range(WRITTEN_AT_ONCE))
    with engine_race.open(path, **SMALL) as store:
        beside = (contextlib.nullcontext() if noted is None
                  else follower(path, acknowledged_ns, noted))
        with beside:
            batch, began = 0, time.perf_counter()
            while (now := time.perf_counter()) - began < seconds and batch < MOST_BATCHES:
                first = batch * WRITTEN_AT_ONCE
                keys = numpy.arange(first, first + WRITTEN_AT_ONCE, dtype=numpy.uint64) * numpy.uint64(
                    SPREAD)
                rows[:] = keys[:, None]
                store.write_many(keys, rows)
                acknowledged_ns[batch] = time.monotonic_ns()
                batch += 1
    shutil.rmtree(path)
    return batch * WRITTEN_AT_ONCE / (now - began)
