"""Forks, other processes, and the interpreter's lock."""
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import pytest

import engine_race
from cffi import FFI
from conftest import SMALL, value_of
from engine_race._library import ffi, lib


def run_in_fork(body):
    """Runs body() in the child of a fork; its exit code, 0 when nothing was raised."""
    child = os.fork()
    if child == 0:
        code = 1
        # No watchdog of the parent lives here.
        signal.alarm(60)
        try:
            body()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_forked_child_may_use_nothing(store):
    numpy = pytest.importorskip("numpy")
    store[1] = value_of(1)
    snapshot, walk, scan = store.snapshot(), store.iterator(), store.scan()
    row = numpy.zeros((1, 4096), numpy.uint8)
    walk.seek_to_first()

    def use():
        calls = [lambda: store.get(1), lambda: store.put(1, value_of(1)), lambda: store.delete(1),
                 lambda: store.read_into(1, bytearray(4096)), lambda: 1 in store,
                 lambda: store.read_many([1]), lambda: store.write_many([1], row), store.scan,
                 lambda: list(store), store.blocks, store.snapshot, store.iterator, store.sync,
                 store.stats, lambda: snapshot[1], snapshot.scan, lambda: next(scan),
                 lambda: snapshot.read_many([1]), snapshot.blocks, store.keys, store.values,
                 lambda: walk.valid, lambda: walk.key, lambda: walk.item(), walk.next,
                 lambda: walk.seek(1), walk.refresh, lambda: list(walk)]
        for call in calls:
            with pytest.raises(engine_race.ClosedError, match="fork"):
                call()
        for held in (store, snapshot, walk):
            assert held.closed
            held.close()
            with held:
                pass

    assert run_in_fork(use) == 0
    assert store[1] == snapshot[1] == walk.value == value_of(1)
    assert list(scan) == [(1, value_of(1))]


def test_a_fork_while_a_thread_uses_an_iterator(store):
    """Its lock is held in the child for ever, by a thread that is not there."""
    store[1] = value_of(1)
    walk = store.iterator()
    walk.seek_to_first()
    inside, leave = threading.Event(), threading.Event()

    def stay(_pointer):
        inside.set()
        leave.wait()

    thread = threading.Thread(target=walk._call, args=(stay,))
    thread.start()
    inside.wait()

    def use():
        with pytest.raises(engine_race.ClosedError, match="fork"):
            walk.next()
        walk.close()
        store.close()

    assert run_in_fork(use) == 0
    leave.set()
    thread.join()
    assert walk.key == 1


def test_a_forked_child_frees_nothing(path):
    held = [engine_race.open(path, **SMALL)]
    held += [held[0].snapshot(), held[0].iterator()]

    def drop():
        held.clear()
        gc.collect()

    assert run_in_fork(drop) == 0
    store = held[0]
    store[1] = value_of(1)
    assert store[1] == value_of(1) and held[1].get(1) is None
    store.close()


def test_a_child_that_ends_like_any_program(store):
    """Its interpreter collects everything at its end."""
    store[1] = value_of(1)
    context = multiprocessing.get_context("fork")
    child = context.Process(target=store.snapshot().close)
    child.start()
    child.join(60)
    child.kill()
    assert child.exitcode == 0
    assert store[1] == value_of(1)


def test_reopening_while_a_forked_child_lives(path):
    """The child has the descriptors of the lock. The parent's close unlocks it."""
    store = engine_race.open(path, **SMALL)
    store[1] = value_of(1)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write_end)
        os.read(read_end, 1)
        os._exit(0)
    os.close(read_end)
    try:
        store.close()
        with engine_race.open(path) as again:
            assert again[1] == value_of(1)
    finally:
        os.close(write_end)
        os.waitpid(child, 0)


def test_a_child_opens_what_the_parent_has_closed(path):
    store = engine_race.open(path, **SMALL)
    store[1] = value_of(1)
    store.close()

    def use():
        with engine_race.open(path) as mine:
            assert mine[1] == value_of(1)
            mine[2] = value_of(2)

    assert run_in_fork(use) == 0
    with engine_race.open(path) as again:
        assert again[2] == value_of(2)


