"""Batches: writes and deletions that a store takes as a whole."""
from typing import TYPE_CHECKING, Any, Callable, Union

from ._buffers import HasItems, Key, Pairs, ids_of, key_of, memory_of, pairs_of, rows_of
from ._errors import check
from ._library import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Optional, Type


class WriteBatch:
    """Made by `Store.batch`. One thread at a time uses it.

    As a context manager it is written when its block ends, and dropped when the block raises.
    """

    def __init__(self, write: Callable[[Any], int], value_bytes: int) -> None:
        self._write = write
        self._value_bytes = value_bytes
        made = lib.engine_race_batch_create(value_bytes)
        if made == ffi.NULL:
            raise MemoryError("a batch")
        self._batch = ffi.gc(made, lib.engine_race_batch_destroy)

    def put(self, key: Key, value: Any) -> None:
        """Copies the value. Later entries of a key win."""
        number = key_of(key)
        memory = memory_of(value, self._value_bytes, "a value")
        check(lib.engine_race_batch_write(self._batch, number, memory), f"key {number}")

    def delete(self, key: Key) -> None:
        """Deleting what is not there succeeds."""
        number = key_of(key)
        check(lib.engine_race_batch_delete(self._batch, number), f"key {number}")

    def put_many(self, ids: Any, rows: Any) -> None:
        """Copies many records: `rows` is a contiguous array of n * value_bytes.

        After a failure the batch is as it was.
        """
        keys = ids_of(ids)
        check(lib.engine_race_batch_write_many(self._batch, len(keys),
                                               ffi.from_buffer("uint64_t[]", keys),
                                               rows_of(rows, len(keys), self._value_bytes,
                                                       "rows")), "a batch")

    def update(self, other: Union[HasItems, Pairs], /) -> None:
        """Copies the records of a dict, of a store, or of pairs of a key and a value.

        After an exception the batch has those that came before it.
        """
        for key, value in pairs_of(other):
            self.put(key, value)

    def __setitem__(self, key: Key, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Key) -> None:
        self.delete(key)

    def __len__(self) -> int:
        """Entries, earlier ones of a key included."""
        return int(lib.engine_race_batch_size(self._batch))

    def __repr__(self) -> str:
        count = len(self)
        return f"<engine_race.WriteBatch of {count} {'entry' if count == 1 else 'entries'}>"

    def clear(self) -> None:
        """Drops all entries."""
        lib.engine_race_batch_clear(self._batch)

    def write(self) -> None:
        """Writes all entries or none, and drops them once they are written."""
        check(self._write(self._batch), f"a batch of {len(self)} records")
        self.clear()

    def __enter__(self) -> "WriteBatch":
        return self

    def __exit__(self, kind: "Optional[Type[BaseException]]", error: "Optional[BaseException]",
                 trace: "Optional[TracebackType]") -> None:
        if kind is None:
            self.write()
        else:
            self.clear()
