"""Extremes, their places, and order.

Places are int32; of equal elements the first wins, NaN is larger than everything, and sorts are stable.
"""

from typing import overload

from hlx import _hlx, errors, return_types
from hlx._operations._arguments import axis as place_of
from hlx._operations._arguments import dimensions, tensor_of
from hlx._operations._register import function, operation
from hlx._operations._types import INT32, Dims, Operand, Tensor

_unary, _binary = _hlx.unary, _hlx.binary


@operation
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False, *, axis: Dims = None, keepdims: bool = False) -> Tensor:
    """Takes the largest element along dimensions, NaN if one is; equal ones share the gradient.

    >>> hlx.amax(hlx.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=0).tolist()
    [3.0, 5.0]
    """
    return _hlx.amax(input, dimensions(dim if axis is None else axis), keepdim or keepdims)


@operation
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False, *, axis: Dims = None, keepdims: bool = False) -> Tensor:
    """Takes the smallest element along dimensions, NaN if one is; equal ones share the gradient.

    >>> hlx.amin(hlx.tensor([[1.0, 5.0], [3.0, 2.0]]), dim=0).tolist()
    [1.0, 2.0]
    """
    return _hlx.amin(input, dimensions(dim if axis is None else axis), keepdim or keepdims)


@operation
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> return_types.aminmax:
    """Takes the smallest and the largest element, along a dimension or of all.

    >>> hlx.aminmax(hlx.tensor([1.0, 5.0])).max.item()
    5.0
    """
    dims = dimensions(dim)
    return return_types.aminmax(_hlx.amin(input, dims, keepdim), _hlx.amax(input, dims, keepdim))


@overload
def max(
    input: Tensor,
    dim: None = None,
    keepdim: bool = False,
    *,
    other: None = None,
    axis: None = None,
    keepdims: bool = False,
) -> Tensor: ...
@overload
def max(input: Tensor, dim: int, keepdim: bool = False, *, keepdims: bool = False) -> return_types.max: ...
@overload
def max(input: Tensor, *, axis: int, keepdims: bool = False) -> return_types.max: ...
@overload
def max(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor) -> Tensor: ...
@operation
def max(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    axis: int | None = None,
    keepdims: bool = False,
) -> Tensor | return_types.max:
    """Takes the largest element of all; along a dimension its `values` and `indices`; of two tensors the larger ones.

    `max(input)`, `max(input, dim, keepdim)`, `max(input, other)`. The gradient of the largest element of
    all is shared by equal ones; along a dimension it goes to the place, the first one.

    >>> hlx.max(hlx.tensor([[1.0, 5.0], [3.0, 2.0]]), 1).indices.tolist()
    [1, 0]
    """
    if isinstance(dim, Tensor) or other is not None:
        return _binary(input, dim if other is None else other, "maximum")
    named = dim if axis is None else axis
    if named is None:
        return _hlx.amax(input, [], False)
    return return_types.max(*_hlx.max_dim(input, named, keepdim or keepdims))


@overload
def min(
    input: Tensor,
    dim: None = None,
    keepdim: bool = False,
    *,
    other: None = None,
    axis: None = None,
    keepdims: bool = False,
) -> Tensor: ...
@overload
def min(input: Tensor, dim: int, keepdim: bool = False, *, keepdims: bool = False) -> return_types.min: ...
@overload
def min(input: Tensor, *, axis: int, keepdims: bool = False) -> return_types.min: ...
@overload
def min(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor) -> Tensor: ...
@operation
def min(
    input: Tensor,
    dim: int | Tensor | None = None,
    keepdim: bool = False,
    *,
    other: Tensor | None = None,
    axis: int | None = None,
    keepdims: bool = False,
) -> Tensor | return_types.min:
    """Takes the smallest element of all; along a dimension its `values` and `indices`; of two tensors the smaller ones.

    As `max`.

    >>> hlx.min(hlx.tensor([[1.0, 5.0], [3.0, 2.0]]), 1).values.tolist()
    [1.0, 2.0]
    """
    if isinstance(dim, Tensor) or other is not None:
        return _binary(input, dim if other is None else other, "minimum")
    named = dim if axis is None else axis
    if named is None:
        return _hlx.amin(input, [], False)
    return return_types.min(*_hlx.min_dim(input, named, keepdim or keepdims))


