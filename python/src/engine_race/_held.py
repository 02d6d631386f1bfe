"""The base class of stores, snapshots and iterators: closing, `with`, and what they say."""
from types import TracebackType
from typing import Any, Optional, Type, TypeVar

from ._handle import Handle
from ._library import ffi, lib, new_memory

_Self = TypeVar("_Self", bound="Held")


class Held:
    """Something that a `with` statement closes."""

    _handle: Handle
    _value_bytes: int

    @property
    def closed(self) -> bool:
        """Also when the store of a snapshot or an iterator is closed, and after a fork."""
        return self._handle.closed

    def close(self) -> None:
        """Waits for calls that are running. Closing again is fine."""
        self._close(waits=True)

    def _close(self, waits: bool) -> None:
        self._handle.close(waits)

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        # The garbage collector ends a generator, in any thread: it must not wait for another one.
        self._close(waits=kind is not GeneratorExit)

    def _said_with(self, words: str) -> str:
        state = ", closed" if self.closed else ""
        return f"<engine_race.{type(self).__name__} {words}{state}>"

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} cannot be pickled: it belongs to its process")


def new_value(value_bytes: int) -> Any:
    return new_memory("char[]", value_bytes)


def bytes_of_value(memory: Any, value_bytes: int) -> bytes:
    taken: bytes = ffi.buffer(memory, value_bytes)[:]
    return taken


OK: int = lib.ENGINE_RACE_OK
NOT_FOUND: int = lib.ENGINE_RACE_NOT_FOUND
