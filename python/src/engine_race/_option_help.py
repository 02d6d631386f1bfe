"""What each option of `open` means, in the order of the C API. Defaults come from the library."""
from typing import Callable, Dict

# Without a unit a size is in bytes; "64k", "64m" and "2g" have one.
HELP: Dict[str, str] = {
    "value_bytes": "The size of every value: 8 to 1m. 0: that of an existing store, or 4096 in a "
                   "new one.",
    "bucket_count": "New stores: stretches of neighbouring keys. A power of two, 1 to 65536, at "
                    "least `file_count`. With values above 16k a store has at most 16m divided by "
                    "`value_bytes`, or 16 if that is more.",
    "file_count": "New stores: files of keys, and as many of values. A power of two, 1 to 1024.",
    "bucket_capacity_records": "New stores: records that one bucket can hold at one time. A power "
                               "of two up to 2^31.",
    "value_group_bytes": "New stores: values go to disk in groups of about this size. A power of "
                         "two, 4k to 1m.",
    "key_group_bytes": "New stores: entries of keys go to disk in groups of this size: 4k or "
                       "8k.",
    "paths": "Where the values lie: up to 64 directories or raw block devices, as a list. Empty: "
             "in the store's own directory; for an existing store, where they were.",
    "key_range": 'The keys that the store takes, as "0-999". Empty: a new store takes all, an '
                 "existing one keeps its own.",
    "directory_mode": "Permissions of new directories, less the umask: 0o700 to 0o777.",
    "file_mode": "Permissions of new files, less the umask: 0o600 to 0o777.",
    "memory_budget_bytes": "Memory for everything: index, hot values, scans, staging. At least "
                           '16m and 32 values. "auto": a quarter of what the process may use, or '
                           "a sixteenth with `read_only`.",
    "hot_value_bytes": 'Part of the budget for values that are read often. 0: none. "auto": what '
                       "the rest leaves.",
    "index_memory_bytes": "The index lies whole in memory while it takes at most this part of the "
                          'budget. Else it is read from disk by blocks. "auto": what the budget '
                          "allows.",
    "index_close_bytes": "The most bytes of the index that closing writes. The next opening builds "
                         "the rest.",
    "index_sync_bytes": "`sync` writes the index if that takes at most this many bytes. 0: never.",
    "index_idle_ms": "The index is written when the store has been idle for this long. 0: never.",
    "build_thread_count": "Threads that build the index for a call that waits for all of it. 0: "
                          "one for each CPU.",
    "io_backend": "How many reads are kept in flight. A back end that does not work here is "
                  "replaced, with a warning in the log.",
    "io_uring_iopoll": "The kernel polls for the end of reads of io_uring. Left out where it does "
                       "not work.",
    "io_uring_sqpoll": "A thread of the kernel takes the requests of io_uring. Left out where it "
                       "does not work.",
    "page_cache": "With `read_only`: reads go through the page cache of the kernel, which processes "
                  "share. Hot values are off then, unless `hot_value_bytes` says otherwise.",
    "worker_count": "Threads that read many keys of one call. 0: one for each CPU.",
    "tasks_per_worker": "Reads that one such thread keeps in flight: 1 to 4096.",
    "async_read_limit": "Asynchronous reads that may be pending. 0: twice what the workers keep "
                        "in flight, at least 1024.",
    "async_read_waits": "Of programs in C. Tasks of Python wait at that limit either way.",
    "overwrite_devices": "A new store takes raw devices among its paths even when they hold "
                         "something.",
    "staging_mode": 'How a record reaches the kernel: "auto" through a shared mapping where that '
                    'is safe, "written" by a system call.',
    "sync_mode": 'When a write that returned outlives a power loss. "none": once `sync` returned. '
                 '"every_write", "group": at once; writers of a group share a flush.',
    "sync_on_close": "`close` syncs. Without it the first opening after a reboot verifies what was "
                     "written since the last sync.",
    "cache_iterators": "Iterators that are closed leave their memory to the next ones.",
    "journal_bytes": 'Disk space for the journal of "every_write" and "group": a multiple of 2m, '
                     "4m to 4g.",
    "reclaim": 'Whether a thread of the store gives back the space of dead records: "background" '
               'or "off".',
    "reclaim_dead_percent": "The share of a bucket's slots that reclaim leaves without live "
                            "records: 1 to 99.",
    "reclaim_bytes_per_second": "The most that it writes again in a second. 0: no limit.",
    "verify_checksums": "Every value that is read is compared with its checksum.",
    "latency_stats": "Measures how long calls take, for `property`.",
    "stats_interval_ms": "Writes the stats into the store's directory this often, for `bin/store "
                         "top`. 0: never.",
    "read_only": "Opens an existing store for reading only, as the mode r does. Calls that would "
                 "write raise InvalidArgumentError.",
    "follow": "With the mode r: reads a store beside its writer. `refresh` moves on to what the "
              "writer has written.",
    "create_if_missing": "False: a directory without a store raises MissingStoreError.",
    "create_among_files": "A new store may be made in a directory that holds other files.",
    "numa": 'Where memory lies on machines with several nodes: "none", "interleave", '
            '"interleave:0,1" or "bind:0,1".',
}


def explain(defaults: Dict[str, str]) -> str:
    """A paragraph for each option, with its default."""
    return "\n".join(f"    {name} = {default}\n        {_wrapped(HELP.get(name, ''))}"
                     for name, default in defaults.items())


def _wrapped(text: str) -> str:
    import textwrap

    return "\n        ".join(textwrap.wrap(text, 80))


def with_options(defaults: Dict[str, str]) -> Callable[[object], None]:
    """Puts the explanations behind the docstring of a function or class."""
    told = ("Without a unit a size is in bytes: 2147483648 is \"2g\". The options, with their "
            "defaults:")

    def add(to: object) -> None:
        to.__doc__ = f"{(to.__doc__ or '').rstrip()}\n\n    {told}\n\n{explain(defaults)}\n"

    return add
