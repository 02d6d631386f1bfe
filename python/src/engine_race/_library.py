"""The shared library and its C interface, read from the header that C programs include."""
import pathlib
import re
from typing import Any, List

from cffi import FFI

KEY_BYTES = 8
"""The size of a key, in bytes."""
VALUE_BYTES = 4096
"""The size of a value in bytes, unless a store is made with another one."""

_HERE = pathlib.Path(__file__).resolve().parent

ffi: Any = FFI()


def _declarations() -> str:
    """The header without what only a preprocessor understands. Numbers with names stay."""
    text = (_HERE / "engine_race_c.h").read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^#ifdef __cplusplus.*?^#endif", "", text, flags=re.DOTALL | re.MULTILINE)
    return "\n".join(line for line in text.split("\n")
                     if not line.startswith("#") or re.fullmatch(r"#define \w+ \d+", line))


ffi.cdef(_declarations())
# Calls through it release the interpreter's lock.
lib: Any = ffi.dlopen(str(_HERE / "libengine_race.so"))

# Memory of the library's side that is not filled with zeros first.
new_memory: Any = ffi.new_allocator(should_clear_after_alloc=False)


def text_of(pointer: Any) -> str:
    text: bytes = ffi.string(pointer)
    return text.decode("utf-8", "replace")


def version() -> str:
    """Of the library."""
    return text_of(lib.engine_race_version())


def _names(name_at: Any) -> List[str]:
    names: List[str] = []
    while (name := name_at(len(names))) != ffi.NULL:
        names.append(text_of(name))
    return names


def option_names() -> List[str]:
    return _names(lib.engine_race_option_name)


def stat_names() -> List[str]:
    return _names(lib.engine_race_stat_name)
