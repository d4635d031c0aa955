"""Places, sorted orders and sets."""

from __future__ import annotations

from typing import Literal, NamedTuple

import hlx
from hlx import Tensor, errors

from ._dtypes import DEFAULT_INTEGER, Number, Operand, is_real, operands
from ._manipulation import Axes, n_elements, place
from ._statistics import reduced


class unique_all_result(NamedTuple):
    """What `unique_all` returns."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class unique_counts_result(NamedTuple):
    """What `unique_counts` returns."""

    values: Tensor
    counts: Tensor


class unique_inverse_result(NamedTuple):
    """What `unique_inverse` returns."""

    values: Tensor
    inverse_indices: Tensor


def _numbered(n: int, device: hlx.device) -> Tensor:
    return hlx.arange(n, dtype=DEFAULT_INTEGER, device=device)


def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element, the first one of several; without axis in the flattened array."""
    return hlx.argmax(x, axis, keepdims)


def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element, the first one of several; without axis in the flattened array."""
    return hlx.argmin(x, axis, keepdims)


def count_nonzero(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The number of elements other than 0."""
    return reduced("count_nonzero", hlx.sum, hlx.ne(x, 0).to(DEFAULT_INTEGER), axis, keepdims)


def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """The places of the elements other than 0, one array per axis. The call waits for its device."""
    if x.ndim == 0:
        raise errors.ValueError("nonzero: the array has no axes, expected at least 1")
    mask = (x if x.dtype == hlx.bool else hlx.ne(x, 0)).reshape(-1)
    rest = hlx.masked_select(_numbered(n_elements(x), x.device), mask)
    found: list[Tensor] = []
    for extent in reversed(x.shape):
        found.append(hlx.remainder(rest, max(extent, 1)))
        rest = hlx.floor_divide(rest, max(extent, 1))
    return tuple(reversed(found))


def searchsorted(
    x1: Tensor, x2: Tensor | Number, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """The places in the sorted array x1 before which the elements of x2 keep the order, by bisection.

    NaN is the largest value, as in `sort`.
    """
    if x1.ndim != 1 or side not in ("left", "right"):
        raise errors.ValueError(
            f"searchsorted: x1 has {x1.ndim} axes and side is {side!r}, expected 1 and 'left' or 'right'"
        )
    line, wanted = operands("searchsorted", x1, x2)
    if sorter is not None:
        line = hlx.index_select(line, 0, sorter.to(DEFAULT_INTEGER))
    n = x1.shape[0]
    low = hlx.zeros_like(wanted, dtype=DEFAULT_INTEGER)
    if n == 0:
        return low
    high = low + n
    for _ in range(n.bit_length()):
        middle = hlx.floor_divide(low + high, 2)
        found = hlx.index_select(line, 0, hlx.clamp(middle, max=n - 1).reshape(-1)).reshape(tuple(wanted.shape))
        after = _less(found, wanted) if side == "left" else hlx.logical_not(_less(wanted, found))
        # A finished search has low = high and stays.
        after = hlx.logical_and(after, low < high)
        low, high = hlx.where(after, middle + 1, low), hlx.where(after, high, middle)
    return low


def _less(a: Tensor, b: Tensor) -> Tensor:
    """a < b with NaN as the largest value."""
    if not is_real(a.dtype):
        return a < b
    return hlx.logical_or(a < b, hlx.logical_and(hlx.isnan(b), hlx.logical_not(hlx.isnan(a))))


def where(condition: Tensor, x1: Operand, x2: Operand, /) -> Tensor:
    """x1 where the condition holds, x2 elsewhere, in their joint type."""
    if not isinstance(x1, Tensor) and not isinstance(x2, Tensor):
        # Two numbers have the type of an array of both.
        x1 = hlx.tensor(x1, device=condition.device)
    return hlx.where(condition, *operands("where", x1, x2))


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The places of the sorted elements. The order is stable in any case."""
    if x.ndim == 0:
        raise errors.ValueError("argsort: the array has no axes, expected at least 1")
    return hlx.argsort(x, dim=place("argsort", axis, x.ndim), descending=descending, stable=True)


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order, NaN as the largest. The order is stable in any case."""
    if x.ndim == 0:
        raise errors.ValueError("sort: the array has no axes, expected at least 1")
    return hlx.sort(x, dim=place("sort", axis, x.ndim), descending=descending, stable=True)[0]


def isin(x1: Tensor | int, x2: Tensor | int, /, *, invert: bool = False) -> Tensor:
    """Tells of each element of x1 whether x2 contains it."""
    a, b = operands("isin", x1, x2)
    values = sort(b.reshape(-1))
    if values.shape[0] == 0:
        return hlx.full_like(a, invert, dtype=hlx.bool)
    at = hlx.clamp(searchsorted(values, a), max=values.shape[0] - 1)
    found = hlx.eq(hlx.index_select(values, 0, at.reshape(-1)).reshape(tuple(a.shape)), a)
    return hlx.logical_not(found) if invert else found


def unique_all(x: Tensor, /) -> unique_all_result:
    """The different values in order, their first places, the place of each element among them, and counts.

    Every NaN is a value of its own; 0 and -0 are one value. The call waits for its device.
    """
    flat = x.reshape(-1)
    n = flat.shape[0]
    order = hlx.argsort(flat, stable=True)
    ordered = hlx.index_select(flat, 0, order)
    first = hlx.cat([hlx.ones((min(n, 1),), dtype=hlx.bool, device=x.device), hlx.ne(ordered[1:], ordered[:-1])])
    # The number of a sorted element's value, scattered to the element's place.
    numbers = hlx.cumsum(first.to(DEFAULT_INTEGER), 0) - 1
    inverse = hlx.scatter(hlx.zeros_like(numbers), 0, order, numbers)
    starts = hlx.masked_select(_numbered(n, x.device), first)
    ends = hlx.cat([starts[1:], hlx.full((min(n, 1),), n, dtype=DEFAULT_INTEGER, device=x.device)])
    return unique_all_result(
        hlx.masked_select(ordered, first),
        hlx.masked_select(order, first),
        inverse.reshape(tuple(x.shape)),
        ends - starts,
    )


def unique_counts(x: Tensor, /) -> unique_counts_result:
    """The different values in order, and how often each occurs; as `unique_all`."""
    every = unique_all(x)
    return unique_counts_result(every.values, every.counts)


def unique_inverse(x: Tensor, /) -> unique_inverse_result:
    """The different values in order, and the place of each element among them; as `unique_all`."""
    every = unique_all(x)
    return unique_inverse_result(every.values, every.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """The different values in order; as `unique_all`."""
    return unique_all(x).values
