"""Sums, means, products, spreads, norms and truth values along dimensions, and running sums.

A dimension, several or none may be named; none, or an empty list, stands for all. Reduced dimensions are
dropped, or stay with extent 1 if `keepdim` is set. With `dtype` the elements are converted first. NumPy's
words `axis` and `keepdims` are taken, too.
"""

import builtins

from hlx import _hlx, errors
from hlx._operations._arguments import axes, converted, dimensions, required
from hlx._operations._arguments import axis as place_of
from hlx._operations._register import function, method, operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import BOOL, FLOAT32, UINT8, Dims, Number, Tensor, dtype

_unary, _binary = _hlx.unary, _hlx.binary


def _dims(dim: Dims, axis: Dims) -> list[int]:
    # NumPy's word for a dimension is taken, too.
    return dimensions(dim if axis is None else axis)


def _typed(result: Tensor, dtype: dtype | None) -> Tensor:
    # Sums of narrow integers are i32; the type that was named is the result's too.
    return converted(result, dtype)


@operation
def sum(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Sums elements in a written order; integers and bool as i32, f16 and bf16 in f32.

    >>> hlx.sum(hlx.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=1).tolist()
    [3.0, 7.0]
    """
    return _typed(_hlx.sum_dim(converted(input, dtype), _dims(dim, axis), keepdim or keepdims), dtype)


@operation
def nansum(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Sums the elements that are not NaN.

    >>> hlx.nansum(hlx.tensor([1.0, float("nan")])).item()
    1.0
    """
    numbers = _hlx.masked_fill(input, _unary(input, "isnan"), 0)
    return sum(numbers, _dims(dim, axis), keepdim or keepdims, dtype=dtype)


@operation
def mean(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Computes the mean, the sum times 1 / n; of floats.

    >>> hlx.mean(hlx.tensor([1.0, 2.0, 6.0])).item()
    3.0
    """
    return _typed(_hlx.mean_dim(converted(input, dtype), _dims(dim, axis), keepdim or keepdims), dtype)


@operation
@rounded_once
def nanmean(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Computes the mean of the elements that are not NaN.

    >>> hlx.nanmean(hlx.tensor([1.0, 3.0, float("nan")])).item()
    2.0
    """
    input = converted(input, dtype)
    numbers = _unary(_unary(input, "isnan"), "logical_not")
    dims, keepdim = _dims(dim, axis), keepdim or keepdims
    return _binary(nansum(input, dims, keepdim), _hlx.sum_dim(numbers, dims, keepdim), "div")


@operation
def prod(
    input: Tensor,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Multiplies elements; integers and bool as i32. A factor of 0 leaves the others their gradients.

    >>> hlx.prod(hlx.tensor([2.0, 3.0, 4.0])).item()
    24.0
    """
    return _typed(_hlx.prod(converted(input, dtype), _dims(dim, axis), keepdim or keepdims), dtype)


def _truth(input: Tensor, result: Tensor) -> Tensor:
    # PyTorch's truth values of uint8 are uint8.
    return _hlx.to_dtype(result, UINT8) if input.dtype == UINT8 else result


@operation
def any(input: Tensor, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None, keepdims: bool = False) -> Tensor:
    """Tells whether an element is other than 0; of uint8 as uint8.

    >>> hlx.any(hlx.tensor([False, True])).item()
    True
    """
    return _truth(input, _hlx.any(input, _dims(dim, axis), keepdim or keepdims))


@operation
def all(input: Tensor, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None, keepdims: bool = False) -> Tensor:
    """Tells whether all elements are other than 0; of uint8 as uint8.

    >>> hlx.all(hlx.tensor([False, True])).item()
    False
    """
    return _truth(input, _hlx.all(input, _dims(dim, axis), keepdim or keepdims))


@operation
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Counts the elements other than 0.

    >>> hlx.count_nonzero(hlx.tensor([0, 3, 4])).item()
    2
    """
    return _hlx.sum_dim(_binary(input, 0, "ne"), dimensions(dim), False)


def _spread_arguments(dim: Dims | bool, unbiased: bool | None, correction: Number | None) -> tuple[list[int], float]:
    # The one argument by place is the dimensions, or the older `unbiased`.
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else builtins.int(unbiased)
    return dimensions(dim), builtins.float(correction)


@operation
def var(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Computes the variance: squared distances from the mean over n - `correction`, which is 1 by default.

    `unbiased` is the older form of a correction of 1 or 0.

    >>> hlx.var(hlx.tensor([1.0, 2.0, 3.0])).item()
    1.0
    """
    dims, correction = _spread_arguments(dim if axis is None else axis, unbiased, correction)
    keepdim = keepdim or keepdims
    return _hlx.var(input, dims, correction, keepdim)


@operation
def std(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Computes the standard deviation, the root of `var`; its gradient at 0 is 0.

    >>> hlx.std(hlx.tensor([1.0, 2.0, 3.0])).item()
    1.0
    """
    dims, correction = _spread_arguments(dim if axis is None else axis, unbiased, correction)
    keepdim = keepdim or keepdims
    return _hlx.std(input, dims, correction, keepdim)


@function
def var_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> tuple[Tensor, Tensor]:
    """Computes the variance and the mean.

    >>> [t.item() for t in hlx.var_mean(hlx.tensor([1.0, 2.0, 3.0]))]
    [1.0, 2.0]
    """
    dims, correction = _spread_arguments(dim if axis is None else axis, unbiased, correction)
    keepdim = keepdim or keepdims
    return _hlx.var(input, dims, correction, keepdim), _hlx.mean_dim(input, dims, keepdim)


@function
def std_mean(
    input: Tensor,
    dim: Dims | bool = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: Number | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> tuple[Tensor, Tensor]:
    """Computes the standard deviation and the mean.

    >>> [t.item() for t in hlx.std_mean(hlx.tensor([1.0, 2.0, 3.0]))]
    [1.0, 2.0]
    """
    dims, correction = _spread_arguments(dim if axis is None else axis, unbiased, correction)
    keepdim = keepdim or keepdims
    return _hlx.std(input, dims, correction, keepdim), _hlx.mean_dim(input, dims, keepdim)


@operation
def norm(
    input: Tensor,
    p: Number | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
) -> Tensor:
    """Computes the p-norm of the elements: "fro" is 2, infinity the largest magnitude, 0 counts those other than 0.

    >>> hlx.norm(hlx.tensor([3.0, 4.0])).item()
    5.0
    """
    if isinstance(p, str) and p != "fro":
        raise errors.ValueError(f"norm: p is {p!r}, expected a number or 'fro'")
    order = 2.0 if p is None or isinstance(p, str) else builtins.float(p)
    return _hlx.norm(converted(input, dtype), order, dimensions(dim), keepdim)


@operation
def logsumexp(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None, keepdims: bool = False
) -> Tensor:
    """Computes `log(sum(exp(x)))` from the distances to the largest element.

    >>> hlx.logsumexp(hlx.tensor([0.0, -hlx.inf]), dim=0).item()
    0.0
    """
    if not input.dtype.is_floating_point:
        input = _hlx.to_dtype(input, FLOAT32)
    if dim is None and axis is None:
        raise errors.TypeError("logsumexp: dim is missing")
    return _hlx.logsumexp(input, _dims(dim, axis), keepdim or keepdims)


@operation
def cumsum(input: Tensor, dim: int | None = None, *, dtype: dtype | None = None, axis: int | None = None) -> Tensor:
    """Computes the sums so far along a dimension.

    >>> hlx.cumsum(hlx.tensor([1.0, 2.0, 3.0]), dim=0).tolist()
    [1.0, 3.0, 6.0]
    """
    return _typed(_hlx.cumsum(converted(input, dtype), required("cumsum", dim, axis)), dtype)


@operation
def cumprod(input: Tensor, dim: int | None = None, *, dtype: dtype | None = None, axis: int | None = None) -> Tensor:
    """Computes the products so far along a dimension.

    >>> hlx.cumprod(hlx.tensor([1.0, 2.0, 3.0]), dim=0).tolist()
    [1.0, 2.0, 6.0]
    """
    return _typed(_hlx.cumprod(converted(input, dtype), required("cumprod", dim, axis)), dtype)


@operation
@rounded_once
def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Computes the differences of neighbours along a dimension, n times.

    >>> hlx.diff(hlx.tensor([1.0, 4.0, 9.0])).tolist()
    [3.0, 5.0]
    """
    if input.ndim == 0:
        raise errors.RuntimeError("diff: the input has shape [], expected at least one dimension")
    if n == 0:
        return input
    dim = place_of("diff", dim, input.ndim)
    ends = [end for end in (prepend, input, append) if end is not None]
    if len(ends) > 1:
        input = _hlx.cat(ends, dim)
    for _ in range(n):
        extent = builtins.max(input.shape[dim] - 1, 0)
        start = builtins.min(1, input.shape[dim])
        after, before = _hlx.narrow(input, dim, start, extent), _hlx.narrow(input, dim, 0, extent)
        input = _binary(after, before, "logical_xor" if input.dtype == BOOL else "sub")
    return input


@operation
@rounded_once
def trace(input: Tensor) -> Tensor:
    """Sums the diagonal of a matrix.

    >>> hlx.trace(hlx.tensor([[1.0, 2.0], [3.0, 4.0]])).item()
    5.0
    """
    if input.ndim != 2:
        raise errors.RuntimeError(f"trace: the input has shape {list(input.shape)}, expected a matrix")
    return _hlx.sum_dim(_hlx.diagonal(input, 0, 0, 1), [], False)


@operation
@rounded_once
def renorm(input: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """Scales the slices along a dimension whose p-norm is above `maxnorm` down to it.

    >>> hlx.renorm(hlx.tensor([[3.0, 4.0]]), 2, 0, 2.5).tolist()
    [[1.5, 2.0]]
    """
    kept = place_of("renorm", dim, input.ndim)
    others = [other for other in axes("renorm", None, input.ndim) if other != kept]
    norms = _hlx.norm(input, builtins.float(p), others, True)
    factor = _binary(maxnorm, _binary(norms, 1e-7, "add"), "div")
    return _binary(input, _hlx.where_(factor, _binary(norms, maxnorm, "gt"), 1.0), "mul")


@method
def sum_to_size(input: Tensor, *size: int) -> Tensor:
    """Sums to a shape that broadcasts to the input's.

    >>> hlx.ones(2, 3).sum_to_size(1, 3).tolist()
    [[2.0, 2.0, 2.0]]
    """
    shape = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
    if not shape:
        return _hlx.sum_dim(input, [], False)
    leading = input.ndim - len(shape)
    fits = leading >= 0 and builtins.all(
        extent in (1, own) for extent, own in zip(shape, input.shape[leading:], strict=True)
    )
    if not fits:
        raise errors.RuntimeError(f"sum_to_size: {shape} does not broadcast to {list(input.shape)}")
    first = list(range(leading))
    if first:
        input = _hlx.sum_dim(input, first, False)
    rest = [i for i, extent in enumerate(shape) if extent == 1 and input.shape[i] != 1]
    return _hlx.sum_dim(input, rest, True) if rest else input
