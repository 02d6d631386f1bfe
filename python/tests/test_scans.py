"""Scans, blocks and iterators: their state, their order, their bounds, and what they refuse."""
import importlib.util
import sys
import threading
from array import array

import pytest

import engine_race
from conftest import SMALL, value_of

COUNT = 300


@pytest.fixture
def filled(store):
    for number in range(COUNT):
        store[number] = value_of(number)
    return store


def keys(walk):
    return [key for key, _ in walk]


def test_long_scans_both_ways(filled):
    everything = [(number, value_of(number)) for number in range(COUNT)]
    assert list(filled.scan()) == everything
    assert list(filled.scan(reverse=True)) == everything[::-1]
    assert list(filled) == list(range(COUNT))
    # Bounds around the numbers of records that a scan takes at once.
    for count in (1, 3, 4, 5, 11, 12, 13, 28, 64, 65, 124, 188, 189):
        assert keys(filled.scan(100, 100 + count)) == list(range(100, 100 + count))
        back = list(range(100 + count - 1, 99, -1))
        assert keys(filled.scan(100, 100 + count, reverse=True)) == back


def test_they_show_the_state_at_the_call(filled):
    numpy = pytest.importorskip("numpy")
    with filled.snapshot() as snapshot:
        walks = [filled.scan(), filled.scan(reverse=True), snapshot.scan(), iter(snapshot),
                 iter(filled), filled.blocks(7), filled.blocks(7, snapshot=snapshot)]
        del filled[0]
        filled[5] = value_of(5, 2)
        filled[COUNT] = value_of(COUNT)
        forwards, back, at_snapshot, its_keys, all_keys, blocks, its_blocks = map(list, walks)
    old = [(number, value_of(number)) for number in range(COUNT)]
    assert forwards == at_snapshot == old and back == old[::-1]
    assert its_keys == all_keys == list(range(COUNT))
    for found in (blocks, its_blocks):
        rows = numpy.concatenate([rows for _, rows in found])
        assert rows.tobytes() == b"".join(value for _, value in old)


def test_keys_items_and_values(filled):
    everything = [(number, value_of(number)) for number in range(COUNT)]
    with filled.snapshot() as snapshot:
        for reader in (filled, snapshot):
            for bounds in ((None, None), (10, None), (None, 20), (50, 250), (7, 7)):
                lower, upper = bounds
                wanted = everything[lower or 0:COUNT if upper is None else upper]
                for reverse in (False, True):
                    inside = wanted[::-1] if reverse else wanted
                    for call, found in ((reader.items, inside),
                                        (reader.keys, [key for key, _ in inside]),
                                        (reader.values, [value for _, value in inside])):
                        assert list(call(*bounds, reverse=reverse)) == found
    assert dict(filled) == dict(filled.items()) == dict(everything)
    # Nothing is read before it is asked for, and all of them show the state at the call.
    walks = [filled.keys(), filled.items(), filled.values(), filled.keys(reverse=True)]
    for number in range(0, COUNT, 2):
        del filled[number]
    assert [len(list(walk)) for walk in walks] == [COUNT] * 4
    assert list(filled.keys()) == list(range(1, COUNT, 2))
    with filled.values() as found:
        assert next(found) == value_of(1)
    assert list(found) == [] and filled.stats()["view_count"] == 0


def test_keys_read_no_values(filled):
    before = filled.stats()
    assert list(filled.keys(reverse=True)) == list(range(COUNT))[::-1]
    assert list(filled.keys()) == list(range(COUNT))
    after = filled.stats()
    assert after["frame_hit_count"] == before["frame_hit_count"]
    assert after["frame_miss_count"] == before["frame_miss_count"]


def test_scans_that_nobody_ends(filled):
    scans = [filled.scan(), filled.scan(reverse=True), iter(filled)]
    if importlib.util.find_spec("numpy"):
        scans.append(filled.blocks(4))
    for found in scans:
        next(found)
    fresh = filled.scan()
    assert filled.stats()["view_count"] > 0
    for found in [*scans, fresh]:
        found.close()
        assert list(found) == []
        found.close()
    with filled.scan() as found:
        assert next(found)[0] == 0
    assert filled.stats()["view_count"] == 0


def test_a_closed_store_ends_a_scan(path):
    store = engine_race.open(path, **SMALL)
    for number in range(100):
        store[number] = value_of(number)
    walks = [store.scan(), store.scan(reverse=True), iter(store)]
    for walk in walks:
        for _ in range(5):
            next(walk)
    store.close()
    for walk in walks:
        with pytest.raises(engine_race.ClosedError):
            next(walk)
    for call in (store.scan, lambda: iter(store), store.blocks):
        with pytest.raises(engine_race.ClosedError):
            call()


