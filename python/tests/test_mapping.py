"""A store as people use a dict: counts, slices, updates, and what it says of itself."""
import os
import pickle
import subprocess
import sys

import pytest

import engine_race
from conftest import SMALL, value_of

ALL_BITS = 2**64 - 1


def text_key(text):
    return text.encode().ljust(8, b"\0")


def number_of(text):
    return int.from_bytes(text_key(text), "big")


@pytest.fixture
def texts(store):
    for text in ("a", "ab", "abc", "abcd", "b", "ba"):
        store[text_key(text)] = value_of(number_of(text))
    store[b"\xff" * 8] = value_of(1)
    return store


def test_len_counts_keys(store):
    assert len(store) == 0 and store.count() == 0
    store.update((number, value_of(number)) for number in range(0, 10000, 2))
    store[4] = value_of(4, 1)
    assert len(store) == 5000
    with store.snapshot() as snapshot:
        del store[4]
        del store[5]
        assert (len(store), len(snapshot)) == (4999, 5000)
        assert (store.count(3, 11), snapshot.count(3, 11)) == (3, 4)
    assert store.count(9998) == 1 and store.count(upper=3) == 2 and store.count(7, 7) == 0
    assert store.stats()["view_count"] == 0


def test_a_store_is_true_empty_or_not(path):
    """As it was before it had a length: programs ask so whether they have a store."""
    store = engine_race.open(path, **SMALL)
    assert store and store.snapshot()
    store.close()
    assert store
    with pytest.raises(engine_race.ClosedError):
        len(store)


def test_slices_are_scans(texts):
    store, everything = texts, list(texts.items())
    assert list(store[:]) == everything
    low, high = number_of("ab"), number_of("b")
    between = [(key, value) for key, value in everything if low <= key < high]
    assert len(between) == 3
    for lower, upper in ((low, high), (b"ab", b"b"), (bytearray(b"ab"), memoryview(b"b")),
                         (text_key("ab"), high)):
        assert list(store[lower:upper]) == between
        assert list(store.scan(lower, upper)) == between
        assert list(store.keys(lower, upper)) == [key for key, _ in between]
        assert store.count(lower, upper) == 3
    assert list(store[high:low]) == []
    with store.snapshot() as snapshot:
        del store[text_key("abc")]
        assert list(snapshot[b"ab":b"b"]) == between
        assert len(list(store[b"ab":b"b"])) == 2
    with pytest.raises(ValueError, match="step"):
        store[1:5:2]
    for bad, error in ((slice(-1, 5), ValueError), (slice(0, 2**64), ValueError),
                       (slice(b"nine byte"), ValueError), (slice("a", "b"), TypeError)):
        with pytest.raises(error):
            store[bad]
    for refused in (lambda: store.put(slice(1), bytes(4096)), lambda: store.delete(slice(1))):
        with pytest.raises(TypeError):
            refused()


def test_a_bound_of_fewer_bytes_compares_as_bytes_do(texts):
    """For any two byte strings, whether keys are below a bound is what Python says of the bytes."""
    keys = [key.to_bytes(8, "big") for key in texts]
    for bound in (b"", b"a", b"ab", b"ab\0", b"abc", b"abcdefgh", b"b", b"\xff", b"\xff" * 8):
        assert [key.to_bytes(8, "big") for key in texts.keys(bound)] == [
            key for key in keys if key >= bound]
        assert [key.to_bytes(8, "big") for key in texts.keys(upper=bound)] == [
            key for key in keys if key < bound]


@pytest.mark.parametrize("prefix", [b"", b"a", b"ab", b"abcd", b"b", b"c", b"\xff", b"\xff" * 8,
                                    text_key("abc"), bytearray(b"ab"), memoryview(b"b")])
