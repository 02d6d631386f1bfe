"""Iterators, and the scans and blocks that are made of them."""
from __future__ import annotations

import threading
from threading import get_ident
from typing import (TYPE_CHECKING, Any, Callable, Iterator as Iterates, Optional, SupportsIndex,
                    Tuple, TypeVar)

from ._buffers import Key, bound_of, count_of, key_of, keys_into, refuse_overlap, rows_of
from ._errors import check, error_of
from ._handle import Handle
from ._held import OK, Held, bytes_of_value
from ._library import ffi, lib, new_memory

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from ._store import Snapshot, Store

    Block = Tuple[NDArray[numpy.uint64], NDArray[Any]]

_Found = TypeVar("_Found")

MAX_PREFETCH_RECORDS = 64
# A scan takes ever more records at once, so that a short one reads little too much.
_FIRST_RECORDS = 4
_MOST_RECORDS = 64
_MOST_BYTES = 4 << 20
_KEYS_AT_ONCE = 4096
_TAKEN_AT_ONCE = 4096


class Iterator(Held):
    """A walk over the records in order of key, both ways, at the state of the store at its making.

    Threads that use one iterator wait for each other. A signal handler may close the iterator that
    its thread is using; any other call of it raises RuntimeError then. `valid` says whether the
    iterator stands at a record; it stands at none until the first seek.
    """

    def __init__(self, store: Store, lower: Optional[Key], upper: Optional[Key],
                 snapshot: Optional[Snapshot], prefetch_records: SupportsIndex,
                 refresh_every_steps: SupportsIndex) -> None:
        bounds = bound_of(lower), bound_of(upper)
        wanted = ffi.new("engine_race_iterator_options*")
        wanted.struct_bytes = ffi.sizeof("engine_race_iterator_options")
        wanted.lower, wanted.upper = bounds
        wanted.prefetch_records = count_of(prefetch_records, "prefetch_records", 0,
                                           MAX_PREFETCH_RECORDS)
        wanted.refresh_every_steps = count_of(refresh_every_steps, "refresh_every_steps", 0,
                                              (1 << 64) - 1)
        # In C an iterator is for one thread. The lock lets a signal handler of its own thread pass;
        # `_inside` refuses it.
        self._lock = threading.RLock()
        self._inside = 0
        self._store, self._value_bytes = store, store.value_bytes
        self._handle = Handle("iterator", lib.engine_race_iterator_destroy, store._handle)

        def create(pointer: Any) -> int:
            return self._handle.create(lib.engine_race_iterator_create, pointer, wanted)

        def create_at(at: Any) -> int:
            wanted.snapshot = at
            return store._handle.call(create)  # type: ignore[no-any-return]

        if snapshot is None:
            check(store._handle.call(create))
        elif snapshot._store is not store:
            raise ValueError("the snapshot is of another store")
        else:
            check(snapshot._handle.call(create_at))

    def __repr__(self) -> str:
        return self._said_with(f"of {self._store.path!r}")

    def _call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # A lock that another thread held at a fork is never free in the child.
        self._handle.check_open()
        me = get_ident()
        if self._inside == me:
            raise RuntimeError("the iterator is in use: a signal handler has interrupted its call")
        with self._lock:
            self._inside = me
            try:
                return self._handle.call(function, *arguments)
            finally:
                self._inside = 0

    @property
    def valid(self) -> bool:
        """Whether it stands at a record."""
        return bool(self._call(lib.engine_race_iterator_valid))

    def check(self) -> None:
        """Raises what ended the walk, if it was not its end."""
        check(self._call(lib.engine_race_iterator_status))

    def seek_to_first(self) -> None:
        self._call(lib.engine_race_iterator_seek_to_first)

    def seek_to_last(self) -> None:
        self._call(lib.engine_race_iterator_seek_to_last)

    def seek(self, key: Key) -> None:
        """To the first record at or after `key`."""
        self._call(lib.engine_race_iterator_seek, key_of(key))

    def seek_for_prev(self, key: Key) -> None:
        """To the last record at or before `key`."""
        self._call(lib.engine_race_iterator_seek_for_prev, key_of(key))

    def next(self) -> None:
        self._call(lib.engine_race_iterator_next)

    def prev(self) -> None:
        self._call(lib.engine_race_iterator_prev)

    @property
    def key(self) -> int:
        """Of the record that it stands at; IndexError where it stands at none."""
        key: int = self._call(_key_at)
        return key

    @property
    def value(self) -> bytes:
        """Of the record that it stands at; IndexError where it stands at none."""
        return self.item()[1]

    def item(self) -> Tuple[int, bytes]:
        """Key and value of the record that it stands at; IndexError where it stands at none."""
        key, value, code = self._call(_record_at, self._value_bytes)
        check(code)
        return key, value

    def take(self, keys: Any, values: Any = None) -> int:
        """Fills arrays of uint64 keys and of rows of values with the next records, and moves on.

        Returns how many there were: fewer than len(keys) only at the end of the walk. After a
        failure, `done_count` of the exception is how many records were filled in before it.
        """
        into = keys_into(keys)
        rows = ffi.NULL
        if values is not None:
            rows = rows_of(values, len(into), self._value_bytes, "values", writable=True)
            refuse_overlap(into, rows)
        code, taken = self.take_into(len(into), into, rows)
        check(code, done_count=taken)
        return taken

    def take_into(self, count: int, keys: Any, rows: Any) -> Tuple[int, int]:
        """Fills memory of cffi like `take`; the code and the count of records before a failure.

        In pieces: handlers of signals run between two of them.
        """
        taken, done = ffi.new("size_t*"), 0
        while True:
            piece = min(count - done, _TAKEN_AT_ONCE)
            code = self._call(lib.engine_race_iterator_take, piece, keys + done,
                              rows if rows == ffi.NULL else rows + done * self._value_bytes,
                              taken)
            done += taken[0]
            if code != OK or taken[0] < piece or done == count:
                return code, done

    def refresh(self) -> None:
        """Moves on to the latest state. It stands at no record then."""
        check(self._call(lib.engine_race_iterator_refresh))

    def __iter__(self) -> Iterates[Tuple[int, bytes]]:
        """The records from where it stands on. It moves behind each record that it gives.

        Threads that share the iterator share its records: each record goes to one of them.
        """
        while True:
            key, value, code = self._call(_step, self._value_bytes)
            check(code)
            if value is None:
                return
            yield key, value


