"""Stores and snapshots."""
from __future__ import annotations

import contextlib
import os
from typing import (TYPE_CHECKING, Any, Dict, List, Literal, Mapping, NamedTuple, Optional,
                    SupportsIndex, Tuple, Type, TypeVar, Union, overload)

from . import _async_reads
from ._arrays import Form, bytes_of_shape
from ._awaited import AwaitedReader
from ._batch import WriteBatch
from ._buffers import HasItems, Key, Pairs, ids_of, key_of, memory_of, pairs_of, rows_of
from ._closed_stores import BackupReport, backup_report_of, new_backup_report
from ._errors import check, error_of_store, missing_key
from ._handle import Handle
from ._held import OK
from ._iterator import Iterator, Scan
from ._library import ffi, lib, stat_names, text_of
from ._log import Log
from ._options import add_options, c_text, from_anywhere, new_options, option_in
from ._progress import READ_AT_ONCE, WRITTEN_AT_ONCE
from ._reader import Reader

if TYPE_CHECKING:
    from numpy.typing import DTypeLike
    from typing_extensions import Unpack

    from ._arrays import Shape
    from ._iterator import Block
    from ._options import OpenOptions
    from ._progress import Progress

_Default = TypeVar("_Default")
_NO_DEFAULT: Any = object()
# Of values that `update` writes in one call.
_UPDATED_BYTES = 16 << 20


class BucketSpace(NamedTuple):
    """Bytes on disk of a bucket's values, as far as known."""

    live_bytes: int
    """Of live records."""
    dead_bytes: int
    """Of overwritten and deleted records."""


