"""Reductions of the elements that an index writes to one place: products and extremes, by a segmented scan."""

from hlx import _hlx, errors
from hlx._operations._arguments import whole_range
from hlx._operations._register import operation
from hlx._operations._types import BOOL, INT32, Tensor
from hlx.autograd import Function, FunctionCtx

_unary, _binary = _hlx.unary, _hlx.binary

#: The reductions, and the binary operation of each.
_STEPS = {"prod": "mul", "amax": "maximum", "amin": "minimum"}


def _part(source: Tensor, index: Tensor) -> Tensor:
    """The elements of a source that an index names."""
    for dim, extent in enumerate(index.shape):
        source = _hlx.narrow(source, dim, 0, extent)
    return source


def reduced(input: Tensor, dim: int, index: Tensor, source: Tensor, step: str, include_self: bool = True) -> Tensor:
    """Joins what an index writes to one place by an operation, in the order of the index, and with what is there.

    Sorted by their places the elements are runs; after log2(n) sweeps over doubled distances each holds the result
    of its run up to it, and the last one is written.
    """
    if index.numel() == 0:
        return _hlx.clone(input)
    flat = _hlx.reshape(input, [-1])
    places = whole_range(input.device, input.numel())
    places = _hlx.gather(_hlx.reshape(places, list(input.shape)), dim, index)
    places, order = _hlx.sort(_hlx.reshape(places, [-1]), 0, False)
    values = _hlx.index_select(_hlx.reshape(_part(source, index), [-1]), 0, order)
    n, distance = index.numel(), 1
    while distance < n:
        rest = n - distance
        same = _binary(_hlx.narrow(places, 0, distance, rest), _hlx.narrow(places, 0, 0, rest), "eq")
        now = _hlx.narrow(values, 0, distance, rest)
        joined = _binary(_hlx.narrow(values, 0, 0, rest), now, step)
        values = _hlx.cat([_hlx.narrow(values, 0, 0, distance), _hlx.where_(joined, same, now)], 0)
        distance *= 2
    written = _hlx.scatter(flat, 0, places, values)
    if include_self:
        everywhere = _hlx.ones(input.device, [n], BOOL)
        is_written = _hlx.scatter(_hlx.zeros(input.device, [input.numel()], BOOL), 0, places, everywhere)
        written = _hlx.where_(_binary(flat, written, step), is_written, flat)
    return _hlx.reshape(written, list(input.shape))


class _Extreme(Function):
    """The largest or smallest of what is written to a place; equal ones share the gradient evenly."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, input: Tensor, source: Tensor, index: Tensor, dim: int, how: tuple[str, bool]
    ) -> Tensor:
        result = reduced(input, dim, index, source, *how)
        ctx.save_for_backward(input, source, index, result)
        ctx.dim, ctx.include_self = dim, how[1]  # type: ignore[attr-defined]
        return result

    @staticmethod
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor | None, ...]:
        input, source, index, result = ctx.saved_tensors
        assert input is not None and source is not None and index is not None and result is not None
        dim, include_self = ctx.dim, ctx.include_self  # type: ignore[attr-defined]
        equal = _hlx.to_dtype(_binary(_part(source, index), _hlx.gather(result, dim, index), "eq"), dy.dtype)
        own = _hlx.to_dtype(_binary(input, result, "eq"), dy.dtype)
        if not include_self:
            ones = _hlx.ones(input.device, list(index.shape), dy.dtype)
            written = _hlx.scatter(_hlx.zeros(input.device, list(input.shape), dy.dtype), dim, index, ones)
            own = _binary(1.0, written, "sub")
        share = _binary(dy, _hlx.scatter_add(own, dim, index, equal), "div")
        of_source = _binary(_hlx.gather(share, dim, index), equal, "mul")
        missing = [(0, full - used) for full, used in zip(source.shape, index.shape, strict=True)]
        return _binary(share, own, "mul"), _hlx.pad(of_source, missing[::-1], "constant", 0.0), None, None, None


@operation
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Reduces elements at places along a dimension: `reduce` is "sum", "mean", "prod", "amax" or "amin".

    Without `include_self` the places that are written begin from nothing.

    >>> hlx.scatter_reduce(hlx.ones(2), 0, hlx.tensor([0, 0]), hlx.tensor([2.0, 3.0]), "sum").tolist()
    [6.0, 1.0]
    """
    if reduce in ("sum", "mean"):
        return _summed(input, dim, index, src, reduce, include_self)
    if reduce not in _STEPS:
        raise errors.ValueError(f"scatter_reduce: reduce is {reduce!r}, expected one of sum, mean, prod, amax, amin")
    if input.ndim == 0:
        index, src = _hlx.reshape(index, [index.numel()]), _hlx.reshape(src, [src.numel()])
        return _hlx.reshape(
            scatter_reduce(_hlx.reshape(input, [1]), 0, index, src, reduce, include_self=include_self), []
        )
    if reduce == "prod":
        return reduced(input, dim, index, src, "mul", include_self)
    result: Tensor = _Extreme.apply(input, src, index, dim, (_STEPS[reduce], include_self))
    return result


def _summed(input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, include_self: bool) -> Tensor:
    ones = _hlx.ones(input.device, list(index.shape), INT32)
    counts = _hlx.scatter_add(_hlx.zeros(input.device, list(input.shape), INT32), dim, index, ones)
    start = input if include_self else _hlx.masked_fill(input, _binary(counts, 0, "gt"), 0)
    total = _hlx.scatter_add(start, dim, index, src)
    if reduce == "sum":
        return total
    divisor = _binary(counts, 1, "add") if include_self else _hlx.clamp_min(counts, 1)
    if input.dtype.is_floating_point:
        return _hlx.to_dtype(_binary(total, divisor, "div"), input.dtype)
    return _hlx.to_dtype(_hlx.div_rounded(total, divisor, "floor"), input.dtype)
