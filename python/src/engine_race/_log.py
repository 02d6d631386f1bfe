"""The engine's log, as records of the logger "engine_race".

The engine's threads run no code of Python. At the end of the interpreter such a thread would wait
for the interpreter's lock for ever, or would end in the middle of the engine. So the engine puts
its messages into a queue of the C API, and calls of the store hand them on to `logging`.

Handlers of logs are code of the program, which may do anything:

- A handler may raise. Then the call that hands the message on goes on all the same.
- A handler may use a store. A thread that is in the middle of `logging` hands nothing on: it leaves
  the messages to its next call. So does a signal handler that interrupts `logging`.
- A handler may wait for a lock, or for another thread that closes the store. So no lock of this
  package is held meanwhile, and no call is running. Iterators and scans, which have a lock, hand
  nothing on. Neither does a call within a call.
- The child of a fork gets none of its parent's messages: the queue gives a child nothing.
- What is logged after the functions of `atexit` have run is dropped.
"""
from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import traceback
import weakref
from sys import is_finalizing
from typing import Any

from ._errors import check
from ._library import ffi, lib, text_of

_MOST_MESSAGES = 1000
_MODULES_OF_LOGGING = ("logging", "logging.handlers")
_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR)

logger = logging.getLogger("engine_race")
# Without a handler of the program nothing is printed.
logger.addHandler(logging.NullHandler())

_logs: "weakref.WeakValueDictionary[int, Log]" = weakref.WeakValueDictionary()


class Log:
    """The messages of one store."""

    def __init__(self, directory: bytes) -> None:
        self._path = os.fsdecode(directory)
        made = ffi.new("engine_race_log_queue**")
        check(lib.engine_race_log_queue_create(_MOST_MESSAGES, made))
        self._queue = ffi.gc(made[0], lib.engine_race_log_queue_destroy)
        # The number of messages that wait is waiting[0], without a call.
        self.waiting = lib.engine_race_log_queue_waiting(self._queue)
        _logs[id(self)] = self

    def set_in(self, options: Any) -> None:
        """A store that is opened with these options logs here."""
        check(lib.engine_race_options_set_log_queue(options, self._queue))

    def hand_on(self) -> None:
        """Hands the messages that wait to `logging`. Raises nothing."""
        if not self.waiting[0] or is_finalizing() or _is_in_logging():
            return
        message = ffi.new("engine_race_log_message*")
        message.struct_bytes = ffi.sizeof("engine_race_log_message")
        # No more than wait now: a handler may cause further ones.
        for _ in range(self.waiting[0]):
            if lib.engine_race_log_queue_take(self._queue, message) != lib.ENGINE_RACE_OK:
                return
            try:
                self._handle(message)
            except Exception:
                _tell_of_failure()

    def _handle(self, message: Any) -> None:
        level = _LEVELS[message.level]
        if not logger.isEnabledFor(level):
            return
        record = logger.makeRecord(logger.name, level, __file__, 0, text_of(message.text), (), None,
                                   extra={"store": self._path})
        # When it was logged, not when it is handed on.
        since_s = message.time_ns / 1e9
        record.relativeCreated -= (record.created - since_s) * 1000
        record.created = since_s
        record.msecs = message.time_ns // 10**6 % 1000
        logger.handle(record)


def _is_in_logging() -> bool:
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__") in _MODULES_OF_LOGGING:
            return True
    return False


def _tell_of_failure() -> None:
    """As `logging` tells of a handler that fails."""
    if logging.raiseExceptions and sys.stderr is not None:
        with contextlib.suppress(Exception):
            traceback.print_exc()


@atexit.register
def _hand_on_all() -> None:
    # In one step: threads that still run may open stores meanwhile.
    for reference in _logs.valuerefs():
        log = reference()
        if log is not None:
            log.hand_on()
