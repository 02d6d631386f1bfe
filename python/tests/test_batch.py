"""Batches: all of their records or none."""
from array import array

import pytest

import engine_race


def value_of(byte):
    return bytes([byte]) * 4096


def test_is_written_when_its_block_ends(store):
    store[3] = value_of(1)
    with store.batch() as batch:
        batch[1] = value_of(2)
        batch.put(b"\0" * 7 + b"\2", value_of(3))
        batch[1] = value_of(4)
        del batch[3]
        assert len(batch) == 4
        assert store.get(1) is None
    assert store[1] == value_of(4)
    assert store[2] == value_of(3)
    assert 3 not in store
    assert len(batch) == 0


def test_is_dropped_when_its_block_raises(store):
    with pytest.raises(RuntimeError):
        with store.batch() as batch:
            batch[1] = value_of(2)
            raise RuntimeError
    assert store.get(1) is None
    assert len(batch) == 0


def test_rows(store):
    rows = b"".join(value_of(i % 250) for i in range(300))
    with store.batch() as batch:
        batch.put_many(array("Q", range(300)), rows)
    assert store[299] == value_of(49)
    assert store.stats()["record_count"] == 300


def test_rows_are_put_by_one_call(store, monkeypatch):
    """However many there are. A call for each row took four times as long."""
    calls = []
    library = engine_race._batch.lib

    class Counted:
        def __getattr__(self, name):
            calls.append(name)
            return getattr(library, name)

    monkeypatch.setattr(engine_race._batch, "lib", Counted())
    batch = store.batch()
    calls.clear()
    batch.put_many(array("Q", range(1000)), bytes(1000 * 4096))
    assert calls == ["engine_race_batch_write_many"]
    assert len(batch) == 1000


def test_rows_that_cannot_be_put_change_nothing(store):
    batch = store.batch()
    batch[1] = value_of(1)
    for ids, rows in (([1, 2], value_of(1)), ([-1], value_of(1)), ([1], "text")):
        with pytest.raises((ValueError, TypeError)):
            batch.put_many(ids, rows)
        assert len(batch) == 1
    batch.put_many([], b"")
    assert len(batch) == 1


def test_can_be_written_more_than_once(store):
    batch = store.batch()
    batch[5] = value_of(1)
    batch.write()
    batch[6] = value_of(2)
    batch.write()
    assert store[5] == value_of(1) and store[6] == value_of(2)
    batch.clear()
    batch.write()


def test_refusals(store):
    batch = store.batch()
    with pytest.raises(ValueError):
        batch[1] = b"short"
    with pytest.raises((OverflowError, ValueError)):
        batch.delete(-1)
    assert len(batch) == 0
    batch[1] = value_of(1)
    store.close()
    with pytest.raises(engine_race.ClosedError):
        batch.write()
