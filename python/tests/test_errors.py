"""Exceptions: their classes, codes and texts."""
import copy
import errno
import os
import pickle
import subprocess
import sys
from array import array

import pytest

import engine_race
from conftest import SMALL, damage, value_of

CLASSES = [engine_race.EngineRaceError, engine_race.MissingKeyError, engine_race.MissingStoreError,
           engine_race.CorruptionError, engine_race.FullError, engine_race.StoreIOError,
           engine_race.InvalidArgumentError, engine_race.OutOfMemoryError, engine_race.ClosedError]


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_can_be_pickled(kind):
    error = kind("what happened", 6)
    error.note = "mine"
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is kind
        assert (str(same), same.code, same.note) == ("what happened", 6, "mine")
        assert isinstance(same, engine_race.EngineRaceError)


def test_raised_ones_can_be_pickled(store, path):
    for call in (lambda: store[7], lambda: engine_race.open(path), lambda: store.put(1, b""),
                 lambda: engine_race.open(path, bucket_count=3)):
        with pytest.raises(Exception) as raised:
            call()
        same = pickle.loads(pickle.dumps(raised.value))
        assert type(same) is type(raised.value) and str(same) == str(raised.value)
        assert same.__dict__ == raised.value.__dict__
    with pytest.raises(KeyError) as raised:
        store[7]
    assert pickle.loads(pickle.dumps(raised.value)).key == 7


def test_they_are_what_python_calls_them():
    for kind, of in ((engine_race.MissingKeyError, KeyError),
                     (engine_race.MissingStoreError, FileNotFoundError),
                     (engine_race.FullError, OSError), (engine_race.StoreIOError, OSError),
                     (engine_race.InvalidArgumentError, ValueError),
                     (engine_race.OutOfMemoryError, MemoryError),
                     (engine_race.ClosedError, ValueError)):
        assert issubclass(kind, of) and issubclass(kind, engine_race.EngineRaceError)
        assert kind.__name__ in engine_race.__all__


FULL_DISK = """
import errno, pathlib, pickle, sys
import engine_race

path = pathlib.Path(sys.argv[1]) / "store"
store = engine_race.open(path, bucket_count=1, file_count=1, memory_budget_bytes="64m")
try:
    for number in range(100000):
        store[number] = bytes(4096)
except OSError as error:
    assert isinstance(error, engine_race.FullError)
    for same in (error, pickle.loads(pickle.dumps(error))):
        assert same.errno == errno.ENOSPC, same.errno
        assert same.strerror == "No space left on device"
        assert pathlib.Path(same.filename).parent == path.resolve(), same.filename
        assert str(same) == str(error) and "[Errno" not in str(same)
    print("full")
"""


def test_a_full_disk_has_its_number_and_its_file(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = ["unshare", "--mount", "sh", "-c",
               'mount -t tmpfs -o size=48m none "$1" || exit 77; shift; exec "$@"', "sh", str(disk)]
    if subprocess.run([*mounted, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("no file system can be mounted here")
    told = subprocess.run([*mounted, sys.executable, "-c", FULL_DISK, str(disk)], check=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=200,
                          capture_output=True, text=True).stdout
    assert told == "full\n"


def test_errors_of_the_system_have_a_number_and_a_file(path):
    with pytest.raises(FileNotFoundError) as raised:
        engine_race.open(path, create_if_missing=False)
    assert raised.value.errno == errno.ENOENT and raised.value.filename == str(path)
    path.write_text("no directory")
    with pytest.raises(engine_race.StoreIOError) as raised:
        engine_race.open(path, **SMALL)
    error = raised.value
    assert error.errno == errno.ENOTDIR and error.filename == str(path)
    assert error.strerror == "Not a directory"
    same = pickle.loads(pickle.dumps(error))
    assert (same.errno, same.filename, str(same)) == (error.errno, error.filename, str(error))


def test_a_failure_without_a_call_of_the_system_has_no_number():
    error = engine_race.FullError("a bucket is full", 8)
    assert error.errno is None and error.filename is None and str(error) == "a bucket is full"


def test_a_failure_of_many_tells_of_its_own_key(store, path):
    pytest.importorskip("numpy")
    store[1] = value_of(1)
    # Another failure of this thread comes before it.
    with pytest.raises(engine_race.StoreIOError):
        engine_race.open(path)
    with pytest.raises(engine_race.MissingKeyError) as raised:
        store.read_many([1, 12345])
    assert str(raised.value) == "key 12345: there is no such key"
    assert (raised.value.key, raised.value.code) == (12345, 1)


def test_damage_is_told(path):
    numpy = pytest.importorskip("numpy")
    with engine_race.open(path, **SMALL) as store:
        store.write_many(range(200), numpy.full((200, 4096), 7, numpy.uint8))
    assert sum(damage(file, bytes([7]) * 4096) for file in path.iterdir()) >= 200
    with engine_race.open(path) as store:
        for call in (lambda: store[5], lambda: store.get(5), lambda: store.read_many([5]),
                     lambda: store.read_many([5, 1000], missing="zero"),
                     lambda: list(store.scan()), lambda: list(store.scan(reverse=True)),
                     lambda: list(store.blocks(16)), lambda: store.snapshot()[5]):
            with pytest.raises(engine_race.CorruptionError) as raised:
                call()
            assert raised.value.code == 2


@pytest.fixture
def damaged(path):
    """A store whose third record of ten is damaged."""
    with engine_race.open(path, **SMALL) as store:
        for number in range(10):
            store[number] = value_of(number)
    assert sum(damage(file, value_of(2)) for file in path.iterdir()) > 0
    with engine_race.open(path) as store:
        yield store


def test_a_scan_keeps_its_message_for_the_record_it_is_about(damaged, path):
    """Other failures of the thread come between its records."""
    for walk in (damaged.scan(), damaged.scan(reverse=True)):
        with pytest.raises(engine_race.CorruptionError) as raised:
            for _ in walk:
                with pytest.raises(engine_race.StoreIOError, match="open elsewhere"):
                    engine_race.open(path)
        assert "open elsewhere" not in str(raised.value)


def test_what_was_done_before_a_failure(damaged):
    numbers = array("Q", [0] * 5)
    with damaged.iterator() as walk:
        walk.seek_to_first()
        with pytest.raises(engine_race.CorruptionError) as raised:
            walk.take(numbers, bytearray(5 * 4096))
    assert raised.value.done_count == 2 and list(numbers[:2]) == [0, 1]
    assert pickle.loads(pickle.dumps(raised.value)).done_count == 2


@pytest.mark.parametrize("make", [lambda store: store.snapshot(), lambda store: store.iterator()])
def test_handles_cannot_be_pickled(store, make):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(make(store))
    with pytest.raises(TypeError):
        copy.copy(make(store))
