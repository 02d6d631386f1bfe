"""Reads that an event loop waits for."""
import asyncio
import gc
import os
import subprocess
import sys
import threading

import pytest

import engine_race
from conftest import SMALL, value_of
from engine_race import _async_reads
from engine_race._library import ffi, lib

numpy = pytest.importorskip("numpy")

COUNT = 3000


@pytest.fixture
def filled(path):
    rows = numpy.random.default_rng(1).integers(0, 256, (COUNT, 4096), numpy.uint8)
    # Values come from the device, so that reads wait.
    with engine_race.open(path, **SMALL, hot_value_bytes=0) as store:
        store.write_many(range(COUNT), rows)
        yield store, rows
    assert not _async_reads._running


def test_values_come_back(filled):
    store, rows = filled

    async def use():
        ids = numpy.random.default_rng(2).permutation(COUNT)
        assert (await store.aread_many(ids) == rows[ids]).all()
        got = await store.aread_many([1, 2], dtype=numpy.float32, shape=(-1, 32, 32))
        assert (got.view(numpy.uint8).reshape(2, 4096) == rows[1:3]).all()
        out = numpy.zeros((3, 4096), numpy.uint8)
        assert await store.aread_many([2, 2, 1], out=out) is out
        assert (out == rows[[2, 2, 1]]).all()
        got, missing = await store.aread_many([5, COUNT, (6).to_bytes(8, "big")], missing="mask")
        assert list(missing) == [False, True, False] and (got == rows[[5, 0, 6]] * [
            [1], [0], [1]]).all()
        out[:] = 5
        await store.aread_many([COUNT, 1], out=out[:2], missing="keep")
        assert (out[0] == 5).all() and (out[1] == rows[1]).all()
        assert (await store.aread_many([])).shape == (0, 4096)
        with pytest.raises(engine_race.MissingKeyError) as raised:
            await store.aread_many([1, COUNT, 2])
        assert raised.value.key == COUNT
        assert await store.aget(7) == rows[7].tobytes()
        assert await store.aget(COUNT) is None
        assert await store.aget(b"no key!!", "none") == "none"

    asyncio.run(use())
    # A loop of its own each time.
    asyncio.run(use())


def test_arguments_are_refused_before_anything_is_read(filled):
    store, _ = filled

    async def use():
        for call in (lambda: store.aget(-1), lambda: store.aread_many([-1]),
                     lambda: store.aread_many([1], missing="perhaps"),
                     lambda: store.aread_many([1], out=bytes(4096))):
            with pytest.raises(ValueError):
                await call()

    asyncio.run(use())
    assert store.stats()["async_read_count"] == 0


def test_thousands_of_tasks_wait_at_once(filled):
    """They share the reads that may be pending, and none of them waits in the loop's thread."""
    store, rows = filled

    async def one(number):
        return await store.aget(number) == rows[number].tobytes()

    async def many(begin):
        return (await store.aread_many(range(begin, begin + 100)) == rows[begin:begin + 100]).all()

    async def use():
        assert all(await asyncio.gather(*map(one, range(COUNT)), *map(many, range(0, COUNT, 100))))

    asyncio.run(use())
    assert store.stats()["async_read_count"] == 2 * COUNT


@pytest.mark.parametrize("waits", [True, False])
def test_a_small_limit_is_kept(path, waits):
    """A read beyond the limit would wait in the loop's thread, or fail."""
    with engine_race.open(path, **SMALL, async_read_limit=2, async_read_waits=waits) as store:
        store.update((number, value_of(number)) for number in range(500))

        async def use():
            calls = [store.aread_many(range(begin, 500, 7)) for begin in range(7)]
            for begin, got in enumerate(await asyncio.gather(*calls)):
                assert [bytes(row) for row in got] == list(map(value_of, range(begin, 500, 7)))

        asyncio.run(use())
        assert store.stats()["async_read_count"] == 500
        assert store.stats()["most_pending_async_read_count"] <= 2


def test_a_read_that_finds_the_store_busy_is_tried_again(filled, monkeypatch):
    """The store has one read more than the lane, until the function of one that ended returns."""
    store, rows = filled
    busy = [lib.ENGINE_RACE_BUSY] * 3

    @ffi.callback("int(engine_race_store*, uint64_t, void*, engine_race_done_fn, void*)")
    def read(*arguments):
        return busy.pop() if busy else lib.engine_race_read_async(*arguments)

    monkeypatch.setattr(_async_reads, "_READ", int(ffi.cast("uintptr_t", read)))
    monkeypatch.setattr(store, "_lane", _async_reads.new_lane(store._handle, 4096, 2))
    ids = list(range(20))
    assert (asyncio.run(store.aread_many(ids)) == rows[ids]).all()
    assert not busy


def test_small_calls_are_not_behind_large_ones(filled):
    """The keys of calls are read in turn, so that one key comes before thousands."""
    store, _ = filled
    ended = []

    async def large():
        await store.aread_many(list(range(COUNT)) * 10)
        ended.append("large")

    async def small():
        await store.aget(1)
        ended.append("small")

    async def use():
        await asyncio.gather(large(), small())

    asyncio.run(use())
    assert ended == ["small", "large"]