def test_prefixes(texts, prefix):
    expected = [key for key in texts if key.to_bytes(8, "big").startswith(bytes(prefix))]
    assert list(texts.keys(prefix=prefix)) == expected
    assert list(texts.keys(prefix=prefix, reverse=True)) == expected[::-1]
    assert [key for key, _ in texts.scan(prefix=prefix)] == expected
    assert list(texts.items(prefix=prefix)) == list(texts.scan(prefix=prefix))
    assert list(texts.values(prefix=prefix)) == [texts[key] for key in expected]
    assert texts.count(prefix=prefix) == len(expected)
    with texts.snapshot() as snapshot:
        assert list(snapshot.keys(prefix=prefix)) == expected


def test_prefixes_that_are_none(texts):
    for call, error in ((lambda: texts.scan(prefix="ab"), TypeError),
                        (lambda: texts.scan(prefix=5), TypeError),
                        (lambda: texts.keys(prefix=b"nine byte"), ValueError),
                        (lambda: texts.count(1, prefix=b"a"), ValueError),
                        (lambda: texts.values(upper=1, prefix=b"a"), ValueError)):
        with pytest.raises(error):
            call()


def test_reversed(texts):
    assert list(reversed(texts)) == list(texts)[::-1]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 600])
def test_update_writes_what_it_is_given(store, path, count):
    given = {number: value_of(number, 3) for number in range(count)}
    store[7] = value_of(7, 9)
    store.update(given)
    assert dict(store.items()) == {7: value_of(7, 9), **given}
    with engine_race.open(str(path) + "-2", **SMALL) as other:
        other.update(store)
        assert dict(other.items()) == dict(store.items())
        other.update(iter([(1, value_of(1, 1)), (1, bytearray(value_of(1, 2)))]))
        assert other[1] == value_of(1, 2)
        other.update([])


def test_an_update_copies_each_value_at_once(store):
    """So a generator may use one buffer for all of its values."""
    buffer = bytearray(4096)

    def pairs():
        for number in range(300):
            buffer[:] = value_of(number)
            yield number, buffer

    store.update(pairs())
    assert all(store[number] == value_of(number) for number in range(300))


def test_an_update_that_ends_early_says_how_many_it_wrote(store):
    def pairs():
        for number in range(600):
            yield number, value_of(number)
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError) as raised:
        store.update(pairs())
    assert raised.value.done_count == 512 and len(store) == 512
    with pytest.raises(ValueError) as raised:
        store.update([(1000, value_of(1)), (-1, value_of(1))])
    assert raised.value.done_count == 0 and 1000 not in store
    with pytest.raises(ValueError):
        store.update({1000: b"short"})
    with pytest.raises(TypeError):
        store.update(5)
    with engine_race.open(store.path + "-2", key_range="0-299", **SMALL) as narrow:
        with pytest.raises(engine_race.InvalidArgumentError) as raised:
            narrow.update((number, value_of(number)) for number in range(600))
        assert raised.value.done_count == 300 == len(narrow)


def test_an_update_of_a_batch_is_there_whole_or_not_at_all(store):
    with pytest.raises(RuntimeError), store.batch() as batch:
        batch.update({1: value_of(1), 2: value_of(2)})
        raise RuntimeError
    assert len(store) == 0
    with store.batch() as batch:
        batch.update([(1, value_of(1)), (2, value_of(2))])
        assert len(batch) == 2
    assert dict(store.items()) == {1: value_of(1), 2: value_of(2)}


def test_pop(store):
    store[1] = value_of(1)
    assert store.pop(1) == value_of(1)
    assert 1 not in store
    with pytest.raises(engine_race.MissingKeyError) as raised:
        store.pop(1)
    assert raised.value.key == 1
    assert store.pop(1, None) is None and store.pop(b"\0" * 8, "none") == "none"


def test_setdefault(store):
    given = bytearray(value_of(1))
    assert store.setdefault(1, given) == value_of(1)
    given[:] = value_of(2)
    assert store[1] == value_of(1)
    assert store.setdefault(1, given) == value_of(1) == store[1]
    with pytest.raises(ValueError):
        store.setdefault(2, b"short")
    assert 2 not in store