def test_another_process_is_told_that_it_is_open(store, path):
    program = ("import engine_race, sys\n"
               "try: engine_race.open(sys.argv[1])\n"
               "except engine_race.StoreIOError as error: print(error)\n")
    told = subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                          capture_output=True, text=True).stdout
    assert "open elsewhere" in told and str(path) in told


def test_a_call_releases_the_interpreter(store):
    """A thread hangs inside the engine until another thread of Python lets it go.

    The engine calls sem_wait as its visitor, which no code of Python takes part in. A call that
    kept the interpreter's lock would hang for ever.
    """
    libc_ffi = FFI()
    libc_ffi.cdef("int sem_init(void*, int, unsigned); int sem_wait(void*); int sem_post(void*);"
                  "int sem_getvalue(void*, int*);")
    libc = libc_ffi.dlopen(None)
    semaphore = libc_ffi.new("char[64]")
    libc.sem_init(semaphore, 0, 0)
    visit = ffi.cast("engine_race_visit_fn", int(libc_ffi.cast("uintptr_t", libc.sem_wait)))
    argument = ffi.cast("void*", int(libc_ffi.cast("uintptr_t", semaphore)))
    for number in range(3):
        store[number] = value_of(number)
    codes = []

    def walk():
        codes.append(store._handle.call(lib.engine_race_range, ffi.NULL, ffi.NULL, visit, argument))

    thread = threading.Thread(target=walk)
    thread.start()
    for _ in range(3):
        assert codes == [] and store[1] == value_of(1)
        libc.sem_post(semaphore)
    thread.join()
    assert codes == [0]


READER = """
import sys

import engine_race

with engine_race.open(sys.argv[1], mode="r", page_cache=sys.argv[2] == "cached") as store:
    print(store[1] == store.read_many([1])[0].tobytes(), flush=True)
    sys.stdin.readline()
"""


def test_processes_read_beside_each_other(path):
    pytest.importorskip("numpy")
    with engine_race.open(path, **SMALL) as store:
        store[1] = value_of(1)
    readers = [subprocess.Popen([sys.executable, "-c", READER, str(path), how], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
               for how in ("cached", "direct")]
    assert [reader.stdout.readline() for reader in readers] == ["True\n", "True\n"]
    with engine_race.open(path, mode="r") as store:
        again = pickle.loads(pickle.dumps(store))
        assert again[1] == store[1] == value_of(1)
        again.close()
        for call in (lambda: store.put(1, value_of(2)), lambda: store.delete(1), store.sync,
                     store.compact):
            with pytest.raises(engine_race.InvalidArgumentError, match="read_only"):
                call()
        with pytest.raises(engine_race.StoreIOError, match="open elsewhere"):
            engine_race.open(path)
    for reader in readers:
        reader.communicate("\n")
        assert reader.returncode == 0
    with engine_race.open(path, mode="rw") as store:
        assert store[1] == value_of(1)
        with pytest.raises(engine_race.StoreIOError, match="open elsewhere"):
            engine_race.open(path, mode="r")


FOLLOWER = """
import sys, engine_race
with engine_race.open(sys.argv[1], mode="r", follow=True) as store:
    print(store.get(1) is not None, flush=True)
    for line in sys.stdin:
        store.refresh()
        print(int.from_bytes(store[int(line)][:8], "big"), flush=True)
"""


def test_a_reader_follows_a_writer(path):
    with engine_race.open(path, **SMALL) as store:
        store[1] = value_of(1)
        reader = subprocess.Popen([sys.executable, "-c", FOLLOWER, str(path)], text=True,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        assert reader.stdout.readline() == "True\n"
        for key in range(2, 300):
            store[key] = value_of(key)
            reader.stdin.write(f"{key}\n")
            reader.stdin.flush()
            assert int(reader.stdout.readline()) == key
        reader.communicate()
        assert reader.returncode == 0
        with pytest.raises(engine_race.EngineRaceError, match="follow"):
            store.refresh()
    with pytest.raises(ValueError, match="follow"):
        engine_race.open(path, follow=True)


def test_a_mode_is_r_or_rw(path):
    with pytest.raises(ValueError, match="mode"):
        engine_race.open(path, mode="w")
    with pytest.raises(ValueError, match="read_only"):
        engine_race.open(path, mode="r", read_only=False)
    with pytest.raises(engine_race.MissingStoreError):
        engine_race.open(path, mode="r", read_only=True)
    assert not path.exists()
