"""Running extremes and sums of exponentials along a dimension, by doubled distances."""

from collections.abc import Callable

from hlx import _hlx, return_types
from hlx._operations._arguments import axis as place_of
from hlx._operations._arguments import required, whole_range
from hlx._operations._register import operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import INT32, Tensor
from hlx._operations.pairs import logaddexp

_unary, _binary = _hlx.unary, _hlx.binary


def _extreme(operation: str, input: Tensor, dim: int, at_least: str) -> tuple[Tensor, Tensor]:
    """The extremes so far with their places, the last of equal ones; NaN is more extreme than all."""
    dim = place_of(operation, dim, input.ndim)
    if input.ndim == 0:
        return input, _hlx.zeros(input.device, [], INT32)
    n, values = input.shape[dim], _hlx.detach(input)
    along = [n if axis == dim else 1 for axis in range(input.ndim)]
    places = _hlx.reshape(whole_range(input.device, n), along)
    places = _hlx.contiguous(_hlx.expand(places, list(input.shape)))
    distance = 1
    while distance < n:
        rest = n - distance
        before, now = _hlx.narrow(values, dim, 0, rest), _hlx.narrow(values, dim, distance, rest)
        stays = _binary(now, before, at_least)
        if input.dtype.is_floating_point:
            stays = _binary(stays, _unary(_unary(before, "isnan"), "logical_not"), "logical_and")
            stays = _binary(stays, _unary(now, "isnan"), "logical_or")
        chosen = _hlx.where_(_hlx.narrow(places, dim, distance, rest), stays, _hlx.narrow(places, dim, 0, rest))
        values = _hlx.cat([_hlx.narrow(values, dim, 0, distance), _hlx.where_(now, stays, before)], dim)
        places = _hlx.cat([_hlx.narrow(places, dim, 0, distance), chosen], dim)
        distance *= 2
    return _hlx.gather(input, dim, places), places


@operation
def cummax(input: Tensor, dim: int | None = None, *, axis: int | None = None) -> return_types.cummax:
    """Takes the largest elements so far along a dimension, with their places, the last of equal ones.

    >>> hlx.cummax(hlx.tensor([1.0, 3.0, 2.0]), dim=0).values.tolist()
    [1.0, 3.0, 3.0]
    """
    return return_types.cummax(*_extreme("cummax", input, required("cummax", dim, axis), "ge"))


@operation
def cummin(input: Tensor, dim: int | None = None, *, axis: int | None = None) -> return_types.cummin:
    """Takes the smallest elements so far along a dimension, with their places, the last of equal ones.

    >>> hlx.cummin(hlx.tensor([3.0, 1.0, 2.0]), dim=0).indices.tolist()
    [0, 1, 1]
    """
    return return_types.cummin(*_extreme("cummin", input, required("cummin", dim, axis), "le"))


def _doubled(input: Tensor, dim: int, join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    n, distance = input.shape[dim], 1
    while distance < n:
        before = _hlx.narrow(input, dim, 0, n - distance)
        joined = join(_hlx.narrow(input, dim, distance, n - distance), before)
        input = _hlx.cat([_hlx.narrow(input, dim, 0, distance), joined], dim)
        distance *= 2
    return input


@operation
@rounded_once
def logcumsumexp(input: Tensor, dim: int | None = None, *, axis: int | None = None) -> Tensor:
    """Computes `log(cumsum(exp(x)))` along a dimension, from the larger of each pair of sums.

    >>> hlx.logcumsumexp(hlx.tensor([0.0, -hlx.inf]), dim=0).tolist()
    [0.0, 0.0]
    """
    named = required("logcumsumexp", dim, axis)
    dim = place_of("logcumsumexp", named, input.ndim)
    if input.ndim == 0 or input.numel() == 0:
        return input
    # Distances from the largest element of a line keep their digits.
    top = _hlx.amax(_hlx.detach(input), [dim], True)
    top = _hlx.where_(top, _unary(top, "isfinite"), 0.0)
    return _binary(_doubled(_binary(input, top, "sub"), dim, logaddexp), top, "add")
