"""Single records, ranges, snapshots, iterators, and what is refused."""
import threading

import pytest

import engine_race
from conftest import SMALL, value_of

ALL_BITS = 2**64 - 1


def test_records_are_there_after_reopening(path):
    with engine_race.open(path, **SMALL) as store:
        store[1] = value_of(1)
        store.put(b"\x00" * 7 + b"\x02", bytearray(value_of(2)))
        store[0] = value_of(0)
        store[ALL_BITS] = memoryview(value_of(3))
        del store[1]
    with engine_race.open(path) as store:
        assert store[2] == value_of(2)
        assert store[b"\xff" * 8] == value_of(3)
        assert store.get(1) is None
        assert store.get(1, "none") == "none"
        assert 0 in store and 1 not in store
        assert list(store) == [0, 2, ALL_BITS]


def test_a_missing_key_is_a_key_error(store):
    with pytest.raises(KeyError) as raised:
        store[5]
    assert isinstance(raised.value, engine_race.MissingKeyError)
    assert (raised.value.code, raised.value.key) == (1, 5)
    assert str(raised.value) == "key 5: there is no such key"
    store.delete(5)


def test_read_into_fills_and_leaves_alone(store):
    store[1] = value_of(1)
    buffer = bytearray(4096)
    store.read_into(1, buffer)
    assert buffer == value_of(1)
    with pytest.raises(KeyError):
        store.read_into(2, buffer)
    assert buffer == value_of(1)
    with pytest.raises(ValueError, match="read-only"):
        store.read_into(1, bytes(4096))


@pytest.mark.parametrize("key, error", [
    (-1, ValueError), (2**64, ValueError), (b"short", ValueError), (b"nine bytes", ValueError),
    (memoryview(bytes(16)).cast("Q"), ValueError), ("8 bytes!", TypeError), (1.0, TypeError),
    (None, TypeError), (True, TypeError), ([1], TypeError)])
def test_keys_that_are_none(store, key, error):
    calls = [lambda: store.put(key, bytes(4096)), lambda: store.get(key),
             lambda: store.delete(key), lambda: store.snapshot().get(key),
             lambda: store.iterator().seek(key), lambda: store.read_into(key, bytearray(4096)),
             lambda: store[key], lambda: key in store]
    if key is not None and key != b"short":
        # They refuse when they are called, not at the first record.
        calls += [lambda: store.scan(key), lambda: store.scan(upper=key),
                  lambda: store.blocks(4, key), lambda: store.snapshot().scan(key)]
    for call in calls:
        with pytest.raises(error):
            call()
    assert list(store) == []


def test_keys_of_many_kinds(store):
    class Seven:
        def __index__(self):
            return 7

    store[Seven()] = value_of(7)
    for key in (7, (7).to_bytes(8, "big"), bytearray((7).to_bytes(8, "big")),
                memoryview((7).to_bytes(8, "big"))):
        assert store[key] == value_of(7)


@pytest.mark.parametrize("value, error", [
    (b"", ValueError), (bytes(4095), ValueError), (bytes(4097), ValueError),
    ("x" * 4096, TypeError), (4096, TypeError), (None, TypeError),
    (memoryview(bytes(8192))[::2], ValueError)])
def test_values_that_are_none(store, value, error):
    with pytest.raises(error):
        store.put(1, value)
    assert 1 not in store


