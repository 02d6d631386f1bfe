"""Calls for stores that nobody has open."""
from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Callable, Mapping, NamedTuple, Optional, Union

from ._errors import CorruptionError, error_of_store
from ._library import ffi, lib
from ._log import Log
from ._options import c_text, new_options
from ._progress import call_in_pieces

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._options import OpenOptions
    from ._progress import Progress


class Report(NamedTuple):
    """Counts of what `verify` and `copy` have read."""

    record_count: int
    """Records that were read, overwritten ones and deletions included."""
    bad_count: int
    """Records that are damaged, and records of the index that differ from the logs."""
    lost_tail_count: int
    """Records that a power loss has taken: the next opening cuts them off."""
    index_record_count: int
    """Records of the index on disk that were compared."""
    index_unusable_bucket_count: int
    """Buckets whose index must be built anew."""


class BackupReport(NamedTuple):
    """Counts of a backup."""

    record_count: int
    """Live records at the moment of the backup."""
    value_count: int
    """Those whose values this backup holds itself."""
    chain_length: int
    """Backups that a restore needs, this one included."""
    size_bytes: int
    """Of the files of this backup."""


def new_backup_report() -> Any:
    counts = ffi.new("engine_race_backup_report*")
    counts.struct_bytes = ffi.sizeof("engine_race_backup_report")
    return counts


def backup_report_of(counts: Any) -> BackupReport:
    return BackupReport(*(getattr(counts, name) for name in BackupReport._fields))


def restore(backup: Union[str, bytes, os.PathLike[str]],
            destination: Union[str, bytes, os.PathLike[str]],
            progress: Optional[Progress] = None, **options: Unpack[OpenOptions]) -> BackupReport:
    """Makes a store of a backup and its parents, in a directory that is missing or empty.

    Everything that is read is compared with its checksums. `progress` is that of `verify`. A
    call that is ended leaves no store.
    """
    first, second = c_text(backup, "the backup"), c_text(destination, "the destination")
    return _read_backup(first, options, lambda made, report: call_in_pieces(
        progress, lib.engine_race_restore, first, second, made, report))


def verify_backup(backup: Union[str, bytes, os.PathLike[str]],
                  progress: Optional[Progress] = None,
                  **options: Unpack[OpenOptions]) -> BackupReport:
    """Reads all that a restore of a backup would read, and compares it with its checksums.

    `progress` is that of `verify`.
    """
    directory = c_text(backup, "the backup")
    return _read_backup(directory, options, lambda made, report: call_in_pieces(
        progress, lib.engine_race_verify_backup, directory, made, report))


def _read_backup(directory: bytes, options: Mapping[str, Any],
                 read: Callable[[Any, Any], Any]) -> BackupReport:
    made, log = new_options(options), Log(directory)
    log.set_in(made)
    counts = new_backup_report()
    try:
        code = read(made, counts)
        error = None if code == lib.ENGINE_RACE_OK else error_of_store(code, os.fsdecode(directory))
    finally:
        log.hand_on()
    if error is not None:
        raise error
    return backup_report_of(counts)


def verify(path: Union[str, bytes, os.PathLike[str]], progress: Optional[Progress] = None,
           **options: Unpack[OpenOptions]) -> Report:
    """Reads every record of the store in a directory and compares it with its checksums.

    CorruptionError, with a `report`, when something is bad. Changes nothing. The store must be
    closed. Options are those of `open`. `progress` is called between pieces with how many records
    are done, and with a number that they do not exceed. An exception of it, or of a signal handler,
    ends the call.
    """
    directory = c_text(path, "the path")
    return _read_all(directory, options, lambda made, report: call_in_pieces(
        progress, lib.engine_race_verify, directory, made, report))


def copy(source: Union[str, bytes, os.PathLike[str]],
         destination: Union[str, bytes, os.PathLike[str]],
         progress: Optional[Progress] = None, **options: Unpack[OpenOptions]) -> Report:
    """Copies a closed store into a directory that is missing or empty.

    It verifies every record on the way: CorruptionError, with a `report`, when one is bad. A copy
    that fails, or is ended, leaves no store. The option `paths` says where the values of the copy
    lie. `progress` is that of `verify`.
    """
    first, second = c_text(source, "the source"), c_text(destination, "the destination")
    return _read_all(first, options, lambda made, report: call_in_pieces(
        progress, lib.engine_race_copy, first, second, made, report))


def _read_all(directory: bytes, options: Mapping[str, Any],
              read: Callable[[Any, Any], Any]) -> Report:
    made, log = new_options(options), Log(directory)
    log.set_in(made)
    counts = ffi.new("engine_race_report*")
    counts.struct_bytes = ffi.sizeof("engine_race_report")
    try:
        code = read(made, counts)
        error = None if code == lib.ENGINE_RACE_OK else error_of_store(code, os.fsdecode(directory))
    finally:
        log.hand_on()
    report = Report(*(getattr(counts, name) for name in Report._fields))
    if error is None:
        return report
    if isinstance(error, CorruptionError):
        error.report = report
    raise error
