"""A key-value store of 8-byte keys and values of one size.

    import engine_race

    with engine_race.open("/tmp/my-store", value_bytes=3072) as store:
        store[7] = bytes(3072)
        assert store[7] == bytes(3072)

A key is an int from 0 to 2**64 - 1, or the 8 bytes of such a number, big-endian. A value is any
contiguous buffer of the size of the store's values, 4096 by default. The options of `open` are
those of the C API.
"""
from ._batch import WriteBatch
from ._closed_stores import BackupReport, Report, copy, restore, verify, verify_backup
from ._errors import (ClosedError, CorruptionError, EngineRaceError, FullError,
                      InvalidArgumentError, MissingKeyError, MissingStoreError, OutOfMemoryError,
                      StoreIOError)
from ._iterator import Iterator, Scan
from ._load import LoadReport, load_lmdb, load_npy, load_parquet, load_rocksdb
from ._library import KEY_BYTES, VALUE_BYTES, version
from ._options import OpenOptions, options
from ._store import BucketSpace, Snapshot, Store, open

__version__ = version()
"""The version of the package, which is that of its library."""

__all__ = ["__version__",
           "BackupReport", "BucketSpace", "ClosedError", "CorruptionError", "EngineRaceError",
           "FullError", "InvalidArgumentError", "Iterator", "KEY_BYTES", "LoadReport",
           "MissingKeyError", "MissingStoreError", "OpenOptions", "OutOfMemoryError", "Report",
           "Scan", "Snapshot", "Store", "StoreIOError", "VALUE_BYTES", "WriteBatch", "copy",
           "load_lmdb", "load_npy", "load_parquet", "load_rocksdb", "open", "options", "restore",
           "verify", "verify_backup", "version"]
