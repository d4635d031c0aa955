"""Covariances, integrals by the trapezoidal rule, and other figures of samples."""

import itertools

from hlx import _hlx, errors
from hlx._operations._arguments import axis
from hlx._operations._register import function, operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import FLOAT32, INT32, Number, Tensor

_unary, _binary = _hlx.unary, _hlx.binary


def _weights(fweights: Tensor | None, aweights: Tensor | None) -> Tensor | None:
    given = [each for each in (fweights, aweights) if each is not None]
    return _binary(*given, "mul") if len(given) == 2 else given[0] if given else None


@operation
@rounded_once
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Computes the covariances of variables, the rows, over observations, the columns.

    `fweights` counts an observation several times, `aweights` weighs it.

    >>> hlx.cov(hlx.tensor([[0.0, 2.0], [0.0, 4.0]])).tolist()
    [[2.0, 4.0], [4.0, 8.0]]
    """
    if input.ndim > 2:
        raise errors.RuntimeError(f"cov: the input has shape {list(input.shape)}, expected at most 2 dimensions")
    rows = input if input.dtype.is_floating_point else _hlx.to_dtype(input, FLOAT32)
    rows = _hlx.reshape(rows, [1, input.numel()]) if input.ndim < 2 else rows
    n, weights = rows.shape[1], _weights(fweights, aweights)
    if weights is None:
        centred = _binary(rows, _hlx.mean_dim(rows, [1], True), "sub")
        products = _hlx.matmul(centred, _hlx.transpose(centred, 0, 1))
        return _squeezed(_binary(products, float(max(n - correction, 0)), "div"))
    total = _hlx.sum_dim(weights, [], False)
    mean = _binary(_hlx.sum_dim(_binary(rows, weights, "mul"), [1], True), total, "div")
    centred = _binary(rows, mean, "sub")
    lost: Tensor | int = correction
    if aweights is not None and correction:
        squares = _hlx.sum_dim(_binary(weights, aweights, "mul"), [], False)
        lost = _binary(_binary(squares, correction, "mul"), total, "div")
    products = _hlx.matmul(centred, _hlx.transpose(_binary(centred, weights, "mul"), 0, 1))
    result = _binary(products, _hlx.clamp_min(_binary(total, lost, "sub"), 0.0), "div")
    return _squeezed(result)


def _squeezed(matrix: Tensor) -> Tensor:
    # That of one variable is a number.
    return _hlx.reshape(matrix, []) if matrix.numel() == 1 else matrix


@operation
@rounded_once
def corrcoef(input: Tensor) -> Tensor:
    """Computes the correlations of variables, the rows, over observations, the columns.

    >>> hlx.corrcoef(hlx.tensor([[0.0, 2.0], [0.0, 4.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    covariances = cov(input)
    if covariances.ndim == 0:
        return _binary(covariances, covariances, "div")
    deviations = _unary(_hlx.diagonal(covariances, 0, 0, 1), "sqrt")
    rows = _binary(covariances, _hlx.unsqueeze(deviations, 1), "div")
    return _hlx.clamp_max(_hlx.clamp_min(_binary(rows, deviations, "div"), -1.0), 1.0)


def _strips(operation: str, y: Tensor, x: Tensor | None, dx: Number, dim: int) -> tuple[Tensor, int]:
    dim = axis(operation, dim, y.ndim)
    n = y.shape[dim]
    if n == 0:
        return y, dim
    pair = _binary(_hlx.narrow(y, dim, 1, n - 1), _hlx.narrow(y, dim, 0, n - 1), "add")
    if x is None:
        return _binary(pair, dx / 2, "mul"), dim
    if x.ndim == 1:
        x = _hlx.reshape(x, [n if i == dim else 1 for i in range(y.ndim)])
    own = axis(operation, dim - y.ndim, x.ndim)
    width = _binary(_hlx.narrow(x, own, 1, n - 1), _hlx.narrow(x, own, 0, n - 1), "sub")
    return _binary(_binary(pair, width, "mul"), 0.5, "mul"), dim


@function("trapezoid", "trapz")
@rounded_once
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1.0, dim: int = -1) -> Tensor:
    """Integrates along a dimension by the trapezoidal rule, at places x or distances dx.

    >>> hlx.trapezoid(hlx.tensor([1.0, 3.0, 5.0])).item()
    6.0
    """
    strips, named = _strips("trapezoid", y, x, dx, dim)
    return _hlx.sum_dim(strips, [named], False)


@function
@rounded_once
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number = 1.0, dim: int = -1) -> Tensor:
    """Integrates along a dimension up to each place by the trapezoidal rule.

    >>> hlx.cumulative_trapezoid(hlx.tensor([1.0, 3.0, 5.0])).tolist()
    [2.0, 6.0]
    """
    strips, named = _strips("cumulative_trapezoid", y, x, dx, dim)
    return _hlx.cumsum(strips, named)


@function
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Makes the rows of all combinations of r elements of a vector.

    >>> hlx.combinations(hlx.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    if input.ndim != 1 or r < 0:
        raise errors.RuntimeError(
            f"combinations: the input has shape {list(input.shape)} and r is {r}, expected a vector"
        )
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(input.shape[0]), r)) if r else []
    places = [place for row in chosen for place in row]
    index = _hlx.tensor(places, INT32, input.device) if places else _hlx.zeros(input.device, [0], INT32)
    return _hlx.reshape(_hlx.index_select(input, 0, index), [len(chosen), r] if r else [0])


@operation
def histc(input: Tensor, bins: int = 100, min: Number = 0, max: Number = 0) -> Tensor:
    """Counts elements in equal bins from min to max, or over their range; waits for it.

    >>> hlx.histc(hlx.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    flat = _hlx.to_dtype(_hlx.reshape(_hlx.detach(input), [-1]), FLOAT32)
    low, high = float(min), float(max)
    if low == high and flat.numel():
        low, high = _hlx.amin(flat, [], False).item(), _hlx.amax(flat, [], False).item()
    if low == high:
        low, high = low - 1, high + 1
    within = _binary(_binary(flat, low, "ge"), _binary(flat, high, "le"), "logical_and")
    chosen = _hlx.masked_select(flat, within)
    places = _unary(_binary(_binary(_binary(chosen, low, "sub"), bins, "mul"), high - low, "div"), "floor")
    places = _hlx.to_dtype(_hlx.clamp_max(places, float(bins - 1)), INT32)
    counts = _hlx.zeros(input.device, [bins], FLOAT32)
    counts = _hlx.index_add(counts, 0, places, _hlx.ones(input.device, [places.numel()], FLOAT32))
    return _hlx.to_dtype(counts, input.dtype)
