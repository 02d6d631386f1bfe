import faulthandler
import os

import pytest

import engine_race

SMALL = {"memory_budget_bytes": "64m", "bucket_count": 16, "file_count": 4}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def store(path):
    with engine_race.open(path, **SMALL) as opened:
        yield opened


@pytest.fixture(autouse=True)
def watchdog():
    """Ends a test that hangs, even one whose thread holds the interpreter's lock."""
    watch()
    yield
    faulthandler.cancel_dump_traceback_later()


def watch():
    """Gives the test, or its next step, its time anew."""
    faulthandler.dump_traceback_later(240, exit=True)


def value_of(number, version=0):
    return (number.to_bytes(8, "big") + version.to_bytes(8, "big")) * 256


def damage(path, value):
    """Changes a value wherever a file has it; returns in how many places."""
    found = end = 0
    with open(path, "r+b") as file:
        size = os.fstat(file.fileno()).st_size
        while end < size:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            for at in range(start, end, len(value)):
                if os.pread(file.fileno(), len(value), at) == value:
                    os.pwrite(file.fileno(), b"damage", at)
                    found += 1
    return found
