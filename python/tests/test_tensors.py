"""Tensors that give their memory by DLPack alone, as those of PyTorch do."""
import ctypes
import gc

import pytest

import engine_race
from conftest import value_of

numpy = pytest.importorskip("numpy")


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Managed(ctypes.Structure):
    _fields_ = [("tensor", Tensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
                ("flags", ctypes.c_uint64), ("tensor", Tensor)]


new_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p,
                                ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))


class MadeByHand:
    """Memory of an array of numpy, described as a library might."""

    def __init__(self, array, code=2, bits=32, lanes=1, shape=None, strides=None, offset=0,
                 device=1, version=None, flags=0):
        self._array, self._device, self._version = array, device, version
        shape = array.shape if shape is None else shape
        self._shape = (ctypes.c_int64 * len(shape))(*shape)
        self._strides = None if strides is None else (ctypes.c_int64 * len(strides))(*strides)
        tensor = Tensor(array.ctypes.data, device, 0, len(shape), code, bits, lanes, self._shape,
                        self._strides, offset)
        self._versioned = Versioned(version or 0, 0, None, None, flags, tensor)
        self._managed = Managed(tensor, None, None)

    def __dlpack_device__(self):
        return self._device, 0

    def __dlpack__(self, max_version=None):
        if self._version is not None:
            return new_capsule(ctypes.addressof(self._versioned), b"dltensor_versioned", None)
        return new_capsule(ctypes.addressof(self._managed), b"dltensor", None)