def _key_at(iterator: Any) -> int:
    if not lib.engine_race_iterator_valid(iterator):
        raise IndexError("the iterator stands at no record")
    key: int = lib.engine_race_iterator_key(iterator)
    return key


def _record_at(iterator: Any, value_bytes: int) -> Tuple[int, bytes, int]:
    key = _key_at(iterator)
    value = lib.engine_race_iterator_value(iterator)
    if value == ffi.NULL:
        return key, b"", lib.engine_race_iterator_status(iterator)
    return key, bytes_of_value(value, value_bytes), OK


def _step(iterator: Any, value_bytes: int) -> Tuple[int, Optional[bytes], int]:
    """Key, value and code of the record that it stands at, and a step; no value at the end."""
    if not lib.engine_race_iterator_valid(iterator):
        return 0, None, lib.engine_race_iterator_status(iterator)
    key, value, code = _record_at(iterator, value_bytes)
    if code == OK:
        lib.engine_race_iterator_next(iterator)
    return key, value, code


class Scan(Iterates[_Found]):
    """The finds of a scan, one by one. It closes at its end, or by `close`, or by `with`.

    Threads that share a scan wait for each other, and each thing goes to one of them.
    """

    def __init__(self, walk: Iterator, found: Iterates[_Found]) -> None:
        self._walk, self._found = walk, found
        self._lock = threading.RLock()

    def __next__(self) -> _Found:
        # A lock that another thread held at a fork is never free in the child.
        self._walk._handle.check_process()
        with self._lock:
            return next(self._found)

    def close(self) -> None:
        """Frees what it holds of the store. It finds nothing more."""
        self._found = iter(())
        self._walk.close()

    def __enter__(self) -> Scan[_Found]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def scan(walk: Iterator, reverse: bool) -> Scan[Tuple[int, bytes]]:
    """The records of an iterator's bounds. The iterator closes with the scan."""
    return _scan(walk, reverse, lambda key, value: (key, value))


def values_of(walk: Iterator, reverse: bool) -> Scan[bytes]:
    """The values of an iterator's bounds. The iterator closes with the scan."""
    return _scan(walk, reverse, lambda _, value: value)


