"""Keys, values and arrays of callers as memory that the engine may read or fill."""
import operator
import re
import sys
from array import array
from typing import Any, Iterable, Optional, Protocol, SupportsIndex, Tuple, Union

from ._dlpack import buffer_of_tensor
from ._library import KEY_BYTES, ffi

Bytes = Union[bytes, bytearray, memoryview]
Key = Union[SupportsIndex, Bytes]
Pairs = Iterable[Tuple[Key, Any]]


class HasItems(Protocol):
    """A dict, a store, or anything else with pairs of a key and a value."""

    def items(self) -> Pairs: ...


_ALL_BITS = (1 << 64) - 1
_RANGE = "from 0 to 2**64 - 1"
_FOREIGN_ORDERS = (">", "!") if sys.byteorder == "little" else ("<",)


def key_of(key: Any) -> int:
    """A key as a number; bytes are one big-endian."""
    if type(key) is int:
        number = key
    elif isinstance(key, (bytes, bytearray, memoryview)):
        taken = bytes(key)
        if len(taken) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(taken)}")
        return int.from_bytes(taken, "big")
    else:
        number = _index_of(key, f"a key is an int or {KEY_BYTES} bytes")
    if not 0 <= number <= _ALL_BITS:
        raise ValueError(f"a key is {_RANGE}, not {number}")
    return number


def _index_of(number: Any, rule: str) -> int:
    """An int of any class that stands for one. A bool is none: it is a result put in by mistake."""
    # That of numpy has another name in its second version.
    if type(number).__name__ not in ("bool", "bool_"):
        try:
            return operator.index(number)
        except TypeError:
            pass
    raise TypeError(f"{rule}, not {type(number).__name__}")


def count_of(number: Any, what: str, least: int, most: int) -> int:
    taken = _index_of(number, f"{what} is an int")
    if not least <= taken <= most:
        raise ValueError(f"{what} is from {least} to {most}, not {taken}")
    return taken


def bound_of(bound: Optional[Key]) -> Any:
    """A bound of a range. Bytes may be fewer than those of a key.

    With zeros behind them they are the first key that is not below them, as bytes are compared.
    """
    if bound is None:
        return ffi.NULL
    if isinstance(bound, (bytes, bytearray, memoryview)):
        bound = _padded(bound, "a bound")
    return ffi.new("uint64_t*", key_of(bound))


def _padded(given: Bytes, what: str) -> bytes:
    taken = bytes(given)
    if len(taken) > KEY_BYTES:
        raise ValueError(f"{what} has up to {KEY_BYTES} bytes, not {len(taken)}")
    return taken.ljust(KEY_BYTES, b"\0")


def bounds_of_prefix(prefix: Any) -> Tuple[int, Optional[int]]:
    """The first key that begins with these bytes, and the first behind those that do, if any."""
    if not isinstance(prefix, (bytes, bytearray, memoryview)):
        raise TypeError(f"a prefix is bytes, not {type(prefix).__name__}")
    lower = key_of(_padded(prefix, "a prefix"))
    upper = lower + (1 << 8 * (KEY_BYTES - len(bytes(prefix))))
    return lower, upper if upper <= _ALL_BITS else None


def pairs_of(given: Union[HasItems, Pairs]) -> Pairs:
    """What `update` takes, as `dict.update` does."""
    items: Any = getattr(given, "items", None)
    pairs: Any = given if items is None else items()
    return pairs  # type: ignore[no-any-return]


def _bytes_of_array(value: Any, what: str) -> Any:
    """An array of numpy as one of uint8, without a copy; anything else as it is.

    Of times, and of types that are not numpy's own, such as bfloat16, numpy gives no buffer.
    """
    if getattr(getattr(value, "dtype", None), "hasobject", True):
        return value
    if not value.flags.c_contiguous:
        raise ValueError(f"{what} is not contiguous")
    return value.reshape(-1).view("u1")


def _refuse_other_byte_order(what: str) -> None:
    """A later reader would get other numbers, without being told."""
    raise TypeError(f"{what} has numbers in the byte order of another machine: convert them first, "
                    "or give them as uint8")


def _buffer_of(value: Any, what: str, writable: bool) -> Tuple[Any, memoryview]:
    """What gives a contiguous buffer that the engine may use, and a view of that."""
    try:
        view = memoryview(value)
    except TypeError:
        if not hasattr(value, "__dlpack__"):
            raise TypeError(f"{what} is a buffer, not {type(value).__name__}") from None
        value = buffer_of_tensor(value, what, writable)
        view = memoryview(value)
    except (ValueError, BufferError) as error:
        taken = _bytes_of_array(value, what)
        if taken is value:
            raise TypeError(f"{what} gives no buffer: {error}") from None
        if not writable and not value.dtype.isnative:
            _refuse_other_byte_order(what)
        value, view = taken, memoryview(taken)
    # Names of fields stand between colons. Items that are references to objects must never be read
    # as bytes, nor filled.
    if "O" in re.sub(r":[^:]*:", "", view.format):
        raise TypeError(f"{what} holds Python objects, not numbers")
    # A record with fields is a layout of the caller's own, whatever order each field has.
    if not writable and view.format.startswith(_FOREIGN_ORDERS):
        _refuse_other_byte_order(what)
    if not view.c_contiguous:
        raise ValueError(f"{what} is not contiguous")
    if writable and view.readonly:
        raise ValueError(f"{what} is read-only")
    return value, view


