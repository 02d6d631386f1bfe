"""What the device allows, in operations a second, for each phase of a file.

A file has the rates of three kinds of requests, measured by fio. A phase whose operations are such
requests has a limit: random reads, sequential reads, or sequential writes. Other phases have none.
Threads that scan visit the same records, and a store may read a record once for all of them. So a
scan has a limit only where one thread does it.
"""
import re
import statistics

from .model import rate_of

RANDOM_READS = {"read", "readrandom", "multireadrandom", "ycsbc"}
SEQUENTIAL_READS = {"range", "readseq", "readreverse", "scanall"}
SEQUENTIAL_WRITES = {"write", "fillseq", "fillrandom", "filluniquerandom", "overwrite", "ycsbload"}


def bytes_of_operation(source, phase):
    """Bytes that an operation of the phase moves, by its runs or by the size of values."""
    sizes = [run.bytes / run.operations for run in source.runs
             if run.phase == phase and run.bytes and run.operations]
    return statistics.median(sizes) if sizes else source.value_bytes


def has_one_thread(source, phase):
    return {run.threads for run in source.runs if run.phase == phase} == {1}


def limit_of(source, phase):
    if phase in source.phase_limits:
        return source.phase_limits[phase]
    name = re.sub(r"[^a-z]", "", phase.lower())
    if name in RANDOM_READS:
        return source.floor.get("random_read_ops_per_s")
    if name in SEQUENTIAL_READS and not has_one_thread(source, phase):
        return None
    for names, field in ((SEQUENTIAL_READS, "sequential_read_bytes_per_s"),
                         (SEQUENTIAL_WRITES, "sequential_write_bytes_per_s")):
        if name in names:
            # Bytes a second over bytes of an operation.
            return rate_of(source.floor.get(field), bytes_of_operation(source, phase))
    return None


def limits_of(source):
    """{phase: operations a second}"""
    phases = dict.fromkeys(phase for _, phase in source.rates)
    return {phase: limit for phase in phases for limit in [limit_of(source, phase)] if limit}
