"""What stores and snapshots have in common: lookups of one key and of many, and scans."""
from __future__ import annotations

from typing import (TYPE_CHECKING, Any, Callable, Literal, Optional, SupportsIndex, Tuple, TypeVar,
                    Union, overload)

from . import _iterator
from ._arrays import refuse_other_array, view_of_blocks
from ._buffers import (Bytes, Key, bounds_of_prefix, bytes_in, count_of, ids_of, key_of, memory_of,
                       rows_of, shares_memory)
from ._errors import check, error_of, error_of_record, missing_key
from ._held import NOT_FOUND, OK, Held, bytes_of_value, new_value
from ._iterator import Iterator, Scan
from ._library import ffi
from ._progress import call_in_pieces

if TYPE_CHECKING:
    import numpy
    from numpy.typing import DTypeLike, NDArray

    from ._arrays import Form, Shape
    from ._iterator import Block
    from ._progress import Progress

    Missing = Literal["raise", "zero", "keep"]
    Mask = NDArray[numpy.bool_]

_Default = TypeVar("_Default")
_Out = TypeVar("_Out")


class ManyReads:
    """The arguments of read_many, checked, and its result."""

    def __init__(self, of: Reader, ids: Any, out: Any, missing: str, dtype: Optional[DTypeLike],
                 shape: Optional[Shape]) -> None:
        import numpy

        if missing not in ("raise", "zero", "keep", "mask"):
            raise ValueError(f'missing is "raise", "zero", "keep" or "mask", not {missing!r}')
        self._missing, self._keys = missing, ids_of(ids)
        self.count = count = len(self._keys)
        self._value_bytes = size = of.value_bytes
        if out is None:
            empty = numpy.empty if missing == "raise" else numpy.zeros
            rows = empty((count, size), numpy.uint8)
            out = of._form.view(rows, dtype, shape)
            self.memory = rows_of(rows, count, size, "out", writable=True)
        else:
            self.memory = rows_of(out, count, size, "out", writable=True)
            if dtype is not None or shape is not None:
                refuse_other_array(out, count, size, dtype, shape)
            if count > 0 and shares_memory(ids, self.memory):
                raise ValueError("ids and out lie in the same memory")
        self._out, self._codes = out, numpy.empty(count, numpy.intc)
        self.key_memory = ffi.from_buffer("uint64_t[]", self._keys)
        self.code_memory = ffi.from_buffer("int[]", self._codes, require_writable=True)

    def has_code(self, code: int) -> bool:
        return bool((self._codes == code).any())

    def result(self) -> Any:
        """What read_many returns or raises, once the codes are there."""
        import numpy

        codes, absent = self._codes, self._codes == NOT_FOUND
        wrong = numpy.flatnonzero(codes if self._missing == "raise" else codes * ~absent)
        if len(wrong) > 0:
            raise error_of_record(int(codes[wrong[0]]), int(self._keys[wrong[0]]))
        if self._missing in ("zero", "mask") and absent.any():
            bytes_in(self.memory).reshape(self.count, self._value_bytes)[absent] = 0
        return (self._out, absent) if self._missing == "mask" else self._out


