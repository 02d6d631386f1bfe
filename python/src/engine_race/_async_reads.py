"""Reads that an event loop waits for. _async_reads.c says how they run.

The memory of a call lives in `_running` until all its reads have ended, whatever becomes of the
task that waits for them.
"""
from __future__ import annotations

import asyncio
import atexit
import contextlib
import itertools
import os
import pathlib
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Dict, NamedTuple

from cffi import FFI

from ._library import ffi, lib

if TYPE_CHECKING:
    from ._handle import Handle

_ffi: Any = FFI()
_ffi.cdef("""
typedef struct hub hub;
typedef struct lane lane;
typedef struct group {
  uint64_t number;
  hub* at;
  lane* on;
  size_t count, next, left;
  const uint64_t* keys;
  char* values;
  int* codes;
  struct group* following;
  int is_started;
} group;
hub* reads_new_hub(void);
int reads_event(const hub* at);
void reads_release_hub(hub* at);
group* reads_next_ended(hub* at);
void reads_pass_ended(hub* at);
lane* reads_new_lane(void* store, void* read_function, size_t value_bytes, size_t limit);
void reads_release_lane(lane* on);
group* reads_new_group(lane* on, hub* at, uint64_t number, size_t count, const uint64_t* keys,
                       char* values, int* codes);
void reads_free_group(group* of);
void reads_start(group* of);
void reads_stop(group* of);
""")
_reads: Any = _ffi.dlopen(str(pathlib.Path(__file__).resolve().parent / "libengine_race_async.so"))
_READ = int(ffi.cast("uintptr_t", ffi.addressof(lib, "engine_race_read_async")))

_POLL_S = 0.001
# The least that async_read_limit means when it is 0.
_DEFAULT_LIMIT = 1024


class _Running(NamedTuple):
    group: Any
    future: "asyncio.Future[None]"
    kept: Any


_numbers = itertools.count(1)
_running: Dict[int, _Running] = {}


class _Hub:
    """Of one event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.made = _ffi.gc(_not_null(_reads.reads_new_hub()), _reads.reads_release_hub)
        # A loop that is closed has forgotten its readers.
        loop.add_reader(_reads.reads_event(self.made), self.take_ended)

    def take_ended(self) -> None:
        """A signal handler may raise between any two steps. What is left is taken later."""
        while True:
            group = _reads.reads_next_ended(self.made)
            if group == _ffi.NULL:
                return
            # Its memory must stay until the group is passed.
            number, ended = group.number, _running[group.number]
            if not ended.future.done() and not ended.future.get_loop().is_closed():
                ended.future.set_result(None)
            _reads.reads_pass_ended(self.made)
            _running.pop(number, None)


_hubs: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub]" = weakref.WeakKeyDictionary()
# Held by who takes for loops that are closed. Nobody waits for it.
_sweeping = threading.Lock()


def _not_null(made: Any) -> Any:
    if made == _ffi.NULL:
        raise MemoryError("asynchronous reads")
    return made


def _hub_of(loop: asyncio.AbstractEventLoop) -> _Hub:
    hub = _hubs.get(loop)
    if hub is None:
        _take_of_closed_loops()
        hub = _hubs[loop] = _Hub(loop)
    return hub


def _take_of_closed_loops() -> None:
    if not _sweeping.acquire(blocking=False):
        return
    try:
        # One step: other threads may add their loops meanwhile.
        for reference in _hubs.keyrefs():
            other = reference()
            if other is None or not other.is_closed():
                continue
            left = _hubs.get(other)
            if left is not None:
                left.take_ended()
    finally:
        _sweeping.release()


def new_lane(handle: Handle, value_bytes: int, limit: int) -> Any:
    """What starts the reads of a store; `limit` is its option async_read_limit."""
    store = handle.call(lambda pointer: int(ffi.cast("uintptr_t", pointer)))
    made = _reads.reads_new_lane(_ffi.cast("void*", store), _ffi.cast("void*", _READ),
                                 value_bytes, limit or _DEFAULT_LIMIT)
    return _ffi.gc(_not_null(made), _reads.reads_release_lane)


async def read(handle: Handle, lane: Any, count: int, keys: Any, values: Any, codes: Any,
               kept: Any) -> None:
    """Fills values and codes, as engine_race_read_many does.

    Whoever is cancelled waits for the reads that are under way: nothing is filled in later.
    """
    if count == 0:
        handle.check_open()
        return
    loop = asyncio.get_running_loop()
    hub, number = _hub_of(loop), next(_numbers)
    memory = (_ffi.cast(kind, int(ffi.cast("uintptr_t", given))) for kind, given in (
        ("uint64_t*", keys), ("char*", values), ("int*", codes)))
    group = _ffi.gc(_not_null(_reads.reads_new_group(lane, hub.made, number, count, *memory)),
                    _reads.reads_free_group)
    future = loop.create_future()
    try:
        _running[number] = _Running(group, future, (hub, lane, keys, values, codes, kept))
        handle.call(lambda _pointer: _reads.reads_start(group))
        await asyncio.shield(future)
    except GeneratorExit:
        # Of a loop that was closed, or of a caller that drops this: nobody can wait here.
        raise
    except BaseException:
        if not group.is_started:
            # The store is closed, or a handler of logs or of signals has raised.
            _running.pop(number, None)
            raise
        if number in _running:
            _reads.reads_stop(group)
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(future)
        raise


@atexit.register
def _wait_for_all() -> None:
    """Memory that the engine fills may not go meanwhile. It fills it without code of Python."""
    while any(running.group.left > 0 for running in list(_running.values())):
        time.sleep(_POLL_S)


def _forget_all() -> None:
    """In the child of a fork nothing reads, and nobody waits."""
    _running.clear()
    _hubs.clear()


os.register_at_fork(after_in_child=_forget_all)