def test_keys_of_bytes_in_calls_of_many(store):
    numpy = pytest.importorskip("numpy")
    keys = [b"8 bytes!", b"12345678", b"zero end"[:7] + b"\0"]
    numbers = [int.from_bytes(key, "big") for key in keys]
    rows = numpy.random.default_rng(1).integers(0, 256, (3, 4096), numpy.uint8)
    store.write_many(keys, rows)
    assert list(store) == sorted(numbers)
    mixed = [keys[0], numbers[1], bytearray(keys[2])]
    arrays = [numpy.array(keys, "V8"), numpy.array(keys, "S8"), numpy.array(keys, object)]
    for ids in (keys, tuple(keys), mixed, [memoryview(key) for key in keys], *arrays):
        assert (store.read_many(ids) == rows).all()
        assert (store.read_many(ids[::-1]) == rows[::-1]).all()
    got, missing = store.read_many([keys[1], b"not here"], missing="mask")
    assert list(missing) == [False, True] and (got[0] == rows[1]).all() and not got[1].any()
    with store.batch() as batch:
        batch.put_many(keys[::-1], rows)
    assert (store.read_many(keys) == rows[::-1]).all()
    for ids, error in (([b"short"], ValueError), ([b"8 bytes!", b"nine byte"], ValueError),
                       (["8 bytes!"], TypeError), (b"8 bytes!", TypeError),
                       (numpy.array([b"short"]), ValueError), (numpy.array([b"x" * 9]), ValueError),
                       (numpy.array(["8 bytes!"]), TypeError)):
        with pytest.raises(error):
            store.read_many(ids)


def test_what_they_say_of_themselves(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    store = engine_race.open("store", **SMALL)
    monkeypatch.chdir("/")
    assert store.path == str(path)
    snapshot, walk, batch = store.snapshot(), store.iterator(), store.batch()
    batch[1] = value_of(1)
    assert repr(store) == f"<engine_race.Store {str(path)!r}>"
    assert repr(snapshot) == f"<engine_race.Snapshot of {str(path)!r}>"
    assert repr(walk) == f"<engine_race.Iterator of {str(path)!r}>"
    assert repr(batch) == "<engine_race.WriteBatch of 1 entry>"
    batch.delete(1)
    assert repr(batch) == "<engine_race.WriteBatch of 2 entries>"
    store.close()
    assert repr(store) == f"<engine_race.Store {str(path)!r}, closed>"
    assert repr(walk) == f"<engine_race.Iterator of {str(path)!r}, closed>"
    assert engine_race.__version__ == engine_race.version()
    with pytest.raises(AttributeError):
        store.path = "other"


def test_a_store_is_pickled_as_its_path_and_options(path):
    store = engine_race.open(path, **SMALL, sync_mode="group")
    store[1] = value_of(1)
    pickled = pickle.dumps(store)
    # One process at a time, and one opener in it.
    with pytest.raises(engine_race.StoreIOError, match="open elsewhere"):
        pickle.loads(pickled)
    store.close()
    assert pickle.dumps(store) == pickled
    program = ("import pickle, sys\n"
               "store = pickle.loads(sys.stdin.buffer.read())\n"
               "print(store.path, store[1][:16].hex(), store.stats()['memory_budget_bytes'])\n")
    told = subprocess.run([sys.executable, "-c", program], check=True, input=pickled, timeout=60,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, cwd="/",
                          capture_output=True).stdout.decode().split()
    assert told == [str(path), value_of(1)[:16].hex(), str(64 << 20)]
    with pickle.loads(pickled) as again:
        assert again[1] == value_of(1)
        pickled_again = pickle.dumps(again)
    with pickle.loads(pickled_again) as again:
        assert again[1] == value_of(1)


def test_a_pickled_store_is_never_made_anew(path):
    engine_race.open(path, **SMALL).close()
    pickled = pickle.dumps(engine_race.open(path, **SMALL))
    os.rename(path, str(path) + "-away")
    with pytest.raises(engine_race.MissingStoreError):
        pickle.loads(pickled)
    assert not path.exists()
