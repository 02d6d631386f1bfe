"""Reads of a store that tasks of an event loop wait for."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Optional, Tuple, TypeVar, Union, overload

from . import _async_reads
from ._buffers import Key, key_of
from ._errors import error_of_record
from ._held import NOT_FOUND, OK, bytes_of_value, new_value
from ._library import ffi, lib
from ._reader import ManyReads, Reader

if TYPE_CHECKING:
    import numpy
    from numpy.typing import DTypeLike, NDArray

    from ._arrays import Shape
    from ._reader import Mask, Missing

_Default = TypeVar("_Default")
_Out = TypeVar("_Out")


class AwaitedReader(Reader):
    """What a store has, and a snapshot has not."""

    _lane: Any

    async def _read_async(self, count: int, keys: Any, values: Any, codes: Any) -> None:
        await _async_reads.read(self._handle, self._lane, count, keys, values, codes, self)

    @overload
    async def aget(self, key: Key) -> Optional[bytes]: ...

    @overload
    async def aget(self, key: Key, default: _Default) -> Union[bytes, _Default]: ...

    async def aget(self, key: Key, default: Any = None) -> Any:
        """As `get`, and other tasks of the event loop run meanwhile.

        Thousands of tasks may wait for reads at once: no thread waits for any of them.
        """
        number, codes = key_of(key), ffi.new("int[1]")
        memory = new_value(self._value_bytes)
        await self._read_async(1, ffi.new("uint64_t[1]", [number]), memory, codes)
        if codes[0] == NOT_FOUND:
            return default
        if codes[0] != OK:
            # Of a store that was closed meanwhile, each read is refused.
            self._handle.check_open()
            raise error_of_record(codes[0], number)
        return bytes_of_value(memory, self._value_bytes)

    @overload
    async def aread_many(self, ids: Any, out: None = None,  # type: ignore[misc]
                         missing: Missing = "raise", dtype: Optional[DTypeLike] = None,
                         shape: Optional[Shape] = None) -> NDArray[Any]: ...

    @overload
    async def aread_many(self, ids: Any, out: _Out, missing: Missing = "raise",
                         dtype: Optional[DTypeLike] = None,
                         shape: Optional[Shape] = None) -> _Out: ...

    @overload
    async def aread_many(self, ids: Any, out: None = None, *, missing: Literal["mask"],
                         dtype: Optional[DTypeLike] = None,
                         shape: Optional[Shape] = None) -> Tuple[NDArray[Any], Mask]: ...

    @overload
    async def aread_many(self, ids: Any, out: _Out, missing: Literal["mask"],
                         dtype: Optional[DTypeLike] = None,
                         shape: Optional[Shape] = None) -> Tuple[_Out, Mask]: ...

    async def aread_many(self, ids: Any, out: Any = None, missing: str = "raise",
                         dtype: Optional[DTypeLike] = None, shape: Optional[Shape] = None) -> Any:
        """As `read_many`, and other tasks of the event loop run meanwhile.

        The store reads the keys of all such calls in turn, as many at once as its option
        async_read_limit says. A task that is cancelled ends once those of its reads have ended that
        are under way: `out` does not change later.
        """
        call = ManyReads(self, ids, out, missing, dtype, shape)
        await self._read_async(call.count, call.key_memory, call.memory, call.code_memory)
        if call.has_code(lib.ENGINE_RACE_INVALID_ARGUMENT):
            self._handle.check_open()
        return call.result()