def test_options(path, tmp_path):
    defaults = engine_race.options()
    assert defaults["bucket_count"] == "1024" and "log" not in defaults
    with pytest.raises(ValueError, match="no_such_option"):
        engine_race.open(path, no_such_option=1)
    with pytest.raises(ValueError, match="bucket_count"):
        engine_race.open(path, bucket_count=3)
    with pytest.raises(engine_race.MissingStoreError) as raised:
        engine_race.open(path, create_if_missing=False)
    assert isinstance(raised.value, FileNotFoundError) and str(path) in str(raised.value)
    with engine_race.open(path, **SMALL, verify_checksums=True) as store:
        assert store.stats()["bucket_count"] == 16
        with pytest.raises(OSError, match="open elsewhere"):
            engine_race.open(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        engine_race.open(tmp_path / "file")


def test_scans(store):
    numbers = [3, 1 << 20, 7, ALL_BITS, 5]
    for number in numbers:
        store[number] = value_of(number)
    assert list(store.scan()) == [(number, value_of(number)) for number in sorted(numbers)]
    assert [key for key, _ in store.scan(5, 1 << 20)] == [5, 7]
    assert [key for key, _ in store.scan(5)] == [5, 7, 1 << 20, ALL_BITS]
    assert [key for key, _ in store.scan(None, 5)] == [3]
    assert [key for key, _ in store.scan(reverse=True)] == sorted(numbers, reverse=True)
    assert list(store.scan(7, 7)) == []
    # A scan that is left halfway holds nothing.
    walk = store.scan()
    next(walk)
    walk.close()
    assert store.stats()["view_count"] == 0


def test_snapshots(store):
    store[1] = value_of(1, 1)
    store[2] = value_of(2, 1)
    with store.snapshot() as snapshot:
        store[1] = value_of(1, 2)
        del store[2]
        store[3] = value_of(3, 2)
        assert snapshot[1] == value_of(1, 1)
        assert 2 in snapshot and 3 not in snapshot
        assert [key for key, _ in snapshot.scan()] == [1, 2]
        with pytest.raises(KeyError):
            snapshot[3]
    assert snapshot.closed
    with pytest.raises(engine_race.ClosedError):
        snapshot.get(1)
    assert store[1] == value_of(1, 2)


def test_iterators(store):
    for number in range(0, 100, 10):
        store[number] = value_of(number)
    with store.iterator(lower=20, upper=80) as walk:
        assert not walk.valid
        with pytest.raises(IndexError):
            walk.key
        with pytest.raises(IndexError):
            walk.value
        walk.seek(25)
        assert walk.key == 30 and walk.value == value_of(30)
        walk.prev()
        assert walk.key == 20
        walk.prev()
        assert not walk.valid
        walk.seek_for_prev(ALL_BITS)
        assert walk.key == 70
        walk.next()
        assert not walk.valid
        walk.check()
        walk.seek_to_first()
        assert [key for key, _ in walk] == list(range(20, 80, 10))
        store[21] = value_of(21)
        walk.seek(21)
        assert walk.key == 30
        walk.refresh()
        assert not walk.valid
        walk.seek(21)
        assert walk.key == 21


def test_what_is_closed_says_so(path):
    store = engine_race.open(path, **SMALL)
    store[1] = value_of(1)
    snapshot, walk = store.snapshot(), store.iterator()
    walk.seek_to_first()
    store.close()
    store.close()
    assert store.closed
    for call in (lambda: store.get(1), lambda: store.put(1, value_of(1)), store.stats, store.sync,
                 lambda: list(store.scan()), lambda: snapshot.get(1), walk.next,
                 store.snapshot, lambda: walk.valid):
        with pytest.raises(engine_race.ClosedError):
            call()
    snapshot.close()
    walk.close()
    with engine_race.open(path) as again:
        assert again[1] == value_of(1)


def test_threads_may_close_while_others_read(path):
    store = engine_race.open(path, **SMALL)
    for number in range(50):
        store[number] = value_of(number)
    wrong = []

    def read():
        try:
            while True:
                for number in range(50):
                    if store[number] != value_of(number):
                        wrong.append(number)
        except engine_race.ClosedError:
            pass

    readers = [threading.Thread(target=read) for _ in range(4)]
    closers = [threading.Thread(target=store.close) for _ in range(3)]
    for thread in readers + closers:
        thread.start()
    for thread in readers + closers:
        thread.join(60)
        assert not thread.is_alive()
    assert wrong == []
    # The lock is free: every closer returned only when it was closed.
    engine_race.open(path).close()