def test_loops_of_several_threads(filled):
    store, rows = filled
    right = []

    async def use(seed):
        ids = numpy.random.default_rng(seed).permutation(COUNT)
        right.append((await store.aread_many(ids) == rows[ids]).all())

    threads = [threading.Thread(target=asyncio.run, args=(use(seed),)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 4


def test_a_cancelled_call_fills_in_nothing_later(filled):
    store, rows = filled

    async def use():
        out = numpy.zeros((COUNT * 20, 4096), numpy.uint8)
        call = asyncio.ensure_future(store.aread_many(list(range(COUNT)) * 20, out=out))
        await asyncio.sleep(0)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not _async_reads._running
        read = store.stats()["async_read_count"]
        assert 0 < read < COUNT * 20
        filled_in = out.any(axis=1)
        # In order, because they are started so: then no further one.
        assert filled_in.sum() == read and filled_in[:read].all()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(store.aread_many(list(range(COUNT)) * 20, out=out), 0.0001)
        assert not _async_reads._running
        assert (await store.aread_many([3]) == rows[3]).all()

    asyncio.run(use())


def test_closing_meanwhile(filled):
    store, _ = filled

    async def use():
        call = asyncio.ensure_future(store.aread_many(list(range(COUNT)) * 20))
        await asyncio.sleep(0)
        await asyncio.get_running_loop().run_in_executor(None, store.close)
        with pytest.raises(engine_race.ClosedError):
            await call
        for later in (lambda: store.aget(1), lambda: store.aread_many([1]),
                      lambda: store.aread_many([])):
            with pytest.raises(engine_race.ClosedError):
                await later()

    asyncio.run(use())


def test_a_loop_that_ends_first(filled, monkeypatch):
    """Nobody takes what its reads have ended with, until another loop comes."""
    store, rows = filled
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    loop = asyncio.new_event_loop()

    async def begin():
        call = asyncio.ensure_future(store.aread_many(range(COUNT)))
        await asyncio.sleep(0)
        return call

    call = loop.run_until_complete(begin())
    loop.close()
    assert len(_async_reads._running) == 1
    del call
    gc.collect()
    (running,) = _async_reads._running.values()
    group = running.group
    del running
    _async_reads._wait_for_all()
    assert group.left == 0
    assert asyncio.run(store.aget(5)) == rows[5].tobytes()
    assert not _async_reads._running
    # The task that waited is dropped, and does not try to wait then.
    gc.collect()
    assert not told


class Raising(dict):
    """Calls under way, as a signal handler may find them."""

    def __init__(self, calls, at):
        super().__init__(calls)
        self.left = at

    def __getitem__(self, number):
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt
        return super().__getitem__(number)


@pytest.mark.parametrize("at", [1, 2, 5])
def test_an_interrupt_while_the_loop_takes_what_has_ended(filled, monkeypatch, at):
    store, rows = filled
    monkeypatch.setattr(_async_reads, "_running", Raising(_async_reads._running, at))
    loop = asyncio.new_event_loop()

    async def use():
        return await asyncio.gather(*(store.aget(key) for key in range(20)))

    task = loop.create_task(use())
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert loop.run_until_complete(task) == [row.tobytes() for row in rows[:20]]
    loop.close()
    assert not _async_reads._running


def test_a_call_that_fails_before_it_starts_leaves_nothing(filled, monkeypatch):
    store, rows = filled
    call = store._handle.call

    def interrupted(function, *arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(store._handle, "call", interrupted)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(store.aget(1))
        assert not _async_reads._running

    def late(function, *arguments):
        call(function, *arguments)
        raise KeyError("later")

    with monkeypatch.context() as patched:
        patched.setattr(store._handle, "call", late)
        with pytest.raises(KeyError, match="later"):
            asyncio.run(store.aread_many(range(COUNT)))
        assert not _async_reads._running
    assert asyncio.run(store.aget(1)) == rows[1].tobytes()


PROGRAM = """
import asyncio, sys
import engine_race

store = engine_race.open(sys.argv[1])
if sys.argv[2] == "drop":
    loop = asyncio.new_event_loop()
    task = loop.create_task(store.aread_many(list(range(100)) * 100))
    loop.call_soon(loop.call_soon, loop.stop)
    loop.run_forever()
    print(len(engine_race._async_reads._running))
else:
    async def wait_for_ever():
        await store.aread_many(list(range(100)) * 100)
        print(1)
    asyncio.run(wait_for_ever())
"""


@pytest.mark.parametrize("how", ["drop", "wait"])
def test_an_interpreter_that_ends_meanwhile(path, how):
    with engine_race.open(path, **SMALL) as store:
        store.update((number, value_of(number)) for number in range(100))
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(path), how], timeout=100,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                           stdout=subprocess.PIPE, text=True)
    assert (ended.returncode, ended.stdout) == (0, "1\n")


def test_a_child_of_a_fork_gets_an_error(filled):
    store, rows = filled

    async def use():
        call = asyncio.ensure_future(store.aread_many(range(COUNT)))
        await asyncio.sleep(0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asyncio._set_running_loop(None)
                try:
                    asyncio.new_event_loop().run_until_complete(store.aget(1))
                except engine_race.ClosedError:
                    code = 0 if not _async_reads._running else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert (await call == rows).all()

    asyncio.run(use())
