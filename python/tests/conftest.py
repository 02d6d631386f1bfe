import faulthandler

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
    faulthandler.dump_traceback_later(240, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def value_of(number, version=0):
    return (number.to_bytes(8, "big") + version.to_bytes(8, "big")) * 256
