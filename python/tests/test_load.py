"""Loads from files and from stores of other kinds, and how they go on after an end."""
import json
import os
import shutil
import subprocess
import sys

import pytest

import engine_race
from conftest import SMALL
from engine_race import _load

numpy = pytest.importorskip("numpy")

COUNT = 1000
PIECE = 64


class Stop(Exception):
    """Ends a load."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(_load, "_PIECE_RECORDS", PIECE)
    monkeypatch.setattr(_load, "_NOTE_RECORDS", 3 * PIECE)


@pytest.fixture
def rows():
    return numpy.random.default_rng(1).random((COUNT, 1024), dtype=numpy.float32)


@pytest.fixture
def saved(tmp_path, rows):
    numpy.save(tmp_path / "rows.npy", rows)
    return tmp_path / "rows.npy"


def has(store, keys, rows):
    assert store.count() == len(rows)
    return (store.read_many(keys, dtype=numpy.float32) == rows).all()


def stop_at(done):
    def progress(now, _most):
        if now >= done:
            raise Stop
    return progress


def expect_resumed(store, load, keys, rows):
    """Any load from a source of COUNT records: ended in its fourth piece, ended again, finished."""
    with pytest.raises(Stop):
        load(progress=stop_at(4 * PIECE))
    assert store.count() == 4 * PIECE
    written, write_many = [], store.write_many

    def watched(keys, rows):
        written.append(len(keys))
        write_many(keys, rows)

    store.write_many = watched
    with pytest.raises(Stop):
        load(progress=stop_at(6 * PIECE))
    # A piece of Parquet ends where its batch does, so the first may be shorter.
    before = 4 * PIECE + sum(written)
    assert 6 * PIECE <= before < 7 * PIECE
    told = []
    report = load(progress=lambda done, most: told.append((done, most)))
    assert (report.record_count, report.written_count) == (COUNT, COUNT - before)
    assert report.seconds > 0 and sum(written) == COUNT - 4 * PIECE
    assert before < told[0][0] <= before + PIECE and told[-1] == (COUNT, COUNT)
    assert has(store, keys, rows)
    # A load that has ended is not done again.
    assert load().written_count == 0 and sum(written) == COUNT - 4 * PIECE
    del store.write_many


def test_rows_of_npy(store, saved, rows):
    told = []
    report = engine_race.load_npy(store, saved, 5, progress=lambda *counts: told.append(counts))
    assert report[:2] == (COUNT, COUNT)
    assert has(store, range(5, COUNT + 5), rows)
    assert told == [(done, COUNT) for done in [*range(PIECE, COUNT, PIECE), COUNT]]


def test_keys_of_npy(store, saved, rows, tmp_path):
    keys = numpy.random.default_rng(2).permutation(COUNT) * 7
    numpy.save(tmp_path / "keys.npy", keys)
    for given in (keys, list(keys), tmp_path / "keys.npy", str(tmp_path / "keys.npy"),
                  [int(key).to_bytes(8, "big") for key in keys]):
        assert engine_race.load_npy(store, saved, given).written_count == COUNT
        assert has(store, keys, rows)
        with store.batch() as batch:
            for key in keys:
                del batch[key]


def test_a_load_of_npy_goes_on(store, saved, rows, tmp_path):
    expect_resumed(store, lambda **more: engine_race.load_npy(
        store, saved, 7, resume=tmp_path / "note", **more), range(7, COUNT + 7), rows)


def test_arrays_that_cannot_be_loaded(store, tmp_path):
    for array, error in ((numpy.zeros((3, 1023), numpy.float32), ValueError),
                         (numpy.float32(1), ValueError), (numpy.zeros((3, 1024), ">f4"), TypeError),
                         (numpy.asfortranarray(numpy.zeros((3, 1024), "f4")), ValueError),
                         (numpy.zeros((3, 512), object), ValueError)):
        numpy.save(tmp_path / "bad.npy", array)
        with pytest.raises(error):
            engine_race.load_npy(store, tmp_path / "bad.npy")
    numpy.save(tmp_path / "good.npy", numpy.zeros((3, 4096), numpy.uint8))
    for keys, error in (([1, 2], ValueError), (-1, ValueError), (2**64 - 2, ValueError),
                        (1.5, TypeError), ([1, 2, 3.5], TypeError)):
        with pytest.raises(error):
            engine_race.load_npy(store, tmp_path / "good.npy", keys)
    assert len(store) == 0
    with pytest.raises(FileNotFoundError):
        engine_race.load_npy(store, tmp_path / "missing.npy")
    engine_race.load_npy(store, tmp_path / "good.npy", 2**64 - 3)
    assert list(store) == list(range(2**64 - 3, 2**64))


def test_a_note_of_another_load_is_refused(store, saved, rows, tmp_path):
    note = tmp_path / "note"
    engine_race.load_npy(store, saved, resume=note)
    os.utime(saved, ns=(1, 1))
    with pytest.raises(ValueError, match="another load"):
        engine_race.load_npy(store, saved, resume=note)
    note.unlink()
    engine_race.load_npy(store, saved, resume=note)
    with pytest.raises(ValueError, match="another load"):
        engine_race.load_npy(store, saved, 1, resume=note)
    with engine_race.open(tmp_path / "other", **SMALL) as other:
        with pytest.raises(ValueError, match="another load"):
            engine_race.load_npy(other, saved, resume=note)
    for text in ("", "[]", "{}", '{"load": 1, "done": "x", "last": "", "key": 0}'):
        note.write_text(text)
        with pytest.raises(ValueError, match="no note"):
            engine_race.load_npy(store, saved, resume=note)


def test_a_note_of_a_store_that_lay_there_before_is_refused(path, saved, rows, tmp_path):
    note = tmp_path / "note"
    with engine_race.open(path, **SMALL) as store:
        engine_race.load_npy(store, saved, numpy.arange(COUNT), resume=note)
    shutil.rmtree(path)
    with engine_race.open(path, **SMALL) as store:
        with pytest.raises(ValueError, match=f"key {COUNT - 1}, which the store has not"):
            engine_race.load_npy(store, saved, numpy.arange(COUNT), resume=note)
        note.unlink()
        assert engine_race.load_npy(store, saved, resume=note).written_count == COUNT
        assert has(store, range(COUNT), rows)


def test_a_note_outlives_a_power_loss(store, saved, tmp_path, monkeypatch):
    note, steps = tmp_path / "note", []
    fsync, replace, sync = os.fsync, os.replace, store.sync
    monkeypatch.setattr(os, "fsync", lambda file: (
        steps.append(os.path.basename(os.readlink(f"/proc/self/fd/{file}"))), fsync(file)))
    monkeypatch.setattr(os, "replace", lambda *names: (steps.append("replace"), replace(*names)))
    monkeypatch.setattr(store, "sync", lambda: (steps.append("sync"), sync()))
    with pytest.raises(Stop):
        engine_race.load_npy(store, saved, resume=note, progress=stop_at(PIECE))
    assert steps == ["sync", "note.new", "replace", tmp_path.name]
    engine_race.load_npy(store, saved, resume=note)
    steps.clear()
    # What has nothing left to do notes nothing.
    assert engine_race.load_npy(store, saved, resume=note).written_count == 0
    assert steps == []


PROGRAM = """
import os, sys
import engine_race
from engine_race import _load

