"""Many records in one call, as rows of arrays."""
from array import array

import pytest

import engine_race
from conftest import SMALL

numpy = pytest.importorskip("numpy")


def rows_of(count, seed=1):
    return numpy.random.default_rng(seed).random((count, 1024), dtype=numpy.float32)


@pytest.fixture
def filled(store):
    rows = rows_of(300)
    store.write_many(numpy.arange(300), rows)
    return store, rows


def test_rows_come_back(filled):
    store, rows = filled
    ids = numpy.random.default_rng(2).permutation(300)
    got = store.read_many(ids)
    assert got.shape == (300, 4096) and got.dtype == numpy.uint8
    assert (got.view(numpy.float32) == rows[ids]).all()
    out = numpy.empty((300, 1024), numpy.float32)
    assert store.read_many(list(ids), out=out) is out
    assert (out == rows[ids]).all()
    # The same key twice, and none at all.
    assert (store.read_many([7, 7]).view(numpy.float32) == rows[[7, 7]]).all()
    assert store.read_many([]).shape == (0, 4096)


@pytest.mark.parametrize("dtype", [numpy.int8, numpy.int32, numpy.int64, numpy.uint16, numpy.uint64,
                                   ">u8", ">i4"])
def test_ids_of_every_integer_type(filled, dtype):
    store, rows = filled
    ids = numpy.arange(100).astype(dtype)
    assert (store.read_many(ids).view(numpy.float32) == rows[:100]).all()
    assert (store.read_many(ids[::-1]).view(numpy.float32) == rows[:100][::-1]).all()


def test_missing_keys(filled):
    store, rows = filled
    with pytest.raises(KeyError, match="1000"):
        store.read_many([1, 1000])
    got = store.read_many([1, 1000], missing="zero")
    assert (got[0].view(numpy.float32) == rows[1]).all() and not got[1].any()
    out = numpy.full((2, 1024), 5, numpy.float32)
    store.read_many([1, 1000], out=out, missing="zero")
    assert (out[0] == rows[1]).all() and not out[1].any()
    out = numpy.full((2, 4096), 5, numpy.uint8)
    store.read_many([1000, 2], out=out, missing="keep")
    assert (out[0] == 5).all() and (out[1].view(numpy.float32) == rows[2]).all()
    with pytest.raises(ValueError):
        store.read_many([1], missing="perhaps")


def test_arrays_that_cannot_be_used(filled):
    store, rows = filled
    read_only = numpy.empty((1, 4096), numpy.uint8)
    read_only.flags.writeable = False
    for out, error in ((numpy.empty((1, 4095), numpy.uint8), ValueError),
                       (numpy.empty((2, 4096), numpy.uint8), ValueError),
                       (numpy.empty((1, 8192), numpy.uint8)[:, ::2], ValueError),
                       (read_only, ValueError), ("text", TypeError)):
        with pytest.raises(error):
            store.read_many([1], out=out)
    for ids, error in (([1.5], TypeError), ([-1], ValueError), ([[1]], TypeError),
                       (["a"], TypeError), ([None], TypeError)):
        with pytest.raises(error):
            store.read_many(ids)
        with pytest.raises(error):
            store.write_many(ids, rows[:1])
    with pytest.raises(ValueError):
        store.write_many([1, 2], rows[:1])
    with pytest.raises(ValueError):
        store.write_many([1], rows[:2, ::2])
    assert (store.read_many([1]).view(numpy.float32) == rows[1]).all()


def test_blocks(filled):
    store, rows = filled
    keys, got = [], []
    for block_keys, block in store.blocks(rows=70):
        assert block.shape == (len(block_keys), 4096)
        keys.append(block_keys)
        got.append(block)
    assert [len(block) for block in got] == [70, 70, 70, 70, 20]
    assert (numpy.concatenate(keys) == numpy.arange(300)).all()
    assert (numpy.concatenate(got).view(numpy.float32) == rows).all()
    assert [list(k) for k, _ in store.blocks(10, lower=5, upper=8)] == [[5, 6, 7]]
    with store.snapshot() as snapshot:
        store.put(5, bytes(4096))
        ((_, block),) = store.blocks(10, 5, 6, snapshot)
        assert (block.view(numpy.float32) == rows[5]).all()


def test_closed(path):
    store = engine_race.open(path, **SMALL)
    store.close()
    with pytest.raises(engine_race.ClosedError):
        store.read_many([1])
    with pytest.raises(engine_race.ClosedError):
        store.write_many([1], rows_of(1))


