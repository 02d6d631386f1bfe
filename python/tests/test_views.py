"""Rows as arrays of other types and shapes, and rows at a snapshot."""
import pytest

import engine_race
from conftest import SMALL, value_of

numpy = pytest.importorskip("numpy")

COUNT = 300


@pytest.fixture
def filled(store):
    rows = numpy.random.default_rng(1).random((COUNT, 1024), dtype=numpy.float32)
    store.write_many(numpy.arange(COUNT), rows)
    return store, rows


def readers_of(store):
    """A store and a snapshot, which have the same calls."""
    return store, store.snapshot()


def base_of(array):
    while isinstance(array.base, numpy.ndarray):
        array = array.base
    return array


def test_read_many_gives_any_type_and_shape(filled):
    store, rows = filled
    ids = numpy.random.default_rng(2).permutation(COUNT)
    for reader in readers_of(store):
        got = reader.read_many(ids, dtype=numpy.float32)
        assert got.shape == (COUNT, 1024) and got.dtype == numpy.float32
        assert (got == rows[ids]).all()
        # It is the memory that was filled, not a copy of it.
        assert base_of(got).shape == (COUNT, 4096) and got.flags.writeable
        for shape in ((-1, 1024), [COUNT, 1024], (COUNT, -1), (-1, numpy.int64(1024)),
                      numpy.array([COUNT, 1024])):
            assert (reader.read_many(ids, dtype="float32", shape=shape) == rows[ids]).all()
        images = reader.read_many(ids, dtype="f4", shape=(-1, 32, 32))
        assert (images == rows[ids].reshape(-1, 32, 32)).all()
        assert reader.read_many(ids, shape=-1).shape == (COUNT * 4096,)
        assert reader.read_many(ids, shape=(-1, 64, 64)).dtype == numpy.uint8
        assert (reader.read_many(ids, dtype=">u2") == rows[ids].view(">u2")).all()
        assert (reader.read_many(ids, dtype="V4096") == rows[ids].view("V4096")).all()
        named = reader.read_many(ids, dtype=[("id", "u8"), ("rest", "V56")])
        assert named.shape == (COUNT, 64)
        assert reader.read_many([], dtype=numpy.float32, shape=(-1, 1024)).shape == (0, 1024)
        missing = reader.read_many([5, 1000], dtype=numpy.float32, missing="zero")
        assert (missing[0] == rows[5]).all() and not missing[1].any()


@pytest.mark.parametrize("how, error, words", [
    ({"dtype": object}, TypeError, "Python objects"),
    ({"dtype": [("what", "O"), ("rest", "V4088")]}, TypeError, "Python objects"),
    ({"dtype": "no such type"}, TypeError, "dtype is a type of numpy"),
    ({"dtype": 4}, TypeError, "dtype is a type of numpy"),
    ({"dtype": "V5"}, ValueError, "4096 bytes is no whole number of items"),
    ({"dtype": "V8192"}, ValueError, "4096 bytes is no whole number of items"),
    ({"dtype": "S"}, ValueError, "have 0 bytes"),
    ({"dtype": "(2,)f4"}, ValueError, "shape of its own"),
    ({"dtype": "f4", "shape": (-1, 1000)}, ValueError, "does not fit 3 values of 1024 float32"),
    ({"dtype": "f4", "shape": (2, 1024)}, ValueError, "does not fit 3 values"),
    ({"dtype": "f4", "shape": (3, 0)}, ValueError, "does not fit"),
    ({"dtype": "f4", "shape": (-1, 0)}, ValueError, "does not fit"),
    ({"dtype": "f4", "shape": ()}, ValueError, "does not fit"),
    ({"shape": (-1, 1000, 3)}, ValueError, "does not fit 3 values of 4096 uint8"),
    ({"shape": (-1, -1)}, ValueError, "more than one dimension"),
    ({"shape": (-2, 4096)}, ValueError, "from -1"),
    ({"shape": (2**64, 4096)}, ValueError, "from -1"),
    ({"shape": (3.0, 4096)}, TypeError, "each number of shape is an int"),
    ({"shape": (True, 4096)}, TypeError, "each number of shape is an int"),
    ({"shape": 3.0}, TypeError, "each number of shape is an int"),
    ({"shape": "34"}, TypeError, "each number of shape is an int")])