def test_blocks_that_cannot_be(filled):
    for rows, error in ((0, ValueError), (-1, ValueError), (2**64, ValueError), (1.5, TypeError),
                        (None, TypeError), (True, TypeError)):
        with pytest.raises(error):
            filled.blocks(rows)


def test_iterator_options(filled, tmp_path):
    for options, error in (({"prefetch_records": 65}, ValueError),
                           ({"prefetch_records": -1}, ValueError),
                           ({"refresh_every_steps": 2**64}, ValueError),
                           ({"prefetch_records": "many"}, TypeError)):
        with pytest.raises(error):
            filled.iterator(**options)
    with engine_race.open(tmp_path / "other", **SMALL) as other, other.snapshot() as snapshot:
        for call in (lambda: filled.iterator(snapshot=snapshot),
                     lambda: filled.blocks(1, snapshot=snapshot)):
            with pytest.raises(ValueError, match="another store"):
                call()


def test_take(filled):
    values = bytearray(4096 * 7)
    numbers = array("Q", [0] * 7)
    with filled.iterator(lower=290) as walk:
        walk.seek_to_first()
        assert walk.take(numbers, values) == 7
        assert list(numbers) == list(range(290, 297))
        assert bytes(values[4096 * 6:]) == value_of(296)
        assert walk.key == 297
        assert walk.take(numbers) == 3
        assert list(numbers) == [297, 298, 299, 293, 294, 295, 296]
        assert walk.take(numbers, values) == 0 and not walk.valid


def test_arrays_that_take_refuses(filled):
    numpy = pytest.importorskip("numpy")
    foreign = numpy.dtype(numpy.uint64).newbyteorder()
    read_only = numpy.empty(4, numpy.uint64)
    read_only.flags.writeable = False
    both = numpy.zeros(4097, numpy.uint64)
    with filled.iterator() as walk:
        walk.seek_to_first()
        for keys_, error in ((numpy.empty(4, foreign), TypeError), (read_only, ValueError),
                             (numpy.empty(4, numpy.int64), TypeError),
                             (numpy.empty(4, numpy.float64), TypeError),
                             (numpy.empty(8, numpy.uint32), TypeError),
                             (numpy.empty(4, object), TypeError),
                             (numpy.empty((2, 2), numpy.uint64), ValueError),
                             (numpy.empty(8, numpy.uint64)[::2], ValueError),
                             (bytearray(32), TypeError), ([0] * 4, TypeError)):
            with pytest.raises(error):
                walk.take(keys_)
        for values, error in ((numpy.empty((4, 512), object), TypeError),
                              (numpy.empty((5, 4096), numpy.uint8), ValueError),
                              (bytes(4 * 4096), ValueError), ([0] * 4, TypeError)):
            with pytest.raises(error):
                walk.take(numpy.empty(4, numpy.uint64), values)
        with pytest.raises(ValueError, match="same memory"):
            walk.take(both[:4], both[1:2049].view(numpy.uint8))
        assert walk.key == 0


def test_memory_stays_while_it_is_filled(filled):
    """Whoever would resize a buffer during a call is refused by Python."""
    numbers, refused = array("Q", [0] * 4), []
    with filled.iterator() as walk:
        walk.seek_to_first()
        call = walk._call

        def watched(function, *arguments):
            try:
                numbers.append(1)
            except BufferError:
                refused.append(1)
            return call(function, *arguments)

        walk._call = watched
        assert walk.take(numbers) == 4
    assert refused == [1]
    numbers.append(1)


def test_an_iterator_shared_by_threads_loses_nothing(filled):
    taken = []
    with filled.iterator() as walk:
        walk.seek_to_first()

        def take():
            numbers = array("Q", [0] * 3)
            while (count := walk.take(numbers)) > 0:
                taken.extend(numbers[:count])

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(taken) == list(range(COUNT))


@pytest.mark.parametrize("walk_of", [lambda store: store.iterator(), lambda store: store.scan(),
                                     lambda store: store.scan(reverse=True)])
def test_threads_that_share_a_walk_share_its_records(filled, walk_of):
    taken, failures = [], []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with walk_of(filled) as walk:
            if isinstance(walk, engine_race.Iterator):
                walk.seek_to_first()

            def take():
                try:
                    for key, value in walk:
                        assert value == value_of(key)
                        taken.append(key)
                except Exception as error:
                    failures.append(error)

            threads = [threading.Thread(target=take) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == [] and sorted(taken) == list(range(COUNT))
