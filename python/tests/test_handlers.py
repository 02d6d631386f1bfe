"""Signal handlers that run between any two steps of the package."""
import dis
import functools
import gc
import pathlib
import signal
import sys

import pytest

import engine_race
from conftest import SMALL, value_of, watch
from engine_race._handle import Handle
from engine_race._library import ffi

PACKAGE = pathlib.Path(engine_race.__file__).parent
# CPython runs handlers of signals behind these instructions alone, since 3.11.
HANDLERS_RUN_BEHIND = {"RESUME", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}


@functools.lru_cache(maxsize=None)
def points_of_handlers(code):
    instructions = list(dis.get_instructions(code))
    return {after.offset for before, after in zip(instructions, instructions[1:])
            if before.opname in HANDLERS_RUN_BEHIND}


class Handler:
    """Does something at the n-th point of the package where a signal handler may run.

    With `again`, it does so once more, that many points later.
    """

    def __init__(self, number, action, again=None):
        self._left, self._action, self._again = number, action, again

    @property
    def has_run(self):
        return self._left < 0

    def __enter__(self):
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _enter(self, frame, _event, _argument):
        if pathlib.Path(frame.f_code.co_filename).parent != PACKAGE:
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame, event, _argument):
        if event != "opcode":
            return self._step
        if frame.f_lasti in points_of_handlers(frame.f_code):
            self._left -= 1
            if self._left == -1 or (self._again is not None and self._left == -1 - self._again):
                self._action()
        return self._step


def work(path, opened):
    """Uses everything that has a handle."""
    with engine_race.open(path, **SMALL) as store:
        opened.append(store)
        store[1] = value_of(1)
        with store.snapshot() as snapshot, store.iterator(snapshot=snapshot) as walk:
            walk.seek(1)
            assert walk.item() == (1, value_of(1))
            assert snapshot[1] == value_of(1)
        assert list(store.scan()) == [(1, value_of(1))]


def at_every_point(path, action_of, step=1, again=None):
    """Runs `work` with a handler at its first point, `step` points later, and so on."""
    number = 0
    while True:
        watch()
        opened = []
        with Handler(number, action_of(opened), again) as handler:
            try:
                work(path, opened)
            except (KeyboardInterrupt, engine_race.ClosedError):
                pass
        opened.clear()
        gc.collect()
        # It is freed, so that the lock is free.
        with engine_race.open(path, **SMALL) as reopened:
            assert reopened.get(1) in (None, value_of(1))
        if not handler.has_run:
            return number
        number += step


@pytest.mark.skipif(sys.version_info < (3, 11), reason="handlers run at other points")
@pytest.mark.parametrize("again, step", [(None, 1), (1, 5), (2, 7), (5, 11)])
def test_an_interrupt_at_any_point_frees_everything(path, monkeypatch, again, step):
    """With `again`, a second interrupt comes while the first one is handled."""
    # One in a destructor of Python is printed and forgotten.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)

    def interrupt():
        raise KeyboardInterrupt

    assert at_every_point(path, lambda opened: interrupt, step, again) > 100


@pytest.mark.skipif(sys.version_info < (3, 11), reason="handlers run at other points")
def test_a_handler_may_close_the_store_at_any_point(path):
    def close_all(opened):
        def close():
            for store in opened:
                store.close()
                with pytest.raises(engine_race.ClosedError):
                    store.get(1)
        return close

    assert at_every_point(path, close_all) > 100


def test_a_handler_closes_the_store_that_its_thread_reads(store):
    """With a real signal, which arrives while the thread is in the engine."""
    numpy = pytest.importorskip("numpy")
    store.write_many(numpy.arange(300), numpy.zeros((300, 4096), numpy.uint8))
    ids = numpy.arange(300).repeat(20)
    signal.signal(signal.SIGALRM, lambda *_: store.close())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(engine_race.ClosedError):
            while True:
                store.read_many(ids)
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_two_interrupts_while_a_handle_is_made():
    """The first comes when the function has just made something, the second in what it causes."""
    made, freed = [], []

    def make(cell):
        made.append(1)
        cell[0] = ffi.cast("engine_race_store*", 1)
        raise KeyboardInterrupt

    def interrupt():
        raise KeyboardInterrupt

    number, has_run = 0, True
    while has_run:
        handle = Handle("store", lambda pointer: freed.append(int(ffi.cast("intptr_t", pointer))))
        with Handler(number, interrupt) as handler:
            with pytest.raises(KeyboardInterrupt):
                handle.create(make)
        has_run = handler.has_run
        del handle
        gc.collect()
        # An empty cell is freed too, which the engine takes for nothing.
        assert freed == ([1] if made else [0])
        made.clear()
        freed.clear()
        number += 1
    assert number > 3


def test_a_handler_may_not_move_the_iterator_that_it_interrupts(store):
    for number in range(4):
        store[number] = value_of(number)
    refused = []

    def move():
        try:
            walk.next()
        except RuntimeError:
            refused.append(1)

    number, has_run = 0, True
    while has_run:
        with store.iterator() as walk:
            walk.seek_to_first()
            with Handler(number, move) as handler:
                key, value = walk.item()
            assert value == value_of(key)
            walk.next()
        has_run = handler.has_run
        number += 1
    assert refused