def test_ids_of_python(filled):
    store, rows = filled
    most = 2**64 - 1
    store.put(most, rows[9])
    store.put(2**63, rows[8])
    # As an array of numpy these would be floats.
    got = store.read_many([1, 2**63, most])
    assert (got.view(numpy.float32) == rows[[1, 8, 9]]).all()
    for ids in (range(5), (0, 1, 2, 3, 4), array("H", range(5)), memoryview(array("q", range(5))),
                numpy.array(range(5), object), [numpy.uint8(0), 1, numpy.int64(2), 3, 4],
                {0: 0, 1: 1, 2: 2, 3: 3, 4: 4}.keys()):
        assert (store.read_many(ids).view(numpy.float32) == rows[:5]).all()
    for ids, error in (([2**64], ValueError), ([0, -1], ValueError), ([1, True], TypeError),
                       ([numpy.bool_(True)], TypeError), ([1, 2.0], TypeError), ("12", TypeError),
                       (b"12345678", TypeError), (5, TypeError), (None, TypeError),
                       ([[1, 2]], TypeError), (numpy.array([True]), TypeError),
                       (numpy.array([1.0]), TypeError), (numpy.array([-1], numpy.int8), ValueError),
                       (numpy.array([1, 2.5], object), TypeError),
                       (numpy.array([2**64], object), ValueError),
                       (numpy.array(5), ValueError), (numpy.array([[5]]), ValueError),
                       (numpy.array(["a"]), TypeError),
                       (numpy.array([5], "datetime64[s]"), TypeError)):
        with pytest.raises(error):
            store.read_many(ids)
        with pytest.raises(error):
            store.write_many(ids, rows[:1])


def test_ids_that_change_during_the_call_are_not_seen(filled):
    """They are copied before the engine has them."""
    store, rows = filled
    ids = numpy.arange(5, dtype=numpy.uint64)
    call = store._handle.call

    def changing(function, *arguments):
        ids[:] = 200
        return call(function, *arguments)

    store._handle.call = changing
    assert (store.read_many(ids).view(numpy.float32) == rows[:5]).all()


def test_arrays_that_hold_objects(filled):
    """Bytes in the place of references would end the interpreter."""
    store, _ = filled
    nested = numpy.dtype([("id", "u8"), ("more", [("what", "O"), ("rest", "V4080")])])
    named = numpy.dtype([("O", "u8"), ("rest", "V4088")])
    for objects in (numpy.empty((1, 512), object), numpy.empty(1, nested)):
        for call in (lambda: store.read_many([1], out=objects),
                     lambda: store.write_many([1], objects), lambda: store.put(1, objects),
                     lambda: store.read_into(1, objects)):
            with pytest.raises(TypeError, match="objects"):
                call()
    rows = numpy.zeros(1, named)
    rows["O"] = 77
    store.write_many([1], rows)
    assert store.read_many([1], out=numpy.zeros(1, named))["O"] == 77


def test_out_may_not_lie_over_the_ids(filled):
    store, rows = filled
    memory = numpy.zeros(4 * 512, numpy.uint64)
    memory[:4] = range(4)
    with pytest.raises(ValueError, match="same memory"):
        store.read_many(memory[:4], out=memory)
    assert list(memory[:5]) == [0, 1, 2, 3, 0]
    apart = numpy.zeros(4 * 512 + 4, numpy.uint64)
    apart[:4] = range(4)
    got = store.read_many(apart[:4], out=apart[4:])
    assert (got.view(numpy.float32).reshape(4, 1024) == rows[:4]).all()


def test_memory_that_is_no_numbers(filled):
    store, _ = filled
    for value, error in ((numpy.zeros(512, complex), ValueError),
                         (numpy.zeros(513, "datetime64[s]"), ValueError),
                         (numpy.zeros(1024, "datetime64[s]")[::2], ValueError),
                         (numpy.asfortranarray(numpy.zeros((64, 64), numpy.uint8)), ValueError),
                         (numpy.broadcast_to(numpy.uint8(1), 4096), ValueError)):
        with pytest.raises(error):
            store.put(1, value)
    store.put(1, numpy.zeros(256, complex))
    store.put(1, numpy.zeros((64, 64), numpy.uint8))
    with pytest.raises(ValueError, match="5 bytes were given, and 4096 are needed"):
        store.put(1, bytes(5))