def test_types_and_shapes_that_do_not_fit(filled, how, error, words):
    store, _ = filled
    for reader in readers_of(store):
        with pytest.raises(error, match=words):
            reader.read_many([1, 2, 3], **how)
        # Of a block too.
        with pytest.raises(error):
            reader.blocks(3, **how)


def test_out_with_a_type_or_a_shape_of_its_own(filled):
    store, rows = filled
    out = numpy.zeros((3, 1024), numpy.float32)
    for how in ({"dtype": numpy.float32}, {"shape": (3, 1024)}, {"shape": (-1, 1024)},
                {"dtype": "f4", "shape": (3, -1)}):
        out[:] = 0
        assert store.read_many([1, 2, 3], out=out, **how) is out
        assert (out == rows[1:4]).all()
    plain = bytearray(3 * 4096)
    assert store.read_many([1, 2, 3], out=plain, dtype=numpy.uint8) is plain
    out[:] = 0
    for how, error, words in (({"dtype": numpy.float64}, ValueError, "out has the dtype float32"),
                              ({"dtype": ">f4"}, ValueError, "out has the dtype float32"),
                              ({"shape": (-1, 512)}, ValueError, "out has the shape"),
                              ({"shape": (3, 32, 32)}, ValueError, "out has the shape"),
                              ({"shape": (2, 1024)}, ValueError, "does not fit"),
                              ({"dtype": object}, TypeError, "Python objects")):
        with pytest.raises(error, match=words):
            store.read_many([1, 2, 3], out=out, **how)
    assert not out.any()


def test_blocks_of_any_type_and_shape(filled):
    store, rows = filled
    for reader in readers_of(store):
        found = list(reader.blocks(70, dtype=numpy.float32))
        assert [block.shape for _, block in found] == [(70, 1024)] * 4 + [(20, 1024)]
        assert (numpy.concatenate([block for _, block in found]) == rows).all()
        assert (numpy.concatenate([keys for keys, _ in found]) == numpy.arange(COUNT)).all()
        images = [block for _, block in reader.blocks(70, dtype="f4", shape=(-1, 32, 32))]
        assert images[-1].shape == (20, 32, 32)
        assert (numpy.concatenate(images) == rows.reshape(-1, 32, 32)).all()
        halves = [block for _, block in reader.blocks(70, 0, 3, shape=(-1, 2048))]
        assert halves[0].shape == (6, 2048)
        for how, error in (({"dtype": object}, TypeError), ({"dtype": "V5"}, ValueError),
                           ({"shape": (70, 4096)}, ValueError), ({"shape": 4096}, ValueError),
                           ({"shape": ()}, ValueError), ({"shape": (-1, 8192)}, ValueError)):
            with pytest.raises(error):
                reader.blocks(70, **how)


def test_a_snapshot_gathers_one_state(filled):
    store, rows = filled
    ids = numpy.random.default_rng(3).permutation(COUNT + 1)
    with store.snapshot() as snapshot:
        store.write_many(numpy.arange(COUNT), rows[::-1].copy())
        store.delete(7)
        store.put(COUNT, value_of(COUNT))
        got = snapshot.read_many(ids, missing="zero", dtype=numpy.float32)
        old = numpy.concatenate([rows, numpy.zeros((1, 1024), numpy.float32)])
        assert (got == old[ids]).all()
        with pytest.raises(KeyError) as raised:
            snapshot.read_many(ids)
        assert raised.value.key == COUNT
        out = numpy.full((2, 1024), 5, numpy.float32)
        snapshot.read_many([COUNT, 7], out=out, missing="keep")
        assert (out[0] == 5).all() and (out[1] == rows[7]).all()
        ((keys, block),) = snapshot.blocks(10, 5, 8, dtype=numpy.float32)
        assert list(keys) == [5, 6, 7] and (block == rows[5:8]).all()
    assert (store.read_many([0], dtype=numpy.float32) == rows[-1]).all()
    for call in (lambda: snapshot.read_many([1]), snapshot.blocks):
        with pytest.raises(engine_race.ClosedError):
            call()


def test_a_snapshot_of_a_closed_store_gathers_nothing(path):
    store = engine_race.open(path, **SMALL)
    store[1] = value_of(1)
    snapshot = store.snapshot()
    store.close()
    with pytest.raises(engine_race.ClosedError):
        snapshot.read_many([1])
