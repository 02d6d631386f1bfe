"""Options of `open` as the texts that the C API takes."""
import os
import re
from typing import (Any, Dict, Literal, Mapping, Optional, Sequence, SupportsIndex, TypedDict,
                    Union)

from ._errors import OutOfMemoryError, check
from ._library import ffi, lib, option_names, text_of
from ._option_help import with_options

_Number = Union[SupportsIndex, str, None]
_Flag = Union[bool, Literal["true", "false"], None]
_Path = Union[str, bytes, "os.PathLike[str]"]

_MODES = ("directory_mode", "file_mode")


class OpenOptions(TypedDict, total=False):
    """The options of `open`, for checkers of types. None stands for the default."""

    value_bytes: _Number
    bucket_count: _Number
    file_count: _Number
    bucket_capacity_records: _Number
    value_group_bytes: _Number
    key_group_bytes: _Number
    paths: Union[_Path, Sequence[_Path], None]
    key_range: Optional[str]
    directory_mode: _Number
    file_mode: _Number
    memory_budget_bytes: _Number
    hot_value_bytes: _Number
    index_memory_bytes: _Number
    index_close_bytes: _Number
    index_sync_bytes: _Number
    index_idle_ms: _Number
    build_thread_count: _Number
    io_backend: Optional[Literal["auto", "psync", "libaio", "io_uring"]]
    io_uring_iopoll: _Flag
    io_uring_sqpoll: _Flag
    page_cache: _Flag
    worker_count: _Number
    tasks_per_worker: _Number
    async_read_limit: _Number
    async_read_waits: _Flag
    overwrite_devices: _Flag
    staging_mode: Optional[Literal["auto", "written"]]
    sync_mode: Optional[Literal["none", "every_write", "group"]]
    sync_on_close: _Flag
    cache_iterators: _Flag
    journal_bytes: _Number
    reclaim: Optional[Literal["off", "background"]]
    reclaim_dead_percent: _Number
    reclaim_bytes_per_second: _Number
    verify_checksums: _Flag
    latency_stats: _Flag
    stats_interval_ms: _Number
    read_only: _Flag
    follow: _Flag
    create_if_missing: _Flag
    create_among_files: _Flag
    numa: Optional[str]


def c_text(text: Any, what: str) -> bytes:
    """A str, bytes or path as C has it: without a NUL inside."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"{what} has a NUL character in it: {text!r}")
    return encoded


def _path_list(paths: Any, what: str) -> bytes:
    """Paths with ':' between them. A ':' or '\\' of a path itself has a '\\' before it."""
    escaped = []
    try:
        paths = iter(paths)
    except TypeError:
        raise TypeError(f"{what} is a list of paths, not {type(paths).__name__}") from None
    for path in paths:
        if not isinstance(path, (str, bytes, os.PathLike)):
            raise TypeError(f"{what} is a list of paths, and {path!r} is none")
        escaped.append(c_text(path, what).replace(b"\\", b"\\\\").replace(b":", b"\\:"))
    return b":".join(escaped)


def _text_of_value(name: str, value: Any) -> bytes:
    what = f"the option {name}"
    if isinstance(value, (str, bytes)):
        return c_text(value, what)
    if name == "paths":
        return _path_list([value] if isinstance(value, os.PathLike) else value, what)
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if name in _MODES and hasattr(value, "__index__"):
        # Modes are read as octal digits: 0o700 is "700".
        return f"{value.__index__():o}".encode()
    if isinstance(value, float) or hasattr(value, "__index__"):
        return str(value).encode()
    if isinstance(value, os.PathLike):
        return c_text(value, what)
    raise TypeError(f"{what} is text, a number, a bool or None, not {type(value).__name__}")


def from_anywhere(options: Mapping[str, Any]) -> Dict[str, Any]:
    """These options with absolute paths, for a process in another directory."""
    made = dict(options)
    if made.get("paths") is not None:
        given = re.findall(rb"(?s)(?:\\.|[^:\\])+", _text_of_value("paths", made["paths"]))
        made["paths"] = [os.path.abspath(os.fsdecode(re.sub(rb"(?s)\\(.)", rb"\1", path)))
                         for path in given]
    return made


def new_options(options: Mapping[str, Any]) -> Any:
    """Options of the C API, which free themselves. None stands for the default.

    Buffers are checked, so by default an existing store may have values of any size.
    """
    made = ffi.gc(lib.engine_race_options_create(), lib.engine_race_options_destroy)
    if made == ffi.NULL:
        raise OutOfMemoryError("memory was refused", lib.ENGINE_RACE_OUT_OF_MEMORY)
    given = {name: value for name, value in options.items() if value is not None}
    texts: Dict[bytes, bytes] = {
        c_text(name, "the name of an option"): _text_of_value(name, value)
        for name, value in {"value_bytes": 0, **given}.items()}
    for name_text, value_text in texts.items():
        check(lib.engine_race_options_set(made, name_text, value_text))
    return made


def option_in(made: Any, name: str) -> str:
    """The value of one of these options, as text."""
    value = ffi.new("char**")
    check(lib.engine_race_options_get(made, name.encode(), value))
    return text_of(ffi.gc(value[0], lib.engine_race_free))


def options() -> Dict[str, str]:
    """The names of all options, with their defaults as text."""
    made = new_options({})
    return {name: option_in(made, name) for name in option_names()}


# Behind the docstrings of OpenOptions and of `open`, which `help` shows.
add_options = with_options(options())
add_options(OpenOptions)
