"""Loads of many records from files and stores of other kinds, which go on where they were ended."""
from __future__ import annotations

import contextlib
import json
import os
import time
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional,
                    Sequence, SupportsIndex, Tuple, Union)

from ._buffers import Key, count_of, ids_of, key_of, memory_of
from ._errors import EngineRaceError
from ._library import ffi

if TYPE_CHECKING:
    from ._progress import Progress
    from ._store import Store

    _Path = Union[str, os.PathLike[str]]
    # Keys and rows of records that follow each other, and what finds the place behind the last one.
    _Piece = Tuple[Any, Any, str]

_PIECE_RECORDS = 4096
_PIECE_BYTES = 16 << 20
# Between two notes of how far a load is. Each note syncs the store first.
_NOTE_RECORDS = 65536


def _piece_records(store: Store) -> int:
    return min(_PIECE_RECORDS, _PIECE_BYTES // store.value_bytes)


class LoadReport(NamedTuple):
    """Counts of a load."""

    record_count: int
    """Records of the source, all of which the store has."""
    written_count: int
    """Those that this call wrote. Earlier calls wrote the others."""
    seconds: float
    """That this call took."""


class _Note:
    """A file that says how far a load is. Without a path nothing is noted."""

    def __init__(self, path: Optional[_Path], store: Store, load: Dict[str, Any]) -> None:
        self._path = None if path is None else os.fspath(path)
        self._store = store
        self._load = {**load, "store": store.path}
        self.done, self.last, self._key = 0, "", 0
        if self._path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            with open(self._path, encoding="utf-8") as file:
                self._take(file.read())
        self._noted = self.done

    def _take(self, text: str) -> None:
        try:
            noted = json.loads(text)
            load, done, last = noted["load"], int(noted["done"]), str(noted["last"])
            key = int(noted["key"])
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{self._path} is no note of a load") from None
        if load != self._load:
            raise ValueError(f"{self._path} is the note of another load, or its source has changed "
                             f"since: {load}")
        # Another store may have come to lie there.
        if done > 0 and self._store.get(key) is None:
            raise ValueError(f"{self._path} counts the record of key {key}, which the store has "
                             "not: remove the note to load all of the source")
        self.done, self.last, self._key = done, last, key

    def move(self, keys: Any, last: str) -> None:
        """The records of these keys are in the store, too."""
        self.done, self.last = self.done + len(keys), last
        self._key = int(ids_of(keys[-1:])[0])
        if self._path is not None and self.done - self._noted >= _NOTE_RECORDS:
            self.write()

    def write(self) -> None:
        """What the note counts outlives a power loss, as the note does."""
        if self._path is None or self.done == self._noted:
            return
        self._store.sync()
        text = json.dumps({"load": self._load, "done": self.done, "last": self.last,
                           "key": self._key})
        made = f"{self._path}.new"
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(made, self._path)
        directory = os.open(os.path.dirname(os.path.abspath(self._path)), os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        self._noted = self.done


def _load(store: Store, note: _Note, pieces: Iterable[_Piece], total: int,
          progress: Optional[Progress]) -> LoadReport:
    began, before = time.monotonic(), note.done
    try:
        for keys, rows, last in pieces:
            store.write_many(keys, rows)
            note.move(keys, last)
            if progress is not None:
                progress(note.done, max(note.done, total))
    except BaseException:
        # The first failure is what the caller is told.
        with contextlib.suppress(EngineRaceError, OSError):
            note.write()
        raise
    note.write()
    return LoadReport(note.done, note.done - before, time.monotonic() - began)


def _about(kind: str, source: _Path, **more: Any) -> Dict[str, Any]:
    return {"kind": kind, "source": os.path.abspath(os.fsdecode(source)), **more}


def _about_file(kind: str, source: _Path, **more: Any) -> Dict[str, Any]:
    found = os.stat(source)
    return _about(kind, source, bytes=found.st_size, changed_ns=found.st_mtime_ns, **more)


def load_npy(store: Store, source: _Path, keys: Union[SupportsIndex, _Path, Sequence[Key]] = 0, *,
             resume: Optional[_Path] = None, progress: Optional[Progress] = None) -> LoadReport:
    """Writes the rows of an array that numpy.save has saved, each of the size of a value.

    `keys` are those of the rows: a sequence, an array, or the path of another such file. A number
    is the key of the first row, and each further row has the next one.

    `resume` is the path of a file in which the load notes how far it is, each 65536 records and
    when it ends. A load with the same file, source and store goes on from there. After a kill it
    writes again what it had not noted. Remove the file to load all of it again. A sequence of keys
    must be the same each time. A store that has not the last record that was noted is refused.
    `progress` is called after up to 4096 records, or 16 MiB, with how many are in the store, and
    with the number of all. An exception of it ends the load.
    """
    import numpy

    table = numpy.load(source, mmap_mode="r")
    if table.ndim == 0:
        raise ValueError("the array has no rows")
    count, piece = len(table), _piece_records(store)
    if count > 0 and table.nbytes != count * store.value_bytes:
        raise ValueError(f"rows of {table.nbytes // count} bytes: a value has {store.value_bytes}")
    about: Dict[str, Any] = _about_file("npy", source)
    first, listed = 0, None
    if isinstance(keys, (str, os.PathLike)):
        about["keys"] = _about_file("npy", keys)
        listed = numpy.load(keys, mmap_mode="r")
    elif hasattr(keys, "__index__") and not hasattr(keys, "__len__"):
        first = about["keys"] = _first_key(keys, count)
    else:
        listed = keys
    if listed is not None and len(listed) != count:
        raise ValueError(f"{len(listed)} keys for {count} rows")
    note = _Note(resume, store, about)

    def pieces() -> Iterator[_Piece]:
        for begin in range(note.done, count, piece):
            end = min(begin + piece, count)
            of_rows = range(first + begin, first + end) if listed is None else listed[begin:end]
            yield of_rows, table[begin:end], ""

    return _load(store, note, pieces(), count, progress)


def _first_key(key: Any, count: int) -> int:
    first = key_of(key)
    count_of(first + max(count, 1) - 1, "the key of the last row", 0, (1 << 64) - 1)
    return first


def load_parquet(store: Store, source: _Path, key: Union[str, SupportsIndex] = "key",
                 value: str = "value", *, resume: Optional[_Path] = None,
                 progress: Optional[Progress] = None) -> LoadReport:
    """Writes the rows of a Parquet file. It needs pyarrow.

    `key` names the column of the keys: integers from 0, or binaries of 8 bytes. A number is the key
    of the first row, and each further row has the next one. `value` names the column of the values:
    binaries of the size of a value, or lists of numbers that take as much. `resume` and `progress`
    are those of `load_npy`.
    """
    import pyarrow.parquet

    file = pyarrow.parquet.ParquetFile(source, memory_map=True)
    count = file.metadata.num_rows
    first = None if isinstance(key, str) else _first_key(key, count)
    note = _Note(resume, store,
                 _about_file("parquet", source, key=key if first is None else first, value=value))

    def pieces() -> Iterator[_Piece]:
        skipped, groups = 0, list(range(file.num_row_groups))
        while groups and skipped + file.metadata.row_group(groups[0]).num_rows <= note.done:
            skipped += file.metadata.row_group(groups.pop(0)).num_rows
        columns = [value] if first is not None else [str(key), value]
        at, begin = skipped, note.done
        for batch in file.iter_batches(_piece_records(store), row_groups=groups, columns=columns):
            end = at + batch.num_rows
            if end > begin:
                batch = batch.slice(max(begin - at, 0))
                keys = (range(first + end - batch.num_rows, first + end) if first is not None
                        else _keys_of_column(batch.column(columns[0])))
                yield keys, _rows_of_column(batch.column(value), store.value_bytes), ""
            at = end

    return _load(store, note, pieces(), count, progress)


def _refuse_nulls(column: Any, what: str) -> None:
    if column.null_count > 0:
        raise ValueError(f"{what} are missing in {column.null_count} rows")


def _keys_of_column(column: Any) -> Any:
    import pyarrow

    _refuse_nulls(column, "keys")
    if pyarrow.types.is_integer(column.type):
        return column.to_numpy(zero_copy_only=False)
    return column.to_pylist()


def _rows_of_column(column: Any, value_bytes: int) -> Any:
    import pyarrow

    _refuse_nulls(column, "values")
    kinds = pyarrow.types
    if kinds.is_fixed_size_list(column.type) or kinds.is_list(column.type) or kinds.is_large_list(
            column.type):
        numbers = column.flatten()
        _refuse_nulls(numbers, "numbers of values")
        rows = numbers.to_numpy(zero_copy_only=False)
        lengths = column.value_lengths().unique()
        if len(lengths) > 1 or rows.nbytes != len(column) * value_bytes:
            raise ValueError(f"the lists of values do not take {value_bytes} bytes each")
        return rows
    values = column.to_pylist()
    for found in values:
        if not isinstance(found, bytes) or len(found) != value_bytes:
            raise ValueError(f"values are not binaries of {value_bytes} bytes each")
    return b"".join(values)


_Pairs = Iterable[Tuple[Any, Any]]
_KeyOf = Callable[[bytes], Key]
_ValueOf = Callable[[Any], Any]


def _pieces_of_pairs(store: Store, pairs: _Pairs, key: Optional[_KeyOf],
                     value: Optional[_ValueOf]) -> Iterator[_Piece]:
    size, piece = store.value_bytes, _piece_records(store)
    rows = bytearray(piece * size)
    memory = ffi.from_buffer("char[]", rows, require_writable=True)
    keys, last = [], b""
    for raw, found in pairs:
        last = bytes(raw)
        keys.append(key_of(last if key is None else key(last)))
        given = memory_of(found if value is None else value(found), size,
                          f"the value of {last!r}")
        ffi.memmove(memory + (len(keys) - 1) * size, given, size)
        if len(keys) == piece:
            yield keys, rows, last.hex()
            keys = []
    if keys:
        yield keys, memoryview(rows)[:len(keys) * size], last.hex()


def _behind(pairs: _Pairs, last: bytes) -> Iterator[Tuple[Any, Any]]:
    """Pairs that may begin with the last one that was written, if any was."""
    for raw, found in pairs:
        if not last or bytes(raw) != last:
            yield raw, found


def load_lmdb(store: Store, source: _Path, database: Optional[bytes] = None, *,
              key: Optional[_KeyOf] = None, value: Optional[_ValueOf] = None,
              resume: Optional[_Path] = None, progress: Optional[Progress] = None) -> LoadReport:
    """Writes the records of an LMDB database, which others may use meanwhile. It needs lmdb.

    Keys have 8 bytes, and values the size that the store's have, unless functions make them so.
    `key` takes the bytes of a key of the source, and `value` those of a value. `resume` and
    `progress` are those of `load_npy`. A load goes on behind the last key that it noted. It does
    not see records that others have put before that key meanwhile, nor that `key` or `value` are
    other functions than before. Databases with several values of a key (dupsort) are refused.
    """
    import lmdb

    name = None if database is None else database.hex()
    note = _Note(resume, store, _about("lmdb", source, database=name))
    with lmdb.open(os.fsdecode(source), readonly=True, subdir=os.path.isdir(source),
                   max_dbs=0 if database is None else 1) as env:
        opened = None if database is None else env.open_db(database, create=False)
        with env.begin(db=opened, buffers=True) as reading:
            if (opened or env.open_db(None, reading)).flags(reading)["dupsort"]:
                raise ValueError("the database has several values of a key: a store has one")
            total, cursor = reading.stat(opened)["entries"], reading.cursor()
            last = bytes.fromhex(note.last)
            is_there = cursor.set_range(last) if last else cursor.first()
            pairs = _behind(cursor, last) if is_there else iter(())
            return _load(store, note, _pieces_of_pairs(store, pairs, key, value), total,
                         progress)


def load_rocksdb(store: Store, source: _Path, *, key: Optional[_KeyOf] = None,
                 value: Optional[_ValueOf] = None, resume: Optional[_Path] = None,
                 progress: Optional[Progress] = None) -> LoadReport:
    """Writes the records of a RocksDB database, which is opened read-only. It needs rocksdict.

    It reads the default column family. The arguments are those of `load_lmdb`. The number of all
    records is RocksDB's estimate.
    """
    import rocksdict

    note = _Note(resume, store, _about("rocksdb", source))
    opened = rocksdict.Rdict(os.fsdecode(source), rocksdict.Options(raw_mode=True),
                             access_type=rocksdict.AccessType.read_only())
    try:
        total = opened.property_int_value("rocksdb.estimate-num-keys") or 0
        last = bytes.fromhex(note.last)
        found = opened.items(from_key=last) if last else opened.items()
        return _load(store, note, _pieces_of_pairs(store, _behind(found, last), key, value), total,
                     progress)
    finally:
        opened.close()
