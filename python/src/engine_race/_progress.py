"""Long calls: their progress, and signals that come meanwhile.

The engine works in pieces. Between two of them it calls a function of this file, in the thread that
made the call. There the interpreter runs handlers of signals, as between two steps of Python. What
a handler raises, or the caller's own function, cancels the call and comes out of it.

Only the main thread runs handlers. So in other threads a call without a function of the caller is
not interrupted, and does not wait for the interpreter's lock between its pieces.
"""
import itertools
import threading
from threading import get_ident
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

from ._library import ffi, lib

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Type

# Records of a piece, as engine_race_c.h has them.
READ_AT_ONCE = 4096
WRITTEN_AT_ONCE = 256

# Called with how many records are done, and with a number that they do not exceed.
Progress = Callable[[int, int], object]


class _Call:
    """A long call that is running."""

    def __init__(self, progress: Optional[Progress]) -> None:
        self.progress = progress
        self.error: Optional[BaseException] = None


_numbers = itertools.count(1)
_calls: Dict[int, _Call] = {}


def _number_of(argument: Any) -> int:
    return int(ffi.cast("uintptr_t", argument))


def _keep(_kind: "Type[BaseException]", error: BaseException, trace: "TracebackType") -> None:
    call = _calls.get(_number_of(trace.tb_frame.f_locals["argument"]))
    if call is not None and call.error is None:
        call.error = error


def _between_pieces(argument: Any, done_count: int, most_count: int) -> int:
    call = _calls.get(_number_of(argument))
    if call is not None and call.progress is not None:
        call.progress(done_count, most_count)
    return 0


_function = ffi.callback("engine_race_progress_fn", _between_pieces, error=1, onerror=_keep)


def call_in_pieces(progress: Optional[Progress], function: Callable[..., int], *arguments: Any,
                   is_one_piece: bool = False) -> int:
    """function(*arguments), which is a long call of the C API unless it has one piece alone."""
    if progress is None and (is_one_piece or get_ident() != threading.main_thread().ident):
        return function(*arguments)
    call, number = _Call(progress), next(_numbers)
    # As in Handle.call: an interrupt cannot come between the call and what follows it.
    try:
        _calls[number] = call
        lib.engine_race_set_progress(_function, ffi.cast("void*", number))
        code = function(*arguments)
    finally:
        lib.engine_race_set_progress(ffi.NULL, ffi.NULL)
        _calls.pop(number, None)
    if call.error is not None:
        raise call.error
    return code