_load._PIECE_RECORDS, _load._NOTE_RECORDS = 64, 192
source, path, note = sys.argv[1:]
store = engine_race.open(path)
engine_race.load_npy(store, source, resume=note,
                     progress=lambda done, most: done < 512 or os._exit(9))
"""


def test_a_load_that_was_killed_goes_on_from_its_note(path, saved, rows, tmp_path):
    engine_race.open(path, **SMALL).close()
    note = tmp_path / "note"
    ended = subprocess.run([sys.executable, "-c", PROGRAM, str(saved), str(path), str(note)],
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, timeout=200)
    assert ended.returncode == 9
    # The last note before the eighth piece.
    assert json.loads(note.read_text())["done"] == 6 * PIECE
    with engine_race.open(path) as store:
        assert store.count() == 8 * PIECE
        assert engine_race.load_npy(store, saved, resume=note).written_count == COUNT - 6 * PIECE
        assert has(store, range(COUNT), rows)


def test_without_a_note_all_is_written_again(store, saved, rows):
    for _ in range(2):
        assert engine_race.load_npy(store, saved).written_count == COUNT
    assert has(store, range(COUNT), rows)


def pairs_of(rows):
    return [(b"%08d" % at, row.tobytes()) for at, row in enumerate(rows)]


def test_lmdb(store, rows, tmp_path):
    lmdb = pytest.importorskip("lmdb")
    source, pairs = tmp_path / "lmdb", pairs_of(rows)
    with lmdb.open(str(source), map_size=64 << 20, max_dbs=2) as env:
        named = env.open_db(b"named")
        with env.begin(write=True) as writing:
            for key, value in pairs:
                writing.put(key, value, db=named)
    keys = [key for key, _ in pairs]
    expect_resumed(store, lambda **more: engine_race.load_lmdb(
        store, source, b"named", resume=tmp_path / "note", **more), keys, rows)
    with pytest.raises(lmdb.Error):
        engine_race.load_lmdb(store, tmp_path / "missing")


def test_keys_and_values_of_lmdb_by_functions(store, rows, tmp_path):
    lmdb = pytest.importorskip("lmdb")
    source = tmp_path / "one-file"
    functions = dict(key=int, value=lambda value: bytes(value[4:]))
    with lmdb.open(str(source), subdir=False, map_size=16 << 20) as env:
        assert env.stat()["entries"] == 0
    assert engine_race.load_lmdb(store, source, **functions).record_count == 0
    with lmdb.open(str(source), subdir=False, map_size=16 << 20) as env:
        with env.begin(write=True) as writing:
            for at in range(70):
                writing.put(b"%d" % at, b"head" + rows[at].tobytes())
    with pytest.raises(ValueError, match="8 bytes"):
        engine_race.load_lmdb(store, source)
    with pytest.raises(ValueError, match="the value of b'0'"):
        engine_race.load_lmdb(store, source, key=int)
    assert len(store) == 0
    engine_race.load_lmdb(store, source, **functions)
    assert has(store, range(70), rows[:70])


def test_lmdb_with_several_values_of_a_key_is_refused(store, tmp_path):
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "lmdb"), map_size=16 << 20, max_dbs=2) as env:
        opened = env.open_db(b"named", dupsort=True)
        with env.begin(write=True) as writing:
            for value in (b"one", b"two"):
                writing.put(b"8 bytes!", value, db=opened)
    with pytest.raises(ValueError, match="several values of a key"):
        engine_race.load_lmdb(store, tmp_path / "lmdb", b"named", value=lambda value: bytes(4096))
    assert len(store) == 0


def test_rocksdb(store, rows, tmp_path):
    rocksdict = pytest.importorskip("rocksdict")
    source, pairs = str(tmp_path / "rocksdb"), pairs_of(rows)
    database = rocksdict.Rdict(source, rocksdict.Options(raw_mode=True))
    for key, value in pairs:
        database[key] = value
    database.close()
    keys = [key for key, _ in pairs]
    expect_resumed(store, lambda **more: engine_race.load_rocksdb(
        store, source, resume=tmp_path / "note", **more), keys, rows)


def columns_of_parquet(rows):
    """Each kind of column that values may lie in."""
    pyarrow = pytest.importorskip("pyarrow")
    flat = pyarrow.array(rows.reshape(-1))
    binaries = [row.tobytes() for row in rows]
    yield pyarrow.FixedSizeListArray.from_arrays(flat, 1024)
    yield pyarrow.array(list(rows), pyarrow.list_(pyarrow.float32()))
    yield pyarrow.array(binaries, pyarrow.binary(4096))
    yield pyarrow.array(binaries, pyarrow.binary())


def save_parquet(path, **columns):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=150)


def test_parquet(store, rows, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    source, rows = tmp_path / "rows.parquet", rows[:200]
    numbers = numpy.random.default_rng(2).permutation(200) * 3
    texts = [int(number).to_bytes(8, "big") for number in numbers]
    for values in columns_of_parquet(rows):
        save_parquet(source, key=numbers, text=pyarrow.array(texts), value=values)
        for given, keys in (("key", numbers), ("text", numbers), (1000, range(1000, 1200))):
            assert engine_race.load_parquet(store, source, given).record_count == 200
            assert has(store, keys, rows)
            for key in list(store.keys()):
                del store[key]


def test_a_load_of_parquet_goes_on(store, rows, tmp_path):
    """Its pieces and its groups of rows end at different records."""
    values = next(columns_of_parquet(rows))
    save_parquet(tmp_path / "rows.parquet", id=numpy.arange(COUNT), row=values)
    expect_resumed(store, lambda **more: engine_race.load_parquet(
        store, tmp_path / "rows.parquet", "id", "row", resume=tmp_path / "note", **more),
        range(COUNT), rows)


def test_parquet_that_cannot_be_loaded(store, rows, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    source, two = tmp_path / "bad.parquet", rows[:2]
    good = next(columns_of_parquet(two))
    lists = pyarrow.array([two[0][:1000], numpy.append(two[1], two[0][:24])],
                          pyarrow.list_(pyarrow.float32()))
    for key, value in (([1, None], good), ([1, -1], good),
                       ([1, 2], pyarrow.array([two[0].tobytes(), None])), ([1, 2], lists),
                       ([1, 2], pyarrow.array([b"x" * 4095, b"x" * 4097])),
                       ([1, 2], pyarrow.array(["text", "text"])), ([b"short", b"8 bytes!"], good)):
        save_parquet(source, key=pyarrow.array(key), value=value)
        with pytest.raises(ValueError):
            engine_race.load_parquet(store, source)
    assert len(store) == 0
