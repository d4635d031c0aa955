"""Sums and other reductions over axes."""

from __future__ import annotations

import builtins
from collections.abc import Callable

import hlx
from hlx import Tensor, errors

from ._dtypes import DEFAULT_INTEGER, Dtype, is_integral, is_unsigned, result_type
from ._manipulation import Axes, place, places


def reduced(op: str, function: Callable[..., Tensor], x: Tensor, axis: Axes | None, keepdims: bool) -> Tensor:
    """function(x, dims, keepdim=..) over axes; no axes at all leave every element as it is."""
    axes = list(range(x.ndim)) if axis is None else places(op, axis, x.ndim)
    if not axes:
        # HLX reads an empty list of dimensions as all of them.
        return function(x.unsqueeze(0), [0], keepdim=False)
    return function(x, axes, keepdim=keepdims)


def _in_sum_type(x: Tensor, dtype: Dtype | None) -> tuple[Tensor, Dtype]:
    """An operand of a sum or product, and the type of the result: 32 bits for integers."""
    if dtype is None:
        dtype = x.dtype
        if is_integral(dtype) or dtype == hlx.bool:
            dtype = hlx.uint32 if is_unsigned(dtype) else DEFAULT_INTEGER
    return x.to(dtype), dtype


def sum(x: Tensor, /, *, axis: Axes | None = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """The sum in the order that HLX specifies; of integers int32, of unsigned ones uint32."""
    x, dtype = _in_sum_type(x, dtype)
    return reduced("sum", hlx.sum, x, axis, keepdims).to(dtype)


def prod(x: Tensor, /, *, axis: Axes | None = None, dtype: Dtype | None = None, keepdims: bool = False) -> Tensor:
    """The product; of integers int32, of unsigned ones uint32."""
    x, dtype = _in_sum_type(x, dtype)
    axes = list(range(x.ndim)) if axis is None else places("prod", axis, x.ndim)
    for i in sorted(axes, reverse=True):
        x = hlx.prod(x, i, keepdim=keepdims)
    return x.to(dtype)


def max(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The largest element, and NaN if there is one."""
    return reduced("max", hlx.amax, x, axis, keepdims)


def min(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The smallest element, and NaN if there is one."""
    return reduced("min", hlx.amin, x, axis, keepdims)


def mean(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """The mean."""
    return reduced("mean", hlx.mean, x, axis, keepdims)


def var(x: Tensor, /, *, axis: Axes | None = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance: squares from the mean over the number of elements less `correction`, 0 by default."""

    def function(x: Tensor, dims: list[int], keepdim: bool) -> Tensor:
        return _var(x, dims, correction, keepdim)

    return reduced("var", function, x, axis, keepdims)


def _var(x: Tensor, dims: list[int], correction: int | float, keepdim: bool) -> Tensor:
    if correction == int(correction):
        return hlx.var(x, dims, correction=int(correction), keepdim=keepdim)
    n = 1
    for dim in dims:
        n *= x.shape[dim]
    return hlx.var(x, dims, correction=0, keepdim=keepdim) * (n / (n - correction))


def std(x: Tensor, /, *, axis: Axes | None = None, correction: int | float = 0.0, keepdims: bool = False) -> Tensor:
    """The square root of the variance."""
    return hlx.sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def all(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Tells whether all elements are other than 0."""
    return reduced("all", hlx.all, hlx.ne(x, 0) if x.dtype != hlx.bool else x, axis, keepdims)


def any(x: Tensor, /, *, axis: Axes | None = None, keepdims: bool = False) -> Tensor:
    """Tells whether an element is other than 0."""
    return reduced("any", hlx.any, hlx.ne(x, 0) if x.dtype != hlx.bool else x, axis, keepdims)


def _cumulative(
    op: str, function: Callable[..., Tensor], x: Tensor, axis: int | None, dtype: Dtype | None, first: int | None
) -> Tensor:
    if axis is None:
        if x.ndim != 1:
            raise errors.ValueError(f"{op}: axis is None, but the array has {x.ndim} axes")
        axis = 0
    axis = place(op, axis, x.ndim)
    x, dtype = _in_sum_type(x, dtype)
    running = function(x, axis).to(dtype)
    if first is None:
        return running
    shape = [1 if i == axis else extent for i, extent in enumerate(x.shape)]
    return hlx.cat([hlx.full(shape, first, dtype=dtype, device=x.device), running], dim=axis)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False
) -> Tensor:
    """The sums of the first elements along an axis, from no element on with `include_initial`."""
    return _cumulative("cumulative_sum", hlx.cumsum, x, axis, dtype, 0 if include_initial else None)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: Dtype | None = None, include_initial: bool = False
) -> Tensor:
    """The products of the first elements along an axis, from no element on with `include_initial`."""
    return _cumulative("cumulative_prod", hlx.cumprod, x, axis, dtype, 1 if include_initial else None)


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """The differences of neighbours along an axis, n times."""
    axis = place("diff", axis, x.ndim)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        dtype = result_type(*parts)
        x = hlx.cat([part.to(dtype) for part in parts], dim=axis)
    for _ in range(n):
        length = builtins.max(x.shape[axis] - 1, 0)
        later, sooner = hlx.narrow(x, axis, x.shape[axis] - length, length), hlx.narrow(x, axis, 0, length)
        x = hlx.logical_xor(later, sooner) if x.dtype == hlx.bool else later - sooner
    return x
