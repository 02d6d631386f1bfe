"""Rows of values as arrays of other types and shapes: always views, never copies."""
from __future__ import annotations

import contextlib
from math import prod
from typing import (TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence, SupportsIndex,
                    Tuple, Union)

from ._buffers import count_of
from ._dlpack import type_and_shape_of_tensor

if TYPE_CHECKING:
    import numpy
    from numpy.typing import DTypeLike, NDArray

    Shape = Union[SupportsIndex, Sequence[SupportsIndex]]

_MOST = (1 << 63) - 1


def _type_of(dtype: Optional[DTypeLike]) -> numpy.dtype[Any]:
    """A type of numpy. None stands for uint8."""
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
    if wanted.itemsize == 0:
        raise ValueError(f"items of dtype {wanted} have 0 bytes")
    return wanted


def _type_within(dtype: Optional[DTypeLike], value_bytes: int) -> numpy.dtype[Any]:
    """A type of numpy, a whole number of which makes up a value."""
    wanted = _type_of(dtype)
    if value_bytes % wanted.itemsize != 0:
        raise ValueError(f"a value of {value_bytes} bytes is no whole number of items of dtype "
                         f"{wanted}, which have {wanted.itemsize} bytes")
    return wanted


def _dimensions_of(shape: Shape, least: int = -1) -> Tuple[int, ...]:
    """A shape as ints. At most one of them is -1, which is to be found out."""
    listed = tuple(shape) if isinstance(shape, Iterable) else (shape,)
    dimensions = tuple(count_of(number, "each number of shape", least, _MOST) for number in listed)
    if dimensions.count(-1) > 1:
        raise ValueError(f"shape {dimensions} leaves more than one dimension open")
    return dimensions


def _fit(dimensions: Tuple[int, ...], count: int, value_bytes: int,
         wanted: numpy.dtype[Any]) -> Tuple[int, ...]:
    """A shape for `count` values, without a -1."""
    in_value = value_bytes // wanted.itemsize
    items = count * in_value
    known = prod(number for number in dimensions if number != -1)
    is_open = -1 in dimensions
    if (known == 0 or items % known != 0) if is_open else known != items:
        raise ValueError(f"shape {dimensions} does not fit {count} values of "
                         f"{in_value} {wanted} each")
    return tuple(items // known if number == -1 else number for number in dimensions)


def bytes_of_shape(dtype: Optional[DTypeLike], shape: Shape) -> int:
    """Of a value with that type and shape."""
    item_bytes = 1 if dtype is None else _type_of(dtype).itemsize
    return item_bytes * prod(_dimensions_of(shape, least=1))


class Form:
    """How arrays of a store's values look: in which type and shape, unless a call says so."""

    def __init__(self, value_bytes: int, dtype: Optional[DTypeLike],
                 shape: Optional[Shape]) -> None:
        self._dtype = None if dtype is None else _type_within(dtype, value_bytes)
        self._shape = None if shape is None else (-1, *_dimensions_of(shape, least=1))

    def view(self, rows: NDArray[numpy.uint8], dtype: Optional[DTypeLike],
             shape: Optional[Shape]) -> NDArray[Any]:
        """The memory of contiguous rows of (n, value_bytes) so; no shape keeps (n, rest)."""
        if dtype is None and shape is None:
            dtype, shape = self._dtype, self._shape
            if dtype is None and shape is None:
                return rows
        count, value_bytes = rows.shape
        wanted = _type_within(dtype, value_bytes)
        seen = rows.view(wanted)
        if shape is None:
            return seen
        return seen.reshape(_fit(_dimensions_of(shape), count, value_bytes, wanted))


def refuse_other_array(out: Any, count: int, value_bytes: int, dtype: Optional[DTypeLike],
                       shape: Optional[Shape]) -> None:
    """Of a buffer for `count` values. It must have the type and the shape that are given."""
    import numpy

    given, dimensions = _described(out)
    if dtype is not None and given != _type_of(dtype):
        raise ValueError(f"out has the dtype {given}, and dtype is {numpy.dtype(dtype)}")
    if shape is not None:
        wanted = _fit(_dimensions_of(shape), count, value_bytes, _type_within(given, value_bytes))
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


def view_of_blocks(form: Form, value_bytes: int, dtype: Optional[DTypeLike],
                   shape: Optional[Shape]) -> Callable[[NDArray[numpy.uint8]], NDArray[Any]]:
    """The view of blocks of any number of rows. It refuses what would not fit all of them."""
    wanted = _type_within(dtype, value_bytes)
    if shape is not None:
        dimensions = _dimensions_of(shape)
        if not dimensions or dimensions[0] != -1:
            raise ValueError("the shape of a block begins with -1, because blocks differ in "
                             f"length, not {dimensions}")
        _fit(dimensions, 1, value_bytes, wanted)
    return lambda rows: form.view(rows, dtype, shape)