class Store(AwaitedReader):
    """An open store. Every method may be called by any number of threads at once.

    `close` waits for calls that are running, and closes the store's snapshots and iterators. A
    signal handler may close a store that its thread is using: that call ends first.

    A store is pickled as its path and options. Loading it opens the store, which must be there. One
    that is open for writing must be closed by then. One of mode "r" is opened beside it.
    """

    def __init__(self, path: Union[str, bytes, os.PathLike[str]], mode: Literal["r", "rw"] = "rw",
                 *, dtype: Optional[DTypeLike] = None, shape: Optional[Shape] = None,
                 **options: Unpack[OpenOptions]) -> None:
        directory = c_text(path, "the path")
        if mode not in ("r", "rw"):
            raise ValueError(f'the mode is "r" or "rw", not {mode!r}')
        if mode == "r" and options.get("read_only") not in (None, True):
            raise ValueError('read_only is true for mode "r"')
        if mode != "r" and options.get("follow"):
            raise ValueError('follow is for mode "r"')
        if mode == "r":
            options["read_only"] = True
        self._path = os.path.abspath(os.fsdecode(directory))
        made = new_options(options)
        if shape is not None:
            size = bytes_of_shape(dtype, shape)
            if int(option_in(made, "value_bytes")) not in (0, size):
                raise ValueError(f"value_bytes is {options['value_bytes']}, and values of that "
                                 f"dtype and shape have {size} bytes")
            options["value_bytes"] = size
            made = new_options(options)
        self._options = {**from_anywhere(options), "dtype": dtype, "shape": shape}
        self._log = Log(directory)
        self._log.set_in(made)
        self._handle = Handle("store", lib.engine_race_close, log=self._log)
        code = self._handle.create(lib.engine_race_open, directory, made)
        error = None if code == OK else error_of_store(code, str(path))
        self._handle.hand_on()
        if error is not None:
            raise error
        self._value_bytes = int(self._handle.call(lib.engine_race_value_bytes))
        try:
            self._form = Form(self._value_bytes, dtype, shape)
        except BaseException:
            self.close()
            raise
        limit = int(option_in(made, "async_read_limit"))
        self._lane = _async_reads.new_lane(self._handle, self._value_bytes, limit)

    def __repr__(self) -> str:
        return self._said_with(repr(self.path))

    def __reduce__(self) -> Tuple[Any, ...]:
        return _open_again, (type(self), self._path, self._options)

    def _close(self, waits: bool) -> None:
        super()._close(waits)
        # Not for the garbage collector, which may come while its thread holds any lock.
        if waits:
            self._handle.hand_on()

    def _read(self, number: int, memory: Any) -> int:
        return self._handle.call(  # type: ignore[no-any-return]
            lib.engine_race_read, number, memory)

    def _read_many(self, progress: Optional[Progress], count: int, keys: Any, rows: Any,
                   codes: Any) -> int:
        return self._call_in_pieces(progress, lib.engine_race_read_many, count, keys, rows, codes,
                                    is_one_piece=count <= READ_AT_ONCE)

    def _walk(self, lower: Optional[Key], upper: Optional[Key]) -> Iterator:
        return self.iterator(lower, upper)

    def put(self, key: Key, value: Any) -> None:
        """Once this returns, the record outlives the process.

        A value that another thread changes meanwhile may be stored in part, and then reads back as
        damaged. Copy it first where that can happen.
        """
        number = key_of(key)
        memory = memory_of(value, self._value_bytes, "a value")
        check(self._handle.call(lib.engine_race_write, number, memory), f"key {number}")

    def delete(self, key: Key) -> None:
        """Deleting what is not there succeeds."""
        number = key_of(key)
        check(self._handle.call(lib.engine_race_delete, number), f"key {number}")

    def __setitem__(self, key: Key, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        """Unlike that of a dict, it raises no KeyError."""
        self.delete(key)

    def update(self, other: Union[HasItems, Pairs], /) -> None:
        """Writes the records of a dict, of a store, or of pairs of a key and a value, in order.

        It writes up to 256 records in one call, so a part may be written when something fails.
        `done_count` of the exception is how many records were written then: the first ones. For all
        or nothing use `update` of a batch. Each value is copied when it is given.
        """
        keys: List[int] = []
        size = self._value_bytes
        at_once = min(WRITTEN_AT_ONCE, _UPDATED_BYTES // size)
        rows = bytearray(at_once * size)
        memory, done = ffi.from_buffer("char[]", rows, require_writable=True), 0
        try:
            for key, value in pairs_of(other):
                number = key_of(key)
                ffi.memmove(memory + len(keys) * size, memory_of(value, size, "a value"), size)
                keys.append(number)
                if len(keys) == at_once:
                    self.write_many(keys, rows)
                    done += len(keys)
                    keys.clear()
            self.write_many(keys, memoryview(rows)[:len(keys) * size])
        except BaseException as error:
            # Of write_many it is a count within its group.
            with contextlib.suppress(AttributeError):
                setattr(error, "done_count", done + (getattr(error, "done_count", None) or 0))
            raise

    @overload
    def pop(self, key: Key, /) -> bytes: ...

    @overload
    def pop(self, key: Key, default: _Default, /) -> Union[bytes, _Default]: ...

    def pop(self, key: Key, default: Any = _NO_DEFAULT, /) -> Any:
        """Reads a value and deletes its key. Without a default, KeyError when it is not there.

        A read and then a deletion, not one step. A value that another thread writes between them is
        deleted unseen, and two threads may pop the same value.
        """
        value = self.get(key)
        if value is not None:
            self.delete(key)
            return value
        if default is _NO_DEFAULT:
            raise missing_key(key_of(key))
        return default

    def setdefault(self, key: Key, default: Any, /) -> bytes:
        """The value of a key. Where there is none, `default` is written and returned as bytes.

        A read and then a write, not one step. A value that another thread writes between them is
        overwritten.
        """
        found = self.get(key)
        if found is not None:
            return found
        given = bytes(ffi.buffer(memory_of(default, self._value_bytes, "a value")))
        self.put(key, given)
        return given

    def batch(self) -> WriteBatch:
        """Records that are written as a whole, or not at all:

            with store.batch() as batch:
                batch[7] = value
                del batch[8]
        """
        return WriteBatch(
            lambda batch: int(self._handle.call(lib.engine_race_write_batch, batch)),
            self._value_bytes)

    def write_many(self, ids: Any, rows: Any, progress: Optional[Progress] = None) -> None:
        """Writes many records in one call: `rows` is a contiguous array of n * value_bytes.

        Rows that another thread changes meanwhile may be stored in part; see `put`. `progress` is
        called after each 256 records with how many are written, and with n. An exception of it, or
        of a signal handler, ends the call. After a failure and after such an end, `done_count` of
        the exception is how many records were written: the first ones of `ids`.
        """
        keys = ids_of(ids)
        memory = rows_of(rows, len(keys), self._value_bytes, "rows")
        written = ffi.new("size_t*")
        try:
            code = self._call_in_pieces(progress, lib.engine_race_write_many, len(keys),
                                        ffi.from_buffer("uint64_t[]", keys), memory, written,
                                        is_one_piece=len(keys) <= WRITTEN_AT_ONCE)
        except BaseException as error:
            with contextlib.suppress(AttributeError):
                setattr(error, "done_count", written[0])
            raise
        check(code, f"after {written[0]} of {len(keys)} records", done_count=written[0])

    def blocks(self, rows: SupportsIndex = 1024, lower: Optional[Key] = None,
               upper: Optional[Key] = None,
               snapshot: Optional[Snapshot] = None, dtype: Optional[DTypeLike] = None,
               shape: Optional[Shape] = None) -> Scan[Block]:
        """Pairs of an array of keys and one of rows, in order of key.

        Rows are those of read_many, and so are `dtype` and `shape`; the shape begins with -1.
        """
        return self._blocks(lambda: self.iterator(lower, upper, snapshot), rows, dtype, shape)

    def snapshot(self) -> Snapshot:
        """A state of the store that stays readable while writers go on."""
        return Snapshot(self)

    def iterator(self, lower: Optional[Key] = None, upper: Optional[Key] = None,
                 snapshot: Optional[Snapshot] = None, prefetch_records: SupportsIndex = 0,
                 refresh_every_steps: SupportsIndex = 0) -> Iterator:
        """A walk from `lower` on and below `upper`, at a snapshot or at the state of this call.

        It reads up to `prefetch_records` values at once, at most 64; 0: as many as the walk asks for.
        """
        return Iterator(self, lower, upper, snapshot, prefetch_records, refresh_every_steps)

    def sync(self) -> None:
        """Makes what was written before outlive a power loss."""
        check(self._handle.call(lib.engine_race_sync))
        self._handle.hand_on()

    def refresh(self) -> None:
        """Moves on to what the writer of the store has written, where it was opened with follow=True.

        Reads then see what was acknowledged before the call. Snapshots and iterators stay where they
        are, and raise StoreIOError once the writer has used space again that they may show.
        """
        check(self._handle.call(lib.engine_race_refresh))

    def compact(self, progress: Optional[Progress] = None) -> None:
        """Gives back the space of overwritten and deleted records, while other calls go on.

        Reads the key logs and writes some live records again, so it may take long. Snapshots and
        iterators keep what they can see. A thread of the store gives space back by itself, too,
        unless reclaim="off". `progress` is called between pieces with how many records are done,
        and with a number that they do not exceed. An exception of it, or of a signal handler,
        ends the call. Space that was given back before it stays so.
        """
        check(self._call_in_pieces(progress, lib.engine_race_compact))
        self._handle.hand_on()

    def checkpoint(self, path: Union[str, bytes, os.PathLike[str]],
                   progress: Optional[Progress] = None) -> None:
        """Makes a store of its own in a directory that is missing or empty.

        It has what this store has at one moment of the call, while other calls go on. `progress` is
        that of `compact`; it is not called where the file system shares the blocks. A checkpoint
        that is ended leaves the directory empty.
        """
        check(self._call_in_pieces(progress, lib.engine_race_checkpoint, c_text(path, "the path")))
        self._handle.hand_on()

    def backup(self, path: Union[str, bytes, os.PathLike[str]],
               since: Optional[Union[str, bytes, os.PathLike[str]]] = None,
               progress: Optional[Progress] = None) -> BackupReport:
        """Writes a backup into a directory that is missing or empty, while other calls go on.

        With `since`, the directory of an earlier backup of this store, it holds what changed since.
        `progress` is that of `compact`. A backup that is ended leaves the directory empty.
        """
        counts = new_backup_report()
        earlier = ffi.NULL if since is None else c_text(since, "the earlier backup")
        check(self._call_in_pieces(progress, lib.engine_race_backup, c_text(path, "the path"),
                                   earlier, counts))
        self._handle.hand_on()
        return backup_report_of(counts)

    def stats(self) -> Dict[str, int]:
        """Counters by name."""
        names = stat_names()
        values = ffi.new("uint64_t[]", len(names))
        given = ffi.new("size_t*")
        check(self._handle.call(lib.engine_race_stats, values, len(names), given))
        return {names[i]: values[i] for i in range(min(given[0], len(names)))}

    def bucket_space(self) -> List[BucketSpace]:
        """Space on disk that the values of each bucket take, in order of key."""
        count = self.stats()["bucket_count"]
        live, dead = ffi.new("uint64_t[]", count), ffi.new("uint64_t[]", count)
        given = ffi.new("size_t*")
        check(self._handle.call(lib.engine_race_bucket_space, live, dead, count, given))
        return [BucketSpace(live[i], dead[i]) for i in range(given[0])]

    @property
    def path(self) -> str:
        """The directory, absolute."""
        return self._path

    # Last in the class: below it, the name no longer means the builtin.
    def property(self, name: str) -> str:
        """A text about the store, by its name.

        "io_backend" and "write_backend"; "key_range", the keys that it takes. "stats", a line for
        each counter and latency; "prometheus", the same in the text format of Prometheus.
        """
        text = ffi.new("char**")
        check(self._handle.call(lib.engine_race_property, c_text(name, "the name"), text))
        return text_of(ffi.gc(text[0], lib.engine_race_free))


class Snapshot(Reader):
    """A state of a store. Any number of threads may read at it."""

    def __init__(self, store: Store) -> None:
        self._store, self._value_bytes, self._form = store, store.value_bytes, store._form
        self._handle = Handle("snapshot", lib.engine_race_snapshot_release, store._handle,
                              store._log)
        check(store._handle.call(
            lambda pointer: self._handle.create(lib.engine_race_snapshot_take, pointer)))

    def __repr__(self) -> str:
        return self._said_with(f"of {self._store.path!r}")

    def _read(self, number: int, memory: Any) -> int:
        return self._handle.call(  # type: ignore[no-any-return]
            lib.engine_race_snapshot_read, number, memory)

    def _read_many(self, progress: Optional[Progress], count: int, keys: Any, rows: Any,
                   codes: Any) -> int:
        return self._call_in_pieces(progress, lib.engine_race_snapshot_read_many, count, keys, rows,
                                    codes, is_one_piece=count <= READ_AT_ONCE)

    def _walk(self, lower: Optional[Key], upper: Optional[Key]) -> Iterator:
        return self._store.iterator(lower, upper, self)

    def blocks(self, rows: SupportsIndex = 1024, lower: Optional[Key] = None,
               upper: Optional[Key] = None,
               dtype: Optional[DTypeLike] = None,
               shape: Optional[Shape] = None) -> Scan[Block]:
        """As Store.blocks."""
        return self._blocks(lambda: self._walk(lower, upper), rows, dtype, shape)


def _open_again(kind: Type[Store], path: str, options: Mapping[str, Any]) -> Store:
    """What a pickled store becomes. It is never made anew."""
    taken: Dict[str, Any] = {**options, "create_if_missing": False}
    return kind(path, **taken)


def open(path: Union[str, bytes, os.PathLike[str]], mode: Literal["r", "rw"] = "rw", *,
         dtype: Optional[DTypeLike] = None, shape: Optional[Shape] = None,
         **options: Unpack[OpenOptions]) -> Store:
    """Opens the store in a directory.

    With mode "rw" the store is made when missing. With "r", for reading only, it must be there, else
    MissingStoreError. Any number of openings with "r" exclude those with "rw", and the reverse:
    StoreIOError. Nothing is written to a store of mode "r", unless it must be recovered first.

    All values of a store have one size, which a new store gets from `value_bytes`. Or it follows
    from `dtype` and `shape`, those of one value: dtype="float32", shape=768 are 3072 bytes. An
    existing store keeps its size: another one raises InvalidArgumentError, none takes any store.
    `read_many` and `blocks` give arrays of that type, and rows of that shape, by default.

    Options are text, numbers or booleans: memory_budget_bytes="2g". `paths` is a list of paths.
    None stands for the default.
    """
    return Store(path, mode, dtype=dtype, shape=shape, **options)


add_options(open)
