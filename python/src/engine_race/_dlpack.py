"""Tensors of other libraries by the protocol DLPack: their memory, without a copy.

Python's own buffers come first, because they say whether they may be written. Tensors of PyTorch
give none. The layout of the structures is that of dlpack.h, versions 0 and 1.
"""
import ctypes
from typing import Any, Tuple

from cffi import FFI

_ffi: Any = FFI()
_ffi.cdef("""
typedef struct {
  void* data;
  int32_t device_type, device_id, ndim;
  uint8_t type_code, type_bits;
  uint16_t type_lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} tensor;
typedef struct {
  uint32_t major, minor;
  void* manager;
  void* deleter;
  uint64_t flags;
  tensor described;
} versioned;
""")

_MAJOR_VERSION = 1
_READ_ONLY, _IS_COPIED = 1, 2
_OF_OBJECTS = 3  # A type code: each item is a pointer.
# Those of numpy, by the type codes that it has.
_KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
# Memory that the CPU can use: its own, and what CUDA and ROCm have pinned.
_DEVICES_OF_CPU = (1, 3, 11)

_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", ctypes.pythonapi))


def _capsule_of(given: Any, what: str) -> Any:
    device: int = given.__dlpack_device__()[0]
    if device not in _DEVICES_OF_CPU:
        raise ValueError(f"{what} lies in the memory of a device: copy it to that of the CPU")
    try:
        try:
            return given.__dlpack__(max_version=(_MAJOR_VERSION, 0))
        except TypeError:
            # Of a library that knows no versions.
            return given.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TypeError(f"{what} gives no memory: {error}") from None


def _is_contiguous(tensor: Any) -> bool:
    if tensor.strides == _ffi.NULL:
        return True
    expected = 1
    for at in reversed(range(tensor.ndim)):
        if tensor.shape[at] != 1 and tensor.strides[at] != expected:
            return False
        expected *= tensor.shape[at]
    return True


def _tensor_in(capsule: Any, what: str) -> Tuple[Any, int]:
    """Its description, which lives as long as the capsule, and its flags."""
    if not _is_valid(capsule, b"dltensor_versioned"):
        return _ffi.cast("tensor*", _pointer_of(capsule, b"dltensor")), 0
    found = _ffi.cast("versioned*", _pointer_of(capsule, b"dltensor_versioned"))
    if found.major != _MAJOR_VERSION:
        raise TypeError(f"{what} gives memory by version {found.major} of DLPack")
    return found.described, found.flags


def type_and_shape_of_tensor(given: Any, what: str) -> Tuple[str, Tuple[int, ...]]:
    """The name of its type in numpy, which is that of raw bytes where numpy has no such type."""
    capsule = _capsule_of(given, what)
    tensor, _ = _tensor_in(capsule, what)
    kind, size = _KINDS.get(tensor.type_code, "V"), tensor.type_bits // 8
    if tensor.type_lanes != 1 or tensor.type_bits % 8 != 0:
        raise TypeError(f"{what} has items that are no numbers of whole bytes")
    return f"{kind}{size}", tuple(tensor.shape[at] for at in range(tensor.ndim))


def buffer_of_tensor(given: Any, what: str, writable: bool) -> Any:
    """The memory of a contiguous tensor as a buffer, which keeps the tensor's memory alive."""
    capsule = _capsule_of(given, what)
    tensor, flags = _tensor_in(capsule, what)
    if writable and flags & (_READ_ONLY | _IS_COPIED):
        raise ValueError(f"{what} is read-only")
    if tensor.type_code == _OF_OBJECTS:
        raise TypeError(f"{what} holds objects, not numbers")
    bits = tensor.type_bits * tensor.type_lanes
    if bits % 8 != 0:
        raise TypeError(f"{what} has items of {bits} bits, which are no whole bytes")
    count = 1
    for at in range(tensor.ndim):
        count *= tensor.shape[at]
    if count > 0 and not _is_contiguous(tensor):
        raise ValueError(f"{what} is not contiguous")
    if count == 0:
        return bytearray()
    address = int(_ffi.cast("uintptr_t", tensor.data)) + tensor.byte_offset
    memory = (ctypes.c_char * (count * bits // 8)).from_address(address)
    # Its end gives the memory back to its library.
    memory._capsule = capsule
    return memory
