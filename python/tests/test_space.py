"""Space of overwritten records, given back and counted."""
import threading

import pytest

import engine_race
from conftest import SMALL, value_of

COUNT = 600


def overwrite(store, versions):
    for version in range(versions):
        for key in range(COUNT):
            store[key] = value_of(key, version)


def test_compact_gives_space_back_beside_other_calls(path):
    with engine_race.open(path, reclaim="off", **SMALL) as store:
        overwrite(store, 5)
        assert store.stats()["reclaim_freed_bytes"] == 0
        with store.snapshot() as snapshot:
            overwrite(store, 1)
            compacting = threading.Thread(target=store.compact)
            compacting.start()
            for key in range(COUNT):
                assert store[key] == value_of(key, 0)
                assert snapshot[key] == value_of(key, 4)
            compacting.join()
            assert store.compact() is None
        store.compact()
        stats = store.stats()
        assert stats["reclaim_freed_bytes"] > 3 * COUNT * 4096
        assert stats["reclaim_read_bytes"] > 0
        assert store[7] == value_of(7, 0)
    with pytest.raises(engine_race.ClosedError):
        store.compact()


def test_space_is_counted_by_bucket(path):
    with engine_race.open(path, reclaim="off", key_range="0-599", **SMALL) as store:
        overwrite(store, 3)
        store.compact()
        buckets = store.bucket_space()
        assert len(buckets) == SMALL["bucket_count"]
        assert all(bucket.live_bytes > 0 for bucket in buckets)
        assert sum(bucket.live_bytes for bucket in buckets) == COUNT * 4096
        stats = store.stats()
        assert stats["live_bytes"] == COUNT * 4096
        assert stats["dead_bytes"] == sum(bucket.dead_bytes for bucket in buckets)
        assert stats["write_amplification_percent"] > 0
    with pytest.raises(engine_race.ClosedError):
        store.bucket_space()


def test_options_of_reclaim(path):
    defaults = engine_race.options()
    assert defaults["reclaim"] == "background"
    assert defaults["reclaim_dead_percent"] == "15"
    assert defaults["reclaim_bytes_per_second"] == "0"
    for wrong in ({"reclaim": "sometimes"}, {"reclaim_dead_percent": 0},
                  {"reclaim_dead_percent": 100}, {"reclaim_bytes_per_second": -1}):
        with pytest.raises(engine_race.InvalidArgumentError):
            engine_race.open(path, **wrong)
    engine_race.open(path, reclaim="background", reclaim_dead_percent=1,
                     reclaim_bytes_per_second="10m", **SMALL).close()