def arrays_without_a_buffer():
    numbers = numpy.random.default_rng(3).integers(0, 2**16, (3, 2048)).astype(numpy.uint16)
    yield numpy.resize(numbers.view("datetime64[s]"), (3, 512))
    yield numpy.resize(numbers.view("timedelta64[ns]"), (3, 512))
    try:
        import ml_dtypes
    except ImportError:
        return
    yield numbers.view(ml_dtypes.bfloat16)
    yield numbers.view(ml_dtypes.float8_e4m3fn)


@pytest.mark.parametrize("given", list(arrays_without_a_buffer()))
def test_types_that_give_no_buffer(store, given):
    with pytest.raises((TypeError, ValueError)):
        memoryview(given)
    bits = given.view(numpy.uint8).reshape(3, 4096)
    store.write_many([1, 2, 3], given)
    assert (store.read_many([1, 2, 3]) == bits).all()
    with store.batch() as batch:
        batch.put_many([4, 5, 6], given)
    assert (store.read_many([4, 5, 6]) == bits).all()
    store[7] = given[0]
    assert store[7] == bits[0].tobytes()
    got = store.read_many([3, 1, 2], dtype=given.dtype)
    assert got.dtype == given.dtype and (got.view(numpy.uint8) == bits[[2, 0, 1]]).all()
    out = numpy.zeros(given.shape, given.dtype)
    assert store.read_many([1, 2, 3], out=out) is out
    assert (out.view(numpy.uint8) == bits).all()
    keys, rows = numpy.empty(3, numpy.uint64), numpy.zeros(given.shape, given.dtype)
    with store.iterator() as walk:
        walk.seek_to_first()
        assert walk.take(keys, rows) == 3
    assert (rows.view(numpy.uint8) == bits).all()
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        store.read_many([1, 2, 3], out=out)


def test_numbers_in_another_byte_order_are_refused(store):
    """Written as they are, they would come back as other numbers, without a word."""
    other = ">" if numpy.little_endian else "<"
    floats = numpy.ones((2, 1024), other + "f4")
    times = numpy.zeros((2, 512), other + "M8[s]")
    for rows in (floats, times, numpy.ones((2, 256), other + "c16")):
        for call in (lambda: store.write_many([1, 2], rows), lambda: store.put(1, rows[0]),
                     lambda: store.batch().put_many([1, 2], rows)):
            with pytest.raises(TypeError, match="byte order"):
                call()
    assert list(store.keys()) == []
    # What is said to be bytes, or a layout of the caller's own, is taken as it is.
    store.write_many([1, 2], floats.view(numpy.uint8))
    assert (store.read_many([1, 2], dtype=other + "f4") == floats).all()
    assert (store.read_many([1, 2], out=numpy.zeros_like(floats)) == floats).all()
    store.write_many([1, 2], floats.astype(numpy.float32))
    assert (store.read_many([1, 2], dtype=numpy.float32) == floats).all()
    layout = numpy.zeros(2, [("id", other + "u8"), ("rest", "V4088")])
    layout["id"] = 7
    store.write_many([1, 2], layout)
    assert list(store.read_many([1, 2], dtype=layout.dtype)["id"]) == [7, 7]
    # One byte has no order.
    store.write_many([1, 2], numpy.zeros((2, 4096), other + "u1"))


def test_a_mask_of_missing_keys(filled):
    store, rows = filled
    got, missing = store.read_many([1, 1000, 2, 1001], missing="mask")
    assert missing.dtype == numpy.bool_ and list(missing) == [False, True, False, True]
    assert (got[~missing].view(numpy.float32) == rows[[1, 2]]).all() and not got[missing].any()
    got, missing = store.read_many([1, 2], missing="mask", dtype=numpy.float32, shape=(-1, 32, 32))
    assert not missing.any() and (got.reshape(2, 1024) == rows[[1, 2]]).all()
    out = numpy.full((2, 1024), 5, numpy.float32)
    same, missing = store.read_many([1000, 3], out=out, missing="mask")
    assert same is out and list(missing) == [True, False]
    assert not out[0].any() and (out[1] == rows[3]).all()
    got, missing = store.read_many([], missing="mask")
    assert got.shape == (0, 4096) and missing.shape == (0,)
    with store.snapshot() as snapshot:
        assert list(snapshot.read_many([1000, 1], missing="mask")[1]) == [True, False]