def _scan(walk: Iterator, reverse: bool, found: Callable[[int, bytes], _Found]) -> Scan[_Found]:
    take, size = _begin(walk, reverse), walk._value_bytes
    most = min(_MOST_RECORDS, max(_FIRST_RECORDS, _MOST_BYTES // size))
    keys = new_memory("uint64_t[]", most)
    rows = new_memory("char[]", most * size)
    view = ffi.buffer(rows)

    def read(count: int) -> Tuple[int, int]:
        return take(walk, count, keys, rows)

    def found_at(at: int) -> _Found:
        return found(keys[at], view[at * size:(at + 1) * size])

    return Scan(walk, _one_by_one(walk, most, read, found_at))


def _begin(walk: Iterator, reverse: bool) -> Callable[[Iterator, int, Any, Any], Tuple[int, int]]:
    """Seeks the first record; the function that takes records from there on."""
    (walk.seek_to_last if reverse else walk.seek_to_first)()
    return _take_back if reverse else Iterator.take_into


def _take_back(walk: Iterator, count: int, keys: Any, rows: Any) -> Tuple[int, int]:
    return walk._call(  # type: ignore[no-any-return]
        _take_back_into, count, keys, rows, walk._value_bytes)


def _take_back_into(iterator: Any, count: int, keys: Any, rows: Any,
                    value_bytes: int) -> Tuple[int, int]:
    taken = 0
    while taken < count and lib.engine_race_iterator_valid(iterator):
        if rows != ffi.NULL:
            value = lib.engine_race_iterator_value(iterator)
            if value == ffi.NULL:
                break
            ffi.memmove(rows + taken * value_bytes, value, value_bytes)
        keys[taken] = lib.engine_race_iterator_key(iterator)
        taken += 1
        lib.engine_race_iterator_prev(iterator)
    return lib.engine_race_iterator_status(iterator), taken


def keys_of(walk: Iterator, reverse: bool) -> Scan[int]:
    """The keys of an iterator's bounds. The iterator closes with the scan."""
    take = _begin(walk, reverse)
    keys = new_memory("uint64_t[]", _KEYS_AT_ONCE)

    def read(count: int) -> Tuple[int, int]:
        return take(walk, count, keys, ffi.NULL)

    return Scan(walk, _one_by_one(walk, _KEYS_AT_ONCE, read, keys.__getitem__))


def count_of_keys(walk: Iterator) -> int:
    """Of an iterator's bounds. It closes the iterator."""
    with walk:
        walk.seek_to_first()
        keys = new_memory("uint64_t[]", _KEYS_AT_ONCE)
        total, taken = 0, _KEYS_AT_ONCE
        while taken == _KEYS_AT_ONCE:
            code, taken = walk.take_into(_KEYS_AT_ONCE, keys, ffi.NULL)
            check(code)
            total += taken
        return total


def _one_by_one(walk: Iterator, most: int, read: Callable[[int], Tuple[int, int]],
                found_at: Callable[[int], _Found]) -> Iterates[_Found]:
    """What `read` finds, until it finds fewer than it is asked for."""
    with walk:
        count = _FIRST_RECORDS
        while True:
            code, taken = read(count)
            # Other calls of this thread, which come between the yields, replace the message.
            failure = None if code == OK else error_of(code)
            for at in range(taken):
                # Not from memory alone: a closed store ends the scan.
                if walk.closed:
                    walk.check()
                yield found_at(at)
            if failure is not None:
                raise failure
            if taken < count:
                return
            count = min(2 * count, most)


def blocks(walk: Iterator, count: int,
           view: Callable[[NDArray[numpy.uint8]], NDArray[Any]]) -> Scan[Block]:
    """Arrays of up to `count` keys and their values. The iterator closes with the last one."""
    walk.seek_to_first()
    return Scan(walk, _blocks(walk, count, view))


def _blocks(walk: Iterator, count: int,
            view: Callable[[NDArray[numpy.uint8]], NDArray[Any]]) -> Iterates[Block]:
    import numpy

    with walk:
        while True:
            keys = numpy.empty(count, numpy.uint64)
            rows = numpy.empty((count, walk._value_bytes), numpy.uint8)
            code, taken = walk.take_into(
                count, keys_into(keys),
                rows_of(rows, count, walk._value_bytes, "rows", writable=True))
            failure = None if code == OK else error_of(code)
            if taken > 0:
                yield keys[:taken], view(rows[:taken])
            if failure is not None:
                raise failure
            if taken < count:
                return
