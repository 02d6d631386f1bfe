"""Stores whose values have other sizes than 4096 bytes."""
import asyncio
import pickle

import pytest

import engine_race
from conftest import SMALL

SIZES = [8, 100, 512, 1536, 3072, 4096, 16384, 1 << 20]


def value_of(number, size):
    return ((number * 251 + 7).to_bytes(7, "big") * (size // 7 + 1))[:size]


def count_of(size):
    return 40 if size == 1 << 20 else 300


@pytest.fixture(params=SIZES)
def size(request):
    return request.param


@pytest.fixture
def sized(path, size):
    with engine_race.open(path, value_bytes=size, **SMALL) as store:
        yield store


def test_records_come_back(sized, path, size):
    count = count_of(size)
    assert sized.value_bytes == size
    for number in range(count):
        sized[number] = value_of(number, size)
    for _ in range(2):
        assert all(sized[number] == value_of(number, size) for number in range(count))
        assert sized.get(count) is None
        buffer = bytearray(size)
        sized.read_into(3, buffer)
        assert buffer == value_of(3, size)
        assert asyncio.run(sized.aget(5)) == value_of(5, size)
        sized.close()
        # The size of an existing store need not be told.
        sized = engine_race.open(path, **SMALL)
        assert sized.value_bytes == size
    with sized.snapshot() as snapshot:
        assert snapshot.value_bytes == size and snapshot[9] == value_of(9, size)
    sized.close()
    assert sized.value_bytes == size


def test_walks(sized, size):
    count = count_of(size)
    sized.update({number: value_of(number, size) for number in range(count)})
    wanted = [(number, value_of(number, size)) for number in range(count)]
    assert list(sized.scan()) == wanted
    assert list(sized.scan(reverse=True)) == wanted[::-1]
    walk = sized.iterator()
    walk.seek(7)
    assert walk.item() == wanted[7]
    keys, rows = memoryview(bytearray(8 * 5)).cast("Q"), bytearray(size * 5)
    assert walk.take(keys, rows) == 5
    assert list(keys) == [7, 8, 9, 10, 11]
    assert rows == b"".join(value for _, value in wanted[7:12])
    assert list(walk)[0] == wanted[12]


def test_batches(sized, size):
    batch = sized.batch()
    batch.put_many([1, 2], value_of(1, size) + value_of(2, size))
    batch[3] = value_of(3, size)
    with pytest.raises(ValueError, match=f"{size + 1} bytes were given, and {size} are needed"):
        batch[4] = bytes(size + 1)
    batch.write()
    assert list(sized.scan()) == [(number, value_of(number, size)) for number in (1, 2, 3)]


def test_buffers_of_other_sizes(sized, size):
    for other in (size - 1, size + 1, 0):
        with pytest.raises(ValueError, match=f"{other} bytes were given, and {size} are needed"):
            sized[1] = bytes(other)
        with pytest.raises(ValueError, match=f"and {size} are needed"):
            sized.read_into(1, bytearray(other))
        with pytest.raises(ValueError, match=f"and {2 * size} are needed"):
            sized.write_many([1, 2], bytes(2 * other))
        with pytest.raises(ValueError, match=f"and {size} are needed"):
            sized.setdefault(1, bytes(other))
    assert len(sized) == 0


def test_a_store_keeps_its_size(path):
    engine_race.open(path, value_bytes=512, **SMALL).close()
    for other in (4096, "1k", 511):
        with pytest.raises(engine_race.InvalidArgumentError, match="of the store is 512"):
            engine_race.open(path, value_bytes=other)
    with pytest.raises(engine_race.InvalidArgumentError, match="of the store is 512"):
        engine_race.open(path, dtype="float32", shape=129)
    for same in (512, "512", None, 0):
        engine_race.open(path, value_bytes=same).close()
    for size in (7, (1 << 20) + 1):
        with pytest.raises(engine_race.InvalidArgumentError, match="value_bytes"):
            engine_race.open(path.parent / "another", value_bytes=size)
    # Calls for closed stores take any.
    assert engine_race.verify(path).bad_count == 0


def test_without_a_size_a_new_store_has_the_default(path):
    with engine_race.open(path, **SMALL) as store:
        assert store.value_bytes == engine_race.VALUE_BYTES == 4096


class TestArrays:
    """What `dtype` and `shape` of open say."""

    numpy = pytest.importorskip("numpy")

    @pytest.fixture
    def vectors(self, path):
        with engine_race.open(path, dtype="float32", shape=768, **SMALL) as store:
            yield store

    def rows(self, count):
        return self.numpy.random.default_rng(1).random((count, 768), dtype=self.numpy.float32)

    def test_the_size_follows(self, path):
        numpy = self.numpy
        for at, (dtype, shape, size) in enumerate((
                ("float32", 768, 3072), (numpy.float16, (16, 24), 768), (None, 100, 100),
                (None, numpy.int64(8), 8), ([("a", "u4"), ("b", "u8")], (), 12))):
            with engine_race.open(f"{path}{at}", dtype=dtype, shape=shape, **SMALL) as store:
                assert store.value_bytes == size

    def test_read_many_gives_the_form(self, vectors):
        numpy, rows = self.numpy, self.rows(100)
        vectors.write_many(range(100), rows)
        got = vectors.read_many([5, 7])
        assert got.dtype == numpy.float32 and (got == rows[[5, 7]]).all()
        assert vectors.read_many([]).shape == (0, 768)
        got, absent = vectors.read_many([5, 100], missing="mask")
        assert (got[0] == rows[5]).all() and not got[1].any() and list(absent) == [False, True]
        assert (asyncio.run(vectors.aread_many([9])) == rows[[9]]).all()
        with vectors.snapshot() as snapshot:
            assert (snapshot.read_many([8]) == rows[[8]]).all()
            ((keys, block),) = snapshot.blocks(1000)
            assert (block == rows).all() and list(keys) == list(range(100))
        # A call's own dtype or shape counts alone.
        assert vectors.read_many([5], dtype=numpy.uint8).shape == (1, 3072)
        assert vectors.read_many([5], shape=(-1, 3, 1024)).dtype == numpy.uint8
        assert vectors.read_many([5], dtype="float16").shape == (1, 1536)
        out = numpy.empty((2, 3072), numpy.uint8)
        assert vectors.read_many([5, 7], out=out) is out
        assert (out.view(numpy.float32) == rows[[5, 7]]).all()

    def test_values_of_several_dimensions(self, path):
        numpy = self.numpy
        rows = numpy.random.default_rng(2).integers(0, 256, (20, 16, 32, 3), numpy.uint8)
        with engine_race.open(path, dtype="uint8", shape=(16, 32, 3), **SMALL) as store:
            store.write_many(range(20), rows)
            assert (store.read_many(range(20)) == rows).all()
            assert [len(block) for _, block in store.blocks(15)] == [15, 5]
            assert store.read_many([]).shape == (0, 16, 32, 3)

    def test_items_that_are_whole_values(self, path):
        kind = self.numpy.dtype([("number", "u8"), ("part", "u4")])
        items = self.numpy.array([(1, 2), (3, 4)], kind)
        with engine_race.open(path, dtype=kind, shape=(), **SMALL) as store:
            store.write_many([1, 2], items)
            assert (store.read_many([2, 1]) == items[::-1]).all()

    def test_the_dtype_alone(self, path):
        engine_race.open(path, value_bytes=1536, **SMALL).close()
        with engine_race.open(path, dtype="float16") as store:
            assert store.read_many([]).shape == (0, 768)
        with pytest.raises(ValueError, match="1536 bytes is no whole number of items"):
            engine_race.open(path, dtype="V7")
        # That did not leave it open.
        engine_race.open(path).close()

    def test_what_does_not_fit(self, path):
        for given in ({"value_bytes": 3071}, {"value_bytes": "4k"}):
            with pytest.raises(ValueError, match="have 3072 bytes"):
                engine_race.open(path, dtype="float32", shape=768, **given)
        for shape in (-1, 0, (2, -1)):
            with pytest.raises(ValueError, match="each number of shape"):
                engine_race.open(path, shape=shape)
        for shape in ("768", 1.5, ["a"]):
            with pytest.raises(TypeError):
                engine_race.open(path, shape=shape)
        with pytest.raises(TypeError, match="objects"):
            engine_race.open(path, dtype=object, shape=2)
        assert not path.exists()

    def test_pickles_keep_the_form(self, vectors):
        rows = self.rows(2)
        vectors.write_many([1, 2], rows)
        vectors.close()
        with pickle.loads(pickle.dumps(vectors)) as again:
            assert (again.read_many([1, 2]) == rows).all()

    def test_npy_files_of_that_size(self, vectors, tmp_path):
        rows = self.rows(5000)
        self.numpy.save(tmp_path / "rows.npy", rows)
        assert engine_race.load_npy(vectors, tmp_path / "rows.npy").written_count == 5000
        assert (vectors.read_many([0, 4999]) == rows[[0, 4999]]).all()
        self.numpy.save(tmp_path / "other.npy", rows[:, :767])
        with pytest.raises(ValueError, match="3068 bytes: a value has 3072"):
            engine_race.load_npy(vectors, tmp_path / "other.npy")


def test_large_values_load_in_pieces(path, tmp_path):
    numpy = pytest.importorskip("numpy")
    size, told = 1 << 20, []
    with engine_race.open(path, value_bytes=size, **SMALL) as store:
        rows = numpy.arange(20, dtype=numpy.uint8)[:, None].repeat(size, axis=1)
        numpy.save(tmp_path / "rows.npy", rows)
        engine_race.load_npy(store, tmp_path / "rows.npy",
                             progress=lambda done, most: told.append((done, most)))
        assert told == [(16, 20), (20, 20)]
        assert (store.read_many(range(20)) == rows).all()
