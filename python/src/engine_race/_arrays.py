"""Rows of values as arrays of other types and shapes: always views, never copies."""
from __future__ import annotations

import contextlib
from math import prod
from typing import (TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence, SupportsIndex,
                    Tuple, Union)

from ._buffers import count_of
from ._dlpack import type_and_shape_of_tensor
from ._library import VALUE_BYTES

if TYPE_CHECKING:
    import numpy
    from numpy.typing import DTypeLike, NDArray

    Shape = Union[SupportsIndex, Sequence[SupportsIndex]]

_MOST = (1 << 63) - 1


def _type_of(dtype: Optional[DTypeLike]) -> numpy.dtype[Any]:
    """A type of numpy, a whole number of which makes up a value. None stands for uint8."""
    import numpy

    if dtype is None:
        return numpy.dtype(numpy.uint8)
    try:
        wanted = numpy.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"dtype is a type of numpy: {error}") from None
    if wanted.hasobject:
        raise TypeError(f"dtype {wanted} holds Python objects, not numbers")
    if wanted.subdtype is not None:
        raise ValueError(f"dtype {wanted} has a shape of its own: give it as shape")
    if wanted.itemsize == 0 or VALUE_BYTES % wanted.itemsize != 0:
        raise ValueError(f"a value of {VALUE_BYTES} bytes is no whole number of items of dtype "
                         f"{wanted}, which have {wanted.itemsize} bytes")
    return wanted


def _dimensions_of(shape: Shape) -> Tuple[int, ...]:
    """A shape as ints. At most one of them is -1, which is to be found out."""
    listed = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    dimensions = tuple(count_of(number, "each number of shape", -1, _MOST) for number in listed)
    if dimensions.count(-1) > 1:
        raise ValueError(f"shape {dimensions} leaves more than one dimension open")
    return dimensions


def _fit(dimensions: Tuple[int, ...], count: int, wanted: numpy.dtype[Any]) -> Tuple[int, ...]:
    """A shape for `count` values, without a -1."""
    items = count * (VALUE_BYTES // wanted.itemsize)
    known = prod(number for number in dimensions if number != -1)
    is_open = -1 in dimensions
    if (known == 0 or items % known != 0) if is_open else known != items:
        raise ValueError(f"shape {dimensions} does not fit {count} values of "
                         f"{VALUE_BYTES // wanted.itemsize} {wanted} each")
    return tuple(items // known if number == -1 else number for number in dimensions)


def view_of_rows(rows: NDArray[numpy.uint8], dtype: Optional[DTypeLike],
                 shape: Optional[Shape]) -> NDArray[Any]:
    """The memory of contiguous rows of (n, 4096) as that type and shape; None keeps (n, rest)."""
    wanted = _type_of(dtype)
    seen = rows.view(wanted)
    return seen if shape is None else seen.reshape(_fit(_dimensions_of(shape), len(rows), wanted))


def refuse_other_array(out: Any, count: int, dtype: Optional[DTypeLike],
                       shape: Optional[Shape]) -> None:
    """Of a buffer for `count` values. It must have the type and the shape that are given."""
    import numpy

    given, dimensions = _described(out)
    if dtype is not None and given != _type_of(dtype):
        raise ValueError(f"out has the dtype {given}, and dtype is {numpy.dtype(dtype)}")
    if shape is not None:
        wanted = _fit(_dimensions_of(shape), count, _type_of(given))
        if dimensions != wanted:
            raise ValueError(f"out has the shape {dimensions}, and shape is {wanted}")


def _described(out: Any) -> Tuple[numpy.dtype[Any], Tuple[int, ...]]:
    """The type and shape of an array, or of a tensor that gives its memory by DLPack alone."""
    import numpy

    with contextlib.suppress(TypeError):
        # Of types that numpy has not, tensors give it nothing.
        given = numpy.asarray(out)
        if given.dtype != object or not hasattr(out, "__dlpack__"):
            return given.dtype, given.shape
    name, dimensions = type_and_shape_of_tensor(out, "out")
    return numpy.dtype(name), dimensions


def view_of_blocks(dtype: Optional[DTypeLike],
                   shape: Optional[Shape]) -> Callable[[NDArray[numpy.uint8]], NDArray[Any]]:
    """view_of_rows for blocks of any number of rows. It refuses what would not fit all of them."""
    if dtype is None and shape is None:
        return lambda rows: rows
    wanted = _type_of(dtype)
    if shape is None:
        return lambda rows: rows.view(wanted)
    dimensions = _dimensions_of(shape)
    if not dimensions or dimensions[0] != -1:
        raise ValueError("the shape of a block begins with -1, because blocks differ in length, "
                         f"not {dimensions}")
    _fit(dimensions, 1, wanted)
    return lambda rows: rows.view(wanted).reshape(dimensions)
