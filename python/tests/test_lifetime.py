"""Who frees a handle, and when: threads, interrupts, children and the garbage collector."""
import gc
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

import engine_race
from conftest import SMALL, value_of
from engine_race._handle import Handle
from engine_race._library import ffi

PACKAGE = pathlib.Path(engine_race.__file__).parent


def test_control_c_while_it_waits_to_close(path):
    """The thread that closes is interrupted. The last call frees the store then."""
    store = engine_race.open(path, **SMALL)
    inside, leave = threading.Event(), threading.Event()

    def stay(_pointer):
        inside.set()
        leave.wait()

    reader = threading.Thread(target=store._handle.call, args=(stay,))
    reader.start()
    inside.wait()
    threading.Timer(0.05, signal.raise_signal, (signal.SIGINT,)).start()
    with pytest.raises(KeyboardInterrupt):
        store.close()
    with pytest.raises(OSError):
        engine_race.open(path)
    leave.set()
    reader.join()
    engine_race.open(path, **SMALL).close()
    store.close()


class Fake:
    """A handle whose destructor is of Python."""

    def __init__(self, what, free, parent=None):
        self.handle = Handle(what, free, parent)

        def make(cell):
            cell[0] = ffi.cast(f"engine_race_{what}*", 1)
            return 0

        if parent is None:
            self.handle.create(make)
        else:
            parent.call(lambda _: self.handle.create(make))


def test_a_child_is_never_freed_beside_its_store():
    freed, frees_child, may_free = [], threading.Event(), threading.Event()

    def free_child(_):
        frees_child.set()
        may_free.wait()
        freed.append("iterator")

    store = Fake("store", lambda _: freed.append("store")).handle
    child = Fake("iterator", free_child, store).handle
    closes_child = threading.Thread(target=child.close)
    closes_child.start()
    frees_child.wait()
    closes_store = threading.Thread(target=store.close)
    closes_store.start()
    # The thread closes the store, and waits for the child.
    while not store.closed:
        pass
    closes_store.join(0.1)
    assert freed == [] and closes_store.is_alive()
    may_free.set()
    closes_child.join()
    closes_store.join()
    assert freed == ["iterator", "store"]


def test_every_close_returns_when_it_is_freed():
    """Also one that comes while another thread is in the destructor."""
    freed, frees, may_free = [], threading.Event(), threading.Event()

    def free(_):
        frees.set()
        may_free.wait()
        freed.append("store")

    store = Fake("store", free).handle
    first, second = (threading.Thread(target=store.close) for _ in range(2))
    first.start()
    frees.wait()
    second.start()
    second.join(0.1)
    assert second.is_alive()
    may_free.set()
    first.join()
    second.join()
    assert freed == ["store"]


def test_a_store_frees_its_children_first():
    freed = []
    store = Fake("store", lambda _: freed.append("store")).handle
    snapshot = Fake("snapshot", lambda _: freed.append("snapshot"), store).handle
    iterator = Fake("iterator", lambda _: freed.append("iterator"), store).handle
    iterator.close()
    store.close()
    assert freed == ["iterator", "snapshot", "store"]
    assert snapshot.closed
    snapshot.close()
    store.close()
    del snapshot, iterator, store
    gc.collect()
    assert freed == ["iterator", "snapshot", "store"]


def test_threads_close_a_store_and_its_children_at_once(path):
    for number in range(60):
        store = engine_race.open(path, **SMALL)
        store[number] = value_of(number)
        children = [store.snapshot() for _ in range(3)] + [store.iterator() for _ in range(3)]
        start = threading.Barrier(8)

        def close(held):
            start.wait()
            held.close()

        threads = [threading.Thread(target=close, args=(held,))
                   for held in [*children, store, store]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(held.closed for held in [*children, store])
    with engine_race.open(path, **SMALL) as again:
        assert len(list(again)) == 60


def test_what_nobody_holds_is_freed(path):
    store = engine_race.open(path, **SMALL)
    store.snapshot()
    store.iterator()
    store.scan()
    gc.collect()
    assert store.stats()["view_count"] == 0
    walk = engine_race.open(path.parent / "other", **SMALL).scan()
    assert list(walk) == []
    del store
    gc.collect()
    engine_race.open(path, **SMALL).close()


def test_threads_take_turns_at_an_iterator(store):
    for number in range(400):
        store[number] = value_of(number)
    walk = store.iterator()
    walk.seek_to_first()
    inside, most, seen = [], [], []

    def step(_pointer):
        inside.append(1)
        most.append(len(inside))
        seen.append(os.getpid())
        threading.Event().wait(0.001)
        inside.pop()

    def run():
        for _ in range(20):
            walk._call(step)
            walk.next()

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1 and len(seen) == 80
    assert walk.key == 80


def test_a_dropped_generator_waits_for_nobody(path):
    """It may be dropped by the very code that another thread waits for."""
    inside, leave = threading.Event(), threading.Event()
    opened = []

    def records():
        with engine_race.open(path, **SMALL) as store:
            opened.append(store)
            yield from store.scan()
            yield

    def stay(_pointer):
        inside.set()
        leave.wait()

    made = [records()]
    next(made[0])
    reader = threading.Thread(target=opened[0]._handle.call, args=(stay,))
    reader.start()
    inside.wait()
    drops = threading.Thread(target=made.clear)
    drops.start()
    drops.join(20)
    waits = drops.is_alive()
    leave.set()
    reader.join()
    drops.join()
    assert not waits and opened[0].closed
    engine_race.open(path, **SMALL).close()


CLOSES_AT_THE_END = """
class Closer:
    def __del__(self, close=store.close):
        close()
closer = Closer()
"""
DROPS_A_GENERATOR = """
def use(opened):
    with opened:
        yield
used = use(store)
next(used)
"""


@pytest.mark.parametrize("then", [CLOSES_AT_THE_END, DROPS_A_GENERATOR],
                         ids=["closes", "drops a generator"])
def test_the_interpreter_ends_while_a_daemon_is_inside(path, then):
    """The daemon never leaves its call, and everything that closes the store must not wait."""
    program = (
        "import engine_race, sys, threading\n"
        f"store = engine_race.open(sys.argv[1], **{SMALL})\n"
        "store[1] = bytes(4096)\n"
        "inside = threading.Event()\n"
        # Globals of its own: a frame of the daemon would keep those of the program alive.
        "own = {'inside': inside, 'forever': threading.Event()}\n"
        "exec('def stay(_pointer): inside.set(); forever.wait()', own)\n"
        "daemon = threading.Thread(target=store._handle.call, args=(own['stay'],), daemon=True)\n"
        "daemon.start()\n"
        "inside.wait()\n") + then
    ended = subprocess.run([sys.executable, "-c", program, str(path)], timeout=120,
                           env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
                           capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    with engine_race.open(path) as again:
        assert again[1] == bytes(4096)


def test_the_interpreter_ends_with_everything_open(path):
    """With a thread in the middle of a call, too."""
    program = (
        "import engine_race, sys, threading\n"
        f"store = engine_race.open(sys.argv[1], **{SMALL})\n"
        "store[1] = bytes(4096)\n"
        "began = threading.Event()\n"
        "snapshot, walk, scan = store.snapshot(), store.iterator(), store.scan()\n"
        "next(scan)\n"
        "def read():\n"
        "    while True:\n"
        "        store[1]\n"
        "        began.set()\n"
        "threading.Thread(target=read, daemon=True).start()\n"
        "began.wait()\n")
    ended = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60,
                           env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
                           capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    with engine_race.open(path) as store:
        assert store[1] == bytes(4096)
