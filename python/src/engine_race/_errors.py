"""The exceptions of the package. Each has the code of the C API as `code`. All can be pickled."""
from __future__ import annotations

import errno as numbers_of_errors
import os
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple, Type

from ._library import ffi, lib, text_of

if TYPE_CHECKING:
    from ._closed_stores import Report


class EngineRaceError(Exception):
    """A call of the store has failed."""

    code: int
    """The number of the failure in the C API."""
    done_count: Optional[int] = None
    """After `take` and `write_many`: how many records they did before the failure."""

    def __init__(self, message: str, code: int) -> None:
        # Subclasses have OSError or KeyError as a second base, which also take a message alone.
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.args[0], self.code), self.__dict__


class MissingKeyError(EngineRaceError, KeyError):
    """There is no such key."""

    key: Optional[int]
    """Its number."""

    def __init__(self, message: str, code: int, key: Optional[int] = None) -> None:
        super().__init__(message, code)
        self.key = key

    def __str__(self) -> str:
        # A KeyError shows the repr of its message.
        return Exception.__str__(self)


class _SystemError(EngineRaceError, OSError):
    """Has `errno` and `filename` where a call of the system has failed, and None elsewhere."""

    def __init__(self, message: str, code: int, errno: Optional[int] = None,
                 filename: Optional[str] = None) -> None:
        super().__init__(message, code)
        self.filename = filename
        if errno is not None:
            self.errno, self.strerror = errno, os.strerror(errno)

    def __str__(self) -> str:
        # An OSError shows its number and its file, which the message has.
        return Exception.__str__(self)

    def __reduce__(self) -> Tuple[Any, ...]:
        return type(self), (self.args[0], self.code, self.errno, self.filename), self.__dict__


class MissingStoreError(_SystemError, FileNotFoundError):
    """The directory holds no store, and create_if_missing is false or the mode is "r"."""


class CorruptionError(EngineRaceError):
    """Bytes on disk are damaged."""

    report: Optional[Report] = None
    """Where `verify` or `copy` has raised it: counts of what is damaged."""


class FullError(_SystemError):
    """The disk or a bucket is full. `errno` is that of the disk, and None for a bucket."""


class StoreIOError(_SystemError):
    """The system has refused a read or a write, or another process holds the store."""


class InvalidArgumentError(EngineRaceError, ValueError):
    """An option or an argument has a value that it cannot have."""


class OutOfMemoryError(EngineRaceError, MemoryError):
    """The engine was refused memory."""


class ClosedError(EngineRaceError, ValueError):
    """The store, snapshot or iterator is closed, or belongs to the process before a fork."""

    def __init__(self, message: str,
                 code: int = lib.ENGINE_RACE_INVALID_ARGUMENT) -> None:
        super().__init__(message, code)


_KINDS: Dict[int, Type[EngineRaceError]] = {
    lib.ENGINE_RACE_NOT_FOUND: MissingKeyError,
    lib.ENGINE_RACE_CORRUPTION: CorruptionError,
    lib.ENGINE_RACE_INVALID_ARGUMENT: InvalidArgumentError,
    lib.ENGINE_RACE_IO_ERROR: StoreIOError,
    lib.ENGINE_RACE_FULL: FullError,
    lib.ENGINE_RACE_OUT_OF_MEMORY: OutOfMemoryError,
}

# For single records of a call for many. The library's message describes the thread's last failure,
# which need not be that of the record.
_REASONS = {
    lib.ENGINE_RACE_NOT_FOUND: "there is no such key",
    lib.ENGINE_RACE_CORRUPTION: "the record on disk is damaged",
    lib.ENGINE_RACE_IO_ERROR: "its value could not be read",
    lib.ENGINE_RACE_OUT_OF_MEMORY: "memory was refused",
}


def missing_key(key: int) -> MissingKeyError:
    return MissingKeyError(f"key {key}: there is no such key", lib.ENGINE_RACE_NOT_FOUND, key)


def error_of_record(code: int, key: int) -> EngineRaceError:
    """The exception for one record of a call for many."""
    if code == lib.ENGINE_RACE_NOT_FOUND:
        return missing_key(key)
    reason = _REASONS.get(code) or text_of(lib.engine_race_code_name(code))
    return _KINDS.get(code, EngineRaceError)(f"key {key}: {reason}", code)


def error_of(code: int, about: str = "") -> EngineRaceError:
    """The exception for a code that the calling thread's last call of the library answered."""
    # Both are of the thread's last failure, which is this one.
    number = lib.engine_race_error_number()
    path: bytes = ffi.string(lib.engine_race_error_path())
    message = text_of(lib.engine_race_error_message()) or text_of(lib.engine_race_code_name(code))
    if about:
        message = f"{about}: {message}"
    kind = _KINDS.get(code, EngineRaceError)
    if issubclass(kind, _SystemError):
        return kind(message, code, number or None, os.fsdecode(path) or None)
    return kind(message, code)


def error_of_store(code: int, path: str) -> EngineRaceError:
    """error_of for a call that takes the directory of a store."""
    if code == lib.ENGINE_RACE_NOT_FOUND:
        return MissingStoreError(f"{path}: {text_of(lib.engine_race_error_message())}", code,
                                 numbers_of_errors.ENOENT, path)
    return error_of(code, path)


def check(code: int, about: str = "", done_count: Optional[int] = None) -> None:
    """Raises the exception for a code that is not that of success."""
    if code != lib.ENGINE_RACE_OK:
        error = error_of(code, about)
        if done_count is not None:
            error.done_count = done_count
        raise error