class OfNumpy:
    """An array that hides its buffer. As an older library, it knows no versions."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self):
        return self.array.__dlpack__()


@pytest.fixture
def rows():
    return numpy.random.default_rng(1).random((3, 1024), dtype=numpy.float32)


def test_tensors_are_written_and_filled_in_place(store, rows):
    store.write_many([1, 2, 3], OfNumpy(rows))
    assert (store.read_many([1, 2, 3], dtype=numpy.float32) == rows).all()
    store.put(4, OfNumpy(rows[1]))
    store[5] = OfNumpy(rows[2].reshape(32, 32))
    with store.batch() as batch:
        batch.put_many([6, 7], OfNumpy(rows[:2]))
    assert store.setdefault(8, OfNumpy(rows[0])) == rows[0].tobytes()
    assert (store.read_many(range(4, 9), dtype="f4") == rows[[1, 2, 0, 1, 0]]).all()
    out = OfNumpy(numpy.zeros((3, 1024), numpy.float32))
    assert store.read_many([3, 2, 1], out=out) is out
    assert (out.array == rows[::-1]).all()
    store.read_into(4, OfNumpy(out.array[0]))
    assert (out.array[0] == rows[1]).all()
    keys = numpy.zeros(2, numpy.uint64)
    with store.iterator() as walk:
        walk.seek(6)
        assert walk.take(keys, OfNumpy(out.array[:2])) == 2
    assert list(keys) == [6, 7] and (out.array[:2] == rows[:2]).all()


def test_a_tensor_to_fill_has_the_type_and_shape_that_are_given(store, rows):
    store.write_many([1, 2, 3], rows)
    for version in (None, 1):
        target = numpy.zeros((3, 1024), numpy.float32)
        store.read_many([1, 2, 3], out=MadeByHand(target, version=version), dtype="f4",
                        shape=(-1, 1024))
        assert (target == rows).all()
        for wrong, words in ((dict(dtype="i4"), "out has the dtype float32"),
                             (dict(shape=(3, 32, 32)), "out has the shape")):
            with pytest.raises(ValueError, match=words):
                store.read_many([1, 2, 3], out=MadeByHand(target, version=version), **wrong)
    # numpy has no bfloat16, whose type code is 4.
    target = numpy.zeros((3, 1024), numpy.float32)
    store.read_many([1, 2, 3], out=MadeByHand(target, 4, 16, shape=(3, 2048)), shape=(3, 2048))
    assert (target == rows).all()


@pytest.mark.parametrize("version", [None, 1])
def test_every_layout_that_is_contiguous(store, rows, version):
    bits = rows.view(numpy.uint8)
    for made in (MadeByHand(rows, version=version),
                 MadeByHand(rows, 4, 16, 1, (3, 2048), version=version),
                 MadeByHand(rows, 7, 8, 4, (3, 1, 1024), (1024, 77, 1), version=version),
                 MadeByHand(rows, strides=(1024, 1), device=3, version=version)):
        store.write_many([1, 2, 3], numpy.zeros((3, 4096), numpy.uint8))
        store.write_many([1, 2, 3], made)
        assert (store.read_many([1, 2, 3]) == bits).all()
    store.write_many([1, 2], MadeByHand(rows, shape=(2, 1024), offset=4096, version=version))
    assert (store.read_many([1, 2]) == bits[1:]).all()
    target = numpy.zeros((2, 1024), numpy.float32)
    store.read_many([1], out=MadeByHand(target, shape=(1, 1024), offset=4096, version=version))
    assert (target == [[0], [1]] * rows[1]).all()
    store.write_many([], MadeByHand(rows, shape=(0, 1024), version=version))


@pytest.mark.parametrize("made, error, words", [
    (dict(device=2), ValueError, "device"), (dict(strides=(1, 3)), ValueError, "contiguous"),
    (dict(strides=(2048, 1)), ValueError, "contiguous"), (dict(code=3, bits=64), TypeError,
                                                          "objects"),
    (dict(bits=4), TypeError, "4 bits"), (dict(version=2), TypeError, "version 2"),
    (dict(shape=(3, 1023)), ValueError, "bytes were given")])
def test_tensors_that_cannot_be_used(store, rows, made, error, words):
    for call in (lambda: store.write_many([1, 2, 3], MadeByHand(rows, **made)),
                 lambda: store.read_many([1, 2, 3], out=MadeByHand(rows, **made))):
        with pytest.raises(error, match=words):
            call()
    assert len(store) == 0


@pytest.mark.parametrize("flags", [1, 2])
def test_tensors_that_may_not_be_written(store, rows, flags):
    """One is read-only. The other is a copy, so the caller would never see what it is filled with.
    """
    store.write_many([1, 2, 3], MadeByHand(rows, version=1, flags=flags))
    before = rows.copy()
    store.put(1, value_of(1))
    with pytest.raises(ValueError, match="read-only"):
        store.read_many([1, 2, 3], out=MadeByHand(rows, version=1, flags=flags))
    assert (rows == before).all()


def test_a_tensor_that_refuses_is_a_type_error(store):
    class Refuses(OfNumpy):
        def __dlpack__(self):
            raise BufferError("it requires a gradient")

    with pytest.raises(TypeError, match="gradient"):
        store.put(1, Refuses(numpy.zeros(1024, numpy.float32)))


def test_its_memory_lives_during_the_call_and_no_longer(store, rows):
    """The capsule alone holds it: the tensor may be gone."""
    freed = []
    free = DELETER(freed.append)

    class Temporary(MadeByHand):
        def __dlpack__(self):
            capsule = super().__dlpack__()
            set_destructor(capsule, ctypes.cast(free, ctypes.c_void_p))
            return capsule

    set_destructor = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(
        ("PyCapsule_SetDestructor", ctypes.pythonapi))
    call, seen = store._handle.call, []

    def watched(*arguments):
        gc.collect()
        seen.append(len(freed))
        return call(*arguments)

    store._handle.call = watched
    store.write_many([1, 2, 3], Temporary(rows))
    gc.collect()
    assert seen == [0] and len(freed) == 1


def test_tensors_of_torch(store):
    torch = pytest.importorskip("torch")
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        rows = torch.arange(3 * 4096 // dtype.itemsize).to(dtype).reshape(3, -1)
        store.write_many(torch.tensor([1, 2, 3]), rows)
        out = torch.zeros_like(rows)
        assert store.read_many(torch.tensor([1, 2, 3]), out=out) is out
        assert torch.equal(out, rows)
        assert torch.equal(torch.from_numpy(store.read_many([1, 2, 3])).view(dtype), rows)
