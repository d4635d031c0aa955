"""Quantiles, and medians and quantiles of the elements that are not NaN."""

import math
from typing import overload

from hlx import _hlx, errors, return_types
from hlx._operations._arguments import axis
from hlx._operations._register import operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import INT32, Tensor

_unary, _binary = _hlx.unary, _hlx.binary


@operation
@rounded_once
def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Computes quantiles, of all elements or along a dimension, between the neighbours in order; NaN if one is.

    `interpolation` is "linear", "lower", "higher", "nearest" or "midpoint". Several q are the first dimension.

    >>> hlx.quantile(hlx.tensor([0.0, 1.0, 2.0, 3.0]), 0.5).item()
    1.5
    """
    words = ("linear", "lower", "higher", "nearest", "midpoint")
    if interpolation not in words:
        raise errors.RuntimeError(f"quantile: interpolation is {interpolation!r}, expected one of {words}")
    line = _hlx.reshape(input, [-1]) if dim is None else input
    named = axis("quantile", 0 if dim is None else dim, line.ndim)
    line = line if line.ndim else _hlx.reshape(line, [1])
    several = isinstance(q, Tensor) and q.ndim > 0
    values = _hlx.sort(line, named, False)[0]
    last = _hlx.narrow(values, named, line.shape[named] - 1, 1)
    flat = list(_hlx.reshape(q, [-1])) if isinstance(q, Tensor) else [q]
    found = [_between(values, named, each, interpolation) for each in flat]
    found = [_hlx.where_(last, _unary(last, "isnan"), one) for one in found]
    if keepdim and (dim is None or input.ndim == 0):
        found = [_hlx.reshape(one, [1] * input.ndim) for one in found]
    elif not keepdim:
        found = [_hlx.squeeze(one, named) for one in found]
    return _hlx.stack(found, 0) if several else found[0]


def _between(values: Tensor, dim: int, q: float | Tensor, interpolation: str) -> Tensor:
    n = values.shape[dim]
    place = float(q) * (n - 1)
    if not 0 <= place <= n - 1:
        raise errors.RuntimeError(f"quantile: q is {float(q)}, expected 0 to 1")
    low, high = math.floor(place), math.ceil(place)
    if interpolation in ("lower", "higher", "nearest"):
        at = {"lower": low, "higher": high, "nearest": round(place)}[interpolation]
        return _hlx.narrow(values, dim, at, 1)
    weight: float | Tensor = 0.5 if interpolation == "midpoint" else place - low
    if isinstance(q, Tensor) and q.requires_grad and interpolation == "linear":
        weight = _binary(_binary(q, float(n - 1), "mul"), float(low), "sub")
    below, above = _hlx.narrow(values, dim, low, 1), _hlx.narrow(values, dim, high, 1)
    return _binary(below, _binary(_binary(above, below, "sub"), weight, "mul"), "add")


def _numbers(line: Tensor, dim: int) -> Tensor:
    """How many elements of each line are not NaN."""
    return _hlx.sum_dim(_unary(_unary(line, "isnan"), "logical_not"), [dim], True)


@overload
def nanmedian(input: Tensor, dim: None = None, keepdim: bool = False) -> Tensor: ...
@overload
def nanmedian(input: Tensor, dim: int, keepdim: bool = False) -> return_types.nanmedian: ...
@operation
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor | return_types.nanmedian:
    """Takes the lower of the middle elements that are not NaN, of all or along a dimension with its place.

    >>> hlx.nanmedian(hlx.tensor([3.0, float("nan"), 1.0])).item()
    1.0
    """
    line = _hlx.reshape(input, [-1]) if dim is None or input.ndim == 0 else input
    named = axis("nanmedian", 0 if dim is None else dim, line.ndim)
    if line.shape[named] == 0:
        raise errors.IndexError(f"nanmedian: the input has shape {list(input.shape)}, expected elements")
    values, places = _hlx.sort(line, named, False)
    # A line of NaN alone has its first element.
    middle = _hlx.clamp_min(_hlx.div_rounded(_binary(_numbers(line, named), 1, "sub"), 2, "floor"), 0)
    value, place = _hlx.gather(values, named, middle), _hlx.gather(places, named, middle)
    if dim is None:
        return _hlx.reshape(value, [])
    if input.ndim == 0:
        return return_types.nanmedian(_hlx.reshape(value, []), _hlx.reshape(place, []))
    if not keepdim:
        value, place = _hlx.squeeze(value, named), _hlx.squeeze(place, named)
    return return_types.nanmedian(value, place)


@operation
@rounded_once
def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Computes quantiles of the elements that are not NaN, as `quantile`; a line of NaN alone gives NaN.

    >>> hlx.nanquantile(hlx.tensor([0.0, float("nan"), 1.0]), 0.5).item()
    0.5
    """
    words = ("linear", "lower", "higher", "nearest", "midpoint")
    if interpolation not in words:
        raise errors.RuntimeError(f"nanquantile: interpolation is {interpolation!r}, expected one of {words}")
    line = _hlx.reshape(input, [-1]) if dim is None or input.ndim == 0 else input
    named = axis("nanquantile", 0 if dim is None else dim, line.ndim)
    several = isinstance(q, Tensor) and q.ndim > 0
    values = _hlx.sort(line, named, False)[0]
    last = _hlx.clamp_min(_binary(_numbers(line, named), 1, "sub"), 0)
    flat = list(_hlx.reshape(q, [-1])) if isinstance(q, Tensor) else [q]
    found = [_among_numbers(values, last, named, each, interpolation) for each in flat]
    if keepdim and (dim is None or input.ndim == 0):
        found = [_hlx.reshape(one, [1] * input.ndim) for one in found]
    elif not keepdim:
        found = [_hlx.squeeze(one, named) for one in found]
    return _hlx.stack(found, 0) if several else found[0]


def _among_numbers(values: Tensor, last: Tensor, dim: int, q: float | Tensor, interpolation: str) -> Tensor:
    if not 0 <= float(q) <= 1:
        raise errors.RuntimeError(f"nanquantile: q is {float(q)}, expected 0 to 1")
    place = _binary(last, q if isinstance(q, Tensor) else float(q), "mul")
    rounding = {"lower": "floor", "higher": "ceil", "nearest": "round"}.get(interpolation)
    if rounding is not None:
        return _hlx.gather(values, dim, _hlx.to_dtype(_unary(_hlx.detach(place), rounding), INT32))
    low = _unary(_hlx.detach(place), "floor")
    below = _hlx.gather(values, dim, _hlx.to_dtype(low, INT32))
    above = _hlx.gather(values, dim, _hlx.to_dtype(_unary(_hlx.detach(place), "ceil"), INT32))
    weight = 0.5 if interpolation == "midpoint" else _binary(place, low, "sub")
    return _binary(below, _binary(_binary(above, below, "sub"), weight, "mul"), "add")
