"""The different elements of a tensor, or its different slices along a dimension."""

from typing import Literal, overload

from hlx import _hlx
from hlx._operations._arguments import axis, count, whole_range
from hlx._operations._register import operation
from hlx._operations._types import BOOL, INT32, Tensor

_unary, _binary = _hlx.unary, _hlx.binary


@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]: ...
@operation
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """Takes the different elements in order, on demand with the place of each element among them, and counts.

    Along a dimension its different slices, in the order of their first elements, then of the next ones, which
    takes a sort for each. Waits for the device.

    >>> hlx.unique(hlx.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    if dim is None:
        values, places = _hlx.sort(_hlx.reshape(input, [-1]), 0, False)
        return _runs(values, values, places, input, None, (return_inverse, return_counts))
    rows, named = _slices(input, dim)
    order = whole_range(input.device, rows.shape[0])
    # From the last element to the first, each sort leaves the order of equal ones.
    for column in reversed(range(rows.shape[1])):
        keys = _hlx.index_select(_hlx.select(rows, 1, column), 0, order)
        order = _hlx.index_select(order, 0, _hlx.argsort(keys, 0, False))
    values = _hlx.index_select(input, named, order)
    rows = _hlx.index_select(rows, 0, order)
    return _runs(rows, values, order, input, named, (return_inverse, return_counts))


@overload
def unique_consecutive(
    input: Tensor,
    return_inverse: Literal[False] = False,
    return_counts: Literal[False] = False,
    dim: int | None = None,
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]: ...
@operation
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Takes the first of each row of equal elements, on demand with the place of each element, and counts.

    Along a dimension its slices are compared. Waits for the device.

    >>> hlx.unique_consecutive(hlx.tensor([1, 1, 2, 1])).tolist()
    [1, 2, 1]
    """
    if dim is None:
        values = _hlx.reshape(input, [-1])
        return _runs(values, values, None, input, None, (return_inverse, return_counts))
    rows, named = _slices(input, dim)
    return _runs(rows, input, None, input, named, (return_inverse, return_counts))


def _slices(input: Tensor, dim: int) -> tuple[Tensor, int]:
    """The slices along a dimension as rows, and the dimension."""
    named = axis("unique", dim, input.ndim)
    order = [named, *(other for other in range(input.ndim) if other != named)]
    moved = _hlx.permute(input, order)
    return _hlx.reshape(moved, [moved.shape[0], count(moved.shape[1:])]), named


def _differs(rows: Tensor) -> Tensor:
    """Of each element or row after the first, whether it differs from the one before."""
    n = rows.shape[0]
    differs = _binary(_hlx.narrow(rows, 0, 1, n - 1), _hlx.narrow(rows, 0, 0, n - 1), "ne")
    return _hlx.any(differs, [1], False) if rows.ndim == 2 else differs


def _runs(
    rows: Tensor,
    values: Tensor,
    places: Tensor | None,
    input: Tensor,
    dim: int | None,
    wanted: tuple[bool, bool],
) -> Tensor | tuple[Tensor, ...]:
    n = rows.shape[0]
    first = _hlx.ones(rows.device, [min(n, 1)], BOOL)
    if n > 1:
        first = _hlx.cat([first, _differs(rows)], 0)
    numbers = whole_range(rows.device, n)
    chosen = _hlx.masked_select(numbers, first)
    results = [_hlx.index_select(values, 0 if dim is None else dim, chosen)]
    number = _binary(_hlx.cumsum(_hlx.to_dtype(first, INT32), 0), 1, "sub")
    return_inverse, return_counts = wanted
    if return_inverse:
        inverse = number if places is None else _hlx.scatter(number, 0, places, number)
        results.append(_hlx.reshape(inverse, list(input.shape) if dim is None else [n]))
    if return_counts:
        counts = _hlx.zeros(rows.device, [chosen.shape[0]], INT32)
        results.append(_hlx.index_add(counts, 0, number, _hlx.ones(rows.device, [n], INT32)) if n else counts)
    return results[0] if len(results) == 1 else tuple(results)
