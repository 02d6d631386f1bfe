"""Ownership of one pointer of the C API: threads share it, and it is freed once.

A signal handler runs in the main thread, between any two steps of Python code. It may raise there,
as Ctrl-C does, and it may close what that thread is using. So this file has no lock: a handler
would wait for the very thread that it interrupts. Instead, each step that changes something is one
operation of a dict, a list or cffi. No handler and no thread can see half of such a step.

- A call puts a token into `_users`, looks at `_closed`, calls, and removes the token. The token is
  made before the `try`. From 3.11 on CPython runs no handler between the call and the removal. In
  older ones an interrupt in that gap leaves the store open until the process ends.
- `close` sets `_closed` and then looks at `_users`. A call that it does not see there sees
  `_closed`, and is refused. If calls are running, the last one frees the pointer.
- cffi's `release` runs a destructor at most once, whichever threads call it.

- The pointer lies in a cell of memory with a destructor, made before the engine fills it. However
  many handlers raise, the cell frees what is in it. The destructor is C code, without a step in it.

Snapshots and iterators are children of a store. A child's calls, and its freeing, are calls of the
store too. So the engine never frees a child beside its store. Closing a store frees its children.
"""
import ctypes
import os
import time
import weakref
from functools import lru_cache, partial
from sys import is_finalizing
from threading import get_ident
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional

# Unlike methods of FFI, its functions are single steps.
import _cffi_backend

from ._errors import ClosedError
from ._library import ffi

if TYPE_CHECKING:
    from ._log import Log

_POLL_S = 0.001
# Of a handle without a log.
_NOTHING_WAITS = (0,)

_handles: "weakref.WeakSet[Handle]" = weakref.WeakSet()


@lru_cache(maxsize=None)
def _destructor_of_cell(free: Callable[[Any], None]) -> Any:
    """Frees the pointer in a cell: `max` of one element calls its key once.

    It is never freed itself. The garbage collector empties a `partial` that it collects, perhaps
    before the cell that is to call it.
    """
    made = partial(max, key=free)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


class Handle:
    """A pointer that calls use, its children, and its destructor. All methods are thread-safe.

    Each call first hands on the messages that wait in the log.
    """

    def __init__(self, what: str, free: Callable[[Any], None],
                 parent: Optional["Handle"] = None, log: Optional["Log"] = None) -> None:
        self._what = what
        self._log = log
        self._waiting: Any = _NOTHING_WAITS if log is None else log.waiting
        self._parent = parent
        self._pid = os.getpid()
        self._closed = False
        # The pointer, NULL before `create`, and the same memory with its destructor.
        self._cell = ffi.new(f"engine_race_{what}*[1]")
        self._owned = _cffi_backend.gcp(self._cell, _destructor_of_cell(free))
        self._children: Dict[int, Any] = {}
        # Threads by the tokens of their calls, and of their attempts to free.
        self._users: Dict[object, int] = {}
        self._freeing: Dict[object, int] = {}
        _handles.add(self)

    @property
    def closed(self) -> bool:
        return (self._closed or self._pid != os.getpid()
                or (self._parent is not None and self._parent.closed))

    def create(self, function: Callable[..., int], *arguments: Any) -> int:
        """Calls function(*arguments, cell), and owns the pointer that is in the cell then.

        For a child this runs in a call of its parent. Answers the code; after a failure this handle
        is closed.
        """
        try:
            if self._parent is not None:
                self._parent._children[id(self._owned)] = self._owned
            code = function(*arguments, self._cell)
        except BaseException:
            # A signal handler may raise when the function has just made something.
            self.close()
            raise
        if self._cell[0] == ffi.NULL:
            self.close()
        return code

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(pointer, *arguments), unless this handle or its parent is closed."""
        # Before the call: behind it, a handler of logs might replace the message of its failure.
        if self._waiting[0]:
            self.hand_on()
        token, thread, parent = object(), get_ident(), self._parent
        # Removals stand here, not in a method: a handler may raise where a method begins.
        try:
            if parent is not None:
                parent._users[token] = thread
            try:
                self._users[token] = thread
                self.check_open()
                return function(self._cell[0], *arguments)
            finally:
                self._users.pop(token, None)
                if self._closed:
                    self._free_unused()
        finally:
            if parent is not None:
                parent._users.pop(token, None)
                if parent._closed:
                    parent._free_unused()

    def hand_on(self) -> None:
        """Hands on the messages that wait in the log, except in the middle of a call.

        A handler of logs may wait for a thread that closes this handle. That thread waits for the
        end of the call.
        """
        if self._log is not None and not self._is_inside():
            self._log.hand_on()

    def check_process(self) -> None:
        if self._pid != os.getpid():
            raise ClosedError(f"the {self._what} was opened before a fork, by the parent process")

    def check_open(self) -> None:
        self.check_process()
        if self._closed:
            raise ClosedError(f"the {self._what} is closed")
        if self._parent is not None:
            self._parent.check_open()

    def close(self, waits: bool = True) -> None:
        """Refuses further calls, waits for running ones, and frees the pointer.

        Threads that close at once all wait. A thread that closes during its own call, in a signal
        handler, does not wait: the end of that call frees the pointer. At the end of the
        interpreter nobody waits: its daemon threads never leave their calls.
        """
        self._closed = True
        try:
            while (not self._free_unused() and waits and not self._is_inside()
                   and not is_finalizing()):
                time.sleep(_POLL_S)
        except BaseException:
            self._free_unused()
            raise

    def _is_inside(self) -> bool:
        """Whether the calling thread is in the middle of a call."""
        mine = get_ident()
        users = list(self._users.values())
        if self._parent is not None:
            users += self._parent._users.values()
        return mine in users

    def _free_unused(self) -> bool:
        """Frees the pointer of a closed handle unless calls are running; whether it is freed."""
        if self._pid != os.getpid():
            return True
        token, thread, parent = object(), get_ident(), self._parent
        try:
            if parent is not None:
                # From here on the parent frees nothing.
                parent._users[token] = thread
            if parent is None or not parent._closed:
                if self._users:
                    return False
                try:
                    self._freeing[token] = thread
                    for owned in [*self._children.values(), self._owned]:
                        _cffi_backend.release(owned)
                finally:
                    self._freeing.pop(token, None)
                if parent is not None:
                    parent._children.pop(id(self._owned), None)
                # Another thread may be in the destructor still.
                return all(other == thread for other in list(self._freeing.values()))
        finally:
            if parent is not None:
                parent._users.pop(token, None)
                if parent._closed:
                    parent._free_unused()
        # The parent frees its children.
        return parent._free_unused()

    def disown(self) -> None:
        """Never frees: for the child of a fork, which has the memory but not the threads."""
        for owned in [*self._children.values(), self._owned]:
            _cffi_backend.gcp(owned, None)

    def __del__(self) -> None:
        # A handler may have raised in __init__.
        if hasattr(self, "_freeing"):
            # No call of this handle is running, and the parent frees what this cannot.
            self._closed = True
            self._free_unused()


def _disown_all() -> None:
    for handle in list(_handles):
        handle.disown()


os.register_at_fork(after_in_child=_disown_all)
