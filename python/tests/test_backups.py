"""Checkpoints of open stores, backups and what is restored from them."""
import pytest

import engine_race
from conftest import value_of


def contents(path):
    with engine_race.open(path, create_if_missing=False) as store:
        return dict(store.items())


def test_a_checkpoint_is_a_store_of_its_own(store, tmp_path):
    store[1] = value_of(1)
    assert store.checkpoint(tmp_path / "then") is None
    store[2] = value_of(2)
    assert contents(tmp_path / "then") == {1: value_of(1)}
    with pytest.raises(engine_race.InvalidArgumentError):
        store.checkpoint(tmp_path / "then")


def test_backups_since_one_another_are_restored(store, tmp_path):
    store[1] = value_of(1)
    store[2] = value_of(2)
    full = store.backup(tmp_path / "full")
    assert full[:3] == (2, 2, 1)
    store[3] = value_of(3)
    del store[1]
    later = store.backup(tmp_path / "later", since=tmp_path / "full")
    assert (later.record_count, later.value_count, later.chain_length) == (2, 1, 2)
    assert engine_race.verify_backup(tmp_path / "later") == later
    assert engine_race.restore(tmp_path / "later", tmp_path / "restored") == later
    assert contents(tmp_path / "restored") == {2: value_of(2), 3: value_of(3)}


def test_what_is_no_backup_is_refused(store, tmp_path):
    with pytest.raises(engine_race.EngineRaceError):
        engine_race.restore(tmp_path / "nothing", tmp_path / "restored")
    with pytest.raises(engine_race.InvalidArgumentError):
        store.backup(tmp_path / "later", since=tmp_path / "nothing")
    store[1] = value_of(1)
    store.backup(tmp_path / "full")
    data = tmp_path / "full" / "value_backup"
    data.write_bytes(data.read_bytes()[:-1] + b"?")
    with pytest.raises(engine_race.CorruptionError):
        engine_race.verify_backup(tmp_path / "full")