class Reader(Held):
    """A store or a snapshot."""

    _form: Form

    @property
    def value_bytes(self) -> int:
        """The size of every value."""
        return self._value_bytes

    def _read(self, number: int, memory: Any) -> int:
        raise NotImplementedError

    def _read_many(self, progress: Optional[Progress], count: int, keys: Any, rows: Any,
                   codes: Any) -> int:
        raise NotImplementedError

    def _call_in_pieces(self, progress: Optional[Progress], function: Any, *arguments: Any,
                        is_one_piece: bool = False) -> int:
        return self._handle.call(  # type: ignore[no-any-return]
            lambda pointer: call_in_pieces(progress, function, pointer, *arguments,
                                           is_one_piece=is_one_piece))

    def _walk(self, lower: Optional[Key], upper: Optional[Key]) -> Iterator:
        raise NotImplementedError

    @overload
    def get(self, key: Key) -> Optional[bytes]: ...

    @overload
    def get(self, key: Key, default: _Default) -> Union[bytes, _Default]: ...

    def get(self, key: Key, default: Any = None) -> Any:
        """The value, or `default` when there is no such key."""
        memory = new_value(self._value_bytes)
        code = self._read(key_of(key), memory)
        if code == NOT_FOUND:
            return default
        check(code)
        return bytes_of_value(memory, self._value_bytes)

    @overload
    def __getitem__(self, key: Key) -> bytes: ...

    @overload
    def __getitem__(self, key: slice) -> Scan[Tuple[int, bytes]]: ...

    def __getitem__(self, key: Union[Key, slice]) -> Any:
        """The value of a key, or a scan of the records of a slice: store[lower:upper].

        A slice is of keys, not of positions: nothing counts from the end, and there is no step. Its
        bounds are those of `scan`.
        """
        if isinstance(key, slice):
            if key.step is not None:
                raise ValueError("a slice of keys has no step")
            return self.scan(key.start, key.stop)
        memory = new_value(self._value_bytes)
        number = key_of(key)
        code = self._read(number, memory)
        if code == OK:
            return bytes_of_value(memory, self._value_bytes)
        raise missing_key(number) if code == NOT_FOUND else error_of(code, f"key {number}")

    def read_into(self, key: Key, buffer: Any) -> None:
        """Reads the value into a writable buffer of its size. KeyError leaves it as it was."""
        number = key_of(key)
        code = self._read(number, memory_of(buffer, self._value_bytes, "a value", writable=True))
        if code != OK:
            raise missing_key(number) if code == NOT_FOUND else error_of(code, f"key {number}")

    def count(self, lower: Optional[Key] = None, upper: Optional[Key] = None,
              prefix: Optional[Bytes] = None) -> int:
        """Counts the keys that `keys` finds. The engine keeps no count: this reads all of them.

        No value is read. The index is in memory, or is read from disk where it does not fit.
        """
        return _iterator.count_of_keys(self._walk_in(lower, upper, prefix))

    def __len__(self) -> int:
        """Counts the keys, as `count` does. Note that list(store) asks for the length first."""
        return self.count()

    def __bool__(self) -> bool:
        """True, empty or not, as an open file is. Nothing is counted."""
        return True

    def __contains__(self, key: Key) -> bool:
        """Reads the value too."""
        return self.get(key) is not None

    @overload
    def read_many(self, ids: Any, out: None = None,  # type: ignore[misc]
                  missing: Missing = "raise", dtype: Optional[DTypeLike] = None,
                  shape: Optional[Shape] = None,
                  progress: Optional[Progress] = None) -> NDArray[Any]: ...

    @overload
    def read_many(self, ids: Any, out: _Out, missing: Missing = "raise",
                  dtype: Optional[DTypeLike] = None, shape: Optional[Shape] = None,
                  progress: Optional[Progress] = None) -> _Out: ...

    @overload
    def read_many(self, ids: Any, out: None = None,
                  *, missing: Literal["mask"], dtype: Optional[DTypeLike] = None,
                  shape: Optional[Shape] = None,
                  progress: Optional[Progress] = None) -> Tuple[NDArray[Any], Mask]: ...

    @overload
    def read_many(self, ids: Any, out: _Out, missing: Literal["mask"],
                  dtype: Optional[DTypeLike] = None, shape: Optional[Shape] = None,
                  progress: Optional[Progress] = None) -> Tuple[_Out, Mask]: ...

    def read_many(self, ids: Any, out: Any = None, missing: str = "raise",
                  dtype: Optional[DTypeLike] = None, shape: Optional[Shape] = None,
                  progress: Optional[Progress] = None) -> Any:
        """The values of many keys, as rows of an array.

        Its type and shape come from the `dtype` and `shape` of `open`: (n, value_bytes) of uint8
        without them. One call keeps all reads in flight. `dtype` and `shape` of this call give the
        same bytes as an array of another type and shape, without a copy. So dtype=float32 gives one
        of (n, value_bytes // 4). One number of the shape may be -1. `out` is a writable contiguous
        array of n * value_bytes, of any type and shape. It is filled and returned. Using one again
        saves the system the work of giving new memory. Beside `out`, `dtype` and `shape` must be
        those that it has.
        `missing` says what happens to keys that are not there. "raise" raises KeyError, "zero"
        gives rows of zeros, "keep" leaves rows of `out` as they were. "mask" gives rows of zeros,
        and returns a pair: the rows, and an array of bool that is true where a key is not there.
        After a KeyError, `out` has the values of the keys that are there; its other rows are as
        they were. `progress` is called after each 4096 keys with how many are read, and with n.
        An exception of it, or of a signal handler, ends the call.
        """
        call = ManyReads(self, ids, out, missing, dtype, shape)
        check(self._read_many(progress, call.count, call.key_memory, call.memory,
                              call.code_memory))
        return call.result()

    def scan(self, lower: Optional[Key] = None, upper: Optional[Key] = None, reverse: bool = False,
             prefix: Optional[Bytes] = None) -> Scan[Tuple[int, bytes]]:
        """The records from `lower` on and below `upper`, in order of key, as of this call.

        A bound is a key, or fewer bytes than a key has: keys are compared with those as bytes are.
        With `prefix` instead, the records whose keys begin with these bytes.
        """
        return _iterator.scan(self._walk_in(lower, upper, prefix), reverse)

    def items(self, lower: Optional[Key] = None, upper: Optional[Key] = None,
              reverse: bool = False, prefix: Optional[Bytes] = None) -> Scan[Tuple[int, bytes]]:
        """As `scan`: unlike that of a dict, the result can be iterated once."""
        return self.scan(lower, upper, reverse, prefix)

    def keys(self, lower: Optional[Key] = None, upper: Optional[Key] = None, reverse: bool = False,
             prefix: Optional[Bytes] = None) -> Scan[int]:
        """The keys that `scan` finds. No value is read."""
        return _iterator.keys_of(self._walk_in(lower, upper, prefix), reverse)

    def values(self, lower: Optional[Key] = None, upper: Optional[Key] = None,
               reverse: bool = False, prefix: Optional[Bytes] = None) -> Scan[bytes]:
        """The values that `scan` finds, in order of key."""
        return _iterator.values_of(self._walk_in(lower, upper, prefix), reverse)

    def __iter__(self) -> Scan[int]:
        """The keys in order, as of this call."""
        return self.keys()

    def __reversed__(self) -> Scan[int]:
        """The keys in descending order, as of this call."""
        return self.keys(reverse=True)

    def _walk_in(self, lower: Optional[Key], upper: Optional[Key],
                 prefix: Optional[Bytes]) -> Iterator:
        if prefix is not None:
            if lower is not None or upper is not None:
                raise ValueError("a prefix is given in place of bounds, not beside them")
            lower, upper = bounds_of_prefix(prefix)
        return self._walk(lower, upper)

    def _blocks(self, walk: Callable[[], Iterator], rows: SupportsIndex, dtype: Optional[DTypeLike],
                shape: Optional[Shape]) -> Scan[Block]:
        count = count_of(rows, "rows", 1, (1 << 63) // self._value_bytes)
        view = view_of_blocks(self._form, self._value_bytes, dtype, shape)
        return _iterator.blocks(walk(), count, view)