def memory_of(value: Any, wanted_bytes: int, what: str, writable: bool = False) -> Any:
    """The memory of a contiguous buffer, without a copy. It is held as long as the result lives."""
    if type(value) is bytes and not writable:
        size = len(value)
    else:
        value, view = _buffer_of(value, what, writable)
        size = view.nbytes
    if size != wanted_bytes:
        raise ValueError(f"{what}: {size} bytes were given, and {wanted_bytes} are needed")
    # Not of the view: the garbage collector crashes on a view that cffi has exported.
    return ffi.from_buffer("char[]", value, require_writable=writable)


def rows_of(rows: Any, count: int, value_bytes: int, what: str, writable: bool = False) -> Any:
    return memory_of(rows, count * value_bytes, what, writable)


def keys_into(keys: Any) -> Any:
    """The memory of a writable array of uint64, to be filled."""
    _, view = _buffer_of(keys, "keys", writable=True)
    if view.ndim != 1:
        raise ValueError(f"keys have one dimension, not {view.ndim}")
    if view.format not in ("Q", "L", "@Q", "@L", "=Q") or view.itemsize != KEY_BYTES:
        raise TypeError(f"keys are uint64 in this machine's byte order, not {view.format!r}")
    return ffi.from_buffer("uint64_t[]", keys, require_writable=True)


def refuse_overlap(keys: Any, rows: Any) -> None:
    """Of the keys and rows of one call, given as memory."""
    first = int(ffi.cast("uintptr_t", keys))
    row = int(ffi.cast("uintptr_t", rows))
    if first < row + len(rows) and row < first + len(keys) * KEY_BYTES:
        raise ValueError("keys and values lie in the same memory")


def ids_of(ids: Any) -> Any:
    """A copy of keys as a buffer of uint64, which nobody else can change."""
    if isinstance(ids, (str, bytes, bytearray)):
        raise TypeError(f"ids are a sequence of keys, not {type(ids).__name__}")
    if isinstance(ids, (array, memoryview)) or hasattr(ids, "__array__"):
        return _ids_of_array(ids)
    return _ids_of_sequence(ids)


def _ids_of_array(ids: Any) -> Any:
    import numpy

    given = numpy.asarray(ids)
    if given.ndim != 1:
        raise ValueError(f"ids have one dimension, not {given.ndim}")
    if given.dtype == object:
        return _ids_of_sequence(given.tolist())
    if given.dtype.kind in "SV":
        return _ids_of_bytes(given)
    if given.dtype.kind == "u":
        return given.astype(numpy.uint64)
    if given.dtype.kind != "i":
        if given.size == 0:
            return numpy.empty(0, numpy.uint64)
        raise TypeError(f"ids are integers, not {given.dtype}")
    taken = given.astype(numpy.int64)
    if taken.size > 0 and taken.min() < 0:
        raise ValueError(f"ids are {_RANGE}, not {taken.min()}")
    return taken.view(numpy.uint64)


def _ids_of_bytes(given: Any) -> Any:
    """Of an array of numpy, each item of which is the bytes of a key."""
    import numpy

    if given.dtype.names is not None or given.dtype.itemsize != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, and ids are {given.dtype}")
    return numpy.ascontiguousarray(given).view(">u8").astype(numpy.uint64)


def _ids_of_sequence(ids: Any) -> Any:
    """By elements: numpy would make floats of large ints beside small ones."""
    try:
        listed = list(ids)
    except TypeError:
        raise TypeError(f"ids are a sequence of keys, not {type(ids).__name__}") from None
    if set(map(type, listed)) <= {int}:
        try:
            return array("Q", listed)
        except OverflowError:
            pass
    return array("Q", map(key_of, listed))


def shares_memory(ids: Any, rows: Any) -> bool:
    """Whether an array of ids may lie in the memory of rows. A sequence never does."""
    if not (isinstance(ids, (array, memoryview)) or hasattr(ids, "__array__")):
        return False
    import numpy

    return bool(numpy.may_share_memory(numpy.asarray(ids), bytes_in(rows)))


def bytes_in(memory: Any) -> Any:
    """Memory of cffi, which is not empty, as an array of uint8."""
    import numpy

    return numpy.frombuffer(ffi.buffer(memory), numpy.uint8)