@operation
def argmax(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Finds the place of the largest element along a dimension, or in the flattened tensor.

    >>> hlx.argmax(hlx.tensor([1.0, 5.0, 5.0])).item()
    1
    """
    return _hlx.argmax(input, dim if axis is None else axis, keepdim or keepdims)


@operation
def argmin(
    input: Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    axis: int | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Finds the place of the smallest element along a dimension, or in the flattened tensor.

    >>> hlx.argmin(hlx.tensor([1.0, 5.0, 0.5])).item()
    2
    """
    return _hlx.argmin(input, dim if axis is None else axis, keepdim or keepdims)


@operation
def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> return_types.sort:
    """Sorts along a dimension, and gives the places that the elements had; always stable.

    >>> hlx.sort(hlx.tensor([3.0, 1.0, 2.0])).indices.tolist()
    [1, 2, 0]
    """
    return return_types.sort(*_hlx.sort(input, dim, descending))


@operation
def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Finds the places of the sorted elements along a dimension; always stable.

    >>> hlx.argsort(hlx.tensor([3.0, 1.0, 2.0]), descending=True).tolist()
    [0, 2, 1]
    """
    return _hlx.argsort(input, dim, descending)


@operation
def msort(input: Tensor) -> Tensor:
    """Sorts along the first dimension.

    >>> hlx.msort(hlx.tensor([3.0, 1.0, 2.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    return _hlx.sort(input, 0, False)[0]


@operation
def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> return_types.topk:
    """Takes the k largest or smallest elements along a dimension, in order, with their places.

    >>> hlx.topk(hlx.tensor([3.0, 1.0, 2.0]), 2).values.tolist()
    [3.0, 2.0]
    """
    return return_types.topk(*_hlx.topk(input, k, dim, largest))


def _at(input: Tensor, k: int, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    # The k-th in order, counted from 0; NaN is last.
    values, places = _hlx.sort(input, dim, False)
    if input.ndim == 0:
        return values, places
    values, places = _hlx.narrow(values, dim, k, 1), _hlx.narrow(places, dim, k, 1)
    if keepdim:
        return values, places
    return _hlx.squeeze(values, dim), _hlx.squeeze(places, dim)


@operation
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> return_types.kthvalue:
    """Takes the k-th smallest element along a dimension, counted from 1, with its place.

    >>> hlx.kthvalue(hlx.tensor([3.0, 1.0, 2.0]), 2).values.item()
    2.0
    """
    extent = input.shape[place_of("kthvalue", dim, input.ndim)] if input.ndim else 1
    if not 1 <= k <= extent:
        raise errors.RuntimeError(f"kthvalue: k is {k}, expected 1 to {extent}")
    return return_types.kthvalue(*_at(input, k - 1, dim, keepdim))


@overload
def median(input: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def median(input: Tensor, dim: int, keepdim: bool = False) -> return_types.median: ...
@operation
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | return_types.median:
    """Takes the lower of the middle elements, of all or along a dimension with its place; NaN if one is.

    >>> hlx.median(hlx.tensor([3.0, 1.0, 2.0, 9.0])).item()
    2.0
    """
    named = 0 if dim is None else dim
    line = _hlx.reshape(input, [-1]) if dim is None else input
    extent = line.shape[place_of("median", named, line.ndim)] if line.ndim else 1
    if extent == 0:
        raise errors.IndexError(f"median: the input has shape {list(input.shape)}, expected elements")
    values, places = _at(line, (extent - 1) // 2, named, True)
    if input.dtype.is_floating_point and line.ndim:
        # NaN is the last in order, wherever the middle is.
        last, its_place = _at(line, extent - 1, named, True)
        is_nan = _unary(last, "isnan")
        values, places = _hlx.where_(last, is_nan, values), _hlx.where_(its_place, is_nan, places)
    if dim is None:
        return _hlx.reshape(values, [])
    if not keepdim and line.ndim:
        values, places = _hlx.squeeze(values, dim), _hlx.squeeze(places, dim)
    return return_types.median(values, places)


@function
def searchsorted(
    sorted_sequence: Tensor,
    input: Operand,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Finds where elements would be inserted in sorted ones along the last dimension, by bisection.

    The place is before equal elements, or behind them if `right` is set or `side` is "right".

    >>> hlx.searchsorted(hlx.tensor([1.0, 3.0, 5.0]), hlx.tensor([3.0, 4.0])).tolist()
    [1, 2]
    """
    if side not in (None, "left", "right"):
        raise errors.RuntimeError(f"searchsorted: side is {side!r}, expected 'left' or 'right'")
    if right and side == "left":
        raise errors.RuntimeError("searchsorted: right is True and side 'left', expected one of them")
    if sorter is not None:
        sorted_sequence = _hlx.gather(sorted_sequence, -1, sorter)
    input = tensor_of(input, sorted_sequence)
    n = sorted_sequence.shape[-1] if sorted_sequence.ndim else 0
    if sorted_sequence.ndim == 0 or (sorted_sequence.ndim > 1 and sorted_sequence.shape[:-1] != input.shape[:-1]):
        found, expected = list(sorted_sequence.shape), [*input.shape[:-1], "N"]
        raise errors.RuntimeError(f"searchsorted: the sorted sequence has shape {found}, expected [N] or {expected}")
    values = input if sorted_sequence.ndim > 1 else _hlx.reshape(input, [-1])
    behind = "gt" if right or side == "right" else "ge"
    places = _hlx.zeros(input.device, list(values.shape), INT32)
    step = 1 << (n.bit_length() - 1) if n else 0
    while step:
        # Whether the last of `step` more elements is before the value, too.
        ahead = _binary(places, step, "add")
        last = _hlx.clamp_max(_binary(ahead, 1, "sub"), n - 1)
        edge = _hlx.gather(sorted_sequence, -1, last)
        stops = _binary(_binary(edge, values, behind), _binary(ahead, n, "gt"), "logical_or")
        places = _hlx.where_(places, stops, ahead)
        step //= 2
    return _hlx.reshape(places, list(input.shape))


@function
def bucketize(input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Finds the bucket of each element between sorted boundaries, by bisection.

    >>> hlx.bucketize(hlx.tensor([3.0, 9.0]), hlx.tensor([1.0, 3.0, 5.0])).tolist()
    [1, 3]
    """
    return searchsorted(boundaries, input, right=right)
