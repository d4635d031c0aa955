"""Functions of two operands that are made of others."""

import math

from hlx import _hlx
from hlx._operations._arguments import is_number, left_tensor, tensor_of
from hlx._operations._register import operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import BOOL, Operand, Tensor


@operation
@rounded_once
def hypot(input: Tensor, other: Tensor) -> Tensor:
    """Computes `sqrt(input^2 + other^2)` from the ratio of both, without overflow.

    >>> hlx.hypot(hlx.tensor([3.0]), hlx.tensor([4.0])).tolist()
    [5.0]
    """
    one, two = _hlx.unary(input, "abs"), _hlx.unary(other, "abs")
    largest = _hlx.binary(one, two, "maximum").detach()
    # A ratio by 0 or infinity is none: such elements are scaled by 1.
    usual = _hlx.binary(_hlx.binary(largest, 0, "gt"), _hlx.binary(largest, math.inf, "lt"), "logical_and")
    unit = _hlx.where_(largest, usual, 1.0)
    squares = [_hlx.unary(_hlx.binary(side, unit, "div"), "square") for side in (one, two)]
    length = _hlx.binary(_hlx.unary(_hlx.binary(*squares, "add"), "sqrt"), unit, "mul")
    infinite = [_hlx.binary(side, math.inf, "eq") for side in (one, two)]
    return _hlx.masked_fill(length, _hlx.binary(*infinite, "logical_or"), math.inf)


def _log_of_sum(input: Tensor, other: Tensor, exponential: str, base: float) -> Tensor:
    """log(base^input + base^other) from the larger one, with the derivatives that it has between equal ones."""
    top = _hlx.binary(input, other, "maximum")
    distance = _hlx.binary(input, other, "sub")
    same = _hlx.binary(input, other, "eq")
    # Equal infinite ones have no difference.
    apart = _hlx.unary(_hlx.unary(_hlx.masked_fill(distance, same, 0), "abs"), "neg")
    rest = _hlx.unary(_hlx.unary(apart, exponential), "log1p")
    result = _hlx.binary(top, rest if base == math.e else _hlx.binary(rest, 1 / math.log(base), "mul"), "add")
    if not result.requires_grad:
        return result
    # Beside equal ones the logarithm bends as this square does, which is 0.
    near = _hlx.binary(same, _hlx.unary(top, "isfinite"), "logical_and")
    square = _hlx.unary(_hlx.masked_fill(distance, _hlx.unary(near, "logical_not"), 0), "square")
    return _hlx.binary(result, _hlx.binary(square, math.log(base) / 8, "mul"), "add")


@operation
@rounded_once
def logaddexp(input: Tensor, other: Tensor) -> Tensor:
    """Computes `log(exp(input) + exp(other))` from the larger one.

    >>> hlx.logaddexp(hlx.tensor([0.0]), hlx.tensor([-hlx.inf])).tolist()
    [0.0]
    """
    return _log_of_sum(input, other, "exp", math.e)


@operation
@rounded_once
def logaddexp2(input: Tensor, other: Tensor) -> Tensor:
    """Computes `log2(2^input + 2^other)` from the larger one.

    >>> hlx.logaddexp2(hlx.tensor([3.0]), hlx.tensor([3.0])).tolist()
    [4.0]
    """
    return _log_of_sum(input, other, "exp2", 2.0)


@operation
@rounded_once
def xlogy(input: Operand, other: Operand) -> Tensor:
    """Computes `input log(other)`, 0 where the input is 0 and NaN where the other is NaN.

    >>> hlx.xlogy(hlx.tensor([0.0, 2.0]), hlx.tensor([0.0, 1.0])).tolist()
    [0.0, 0.0]
    """
    input, other = left_tensor(input, other), tensor_of(other, input if isinstance(input, Tensor) else None)
    zero = _hlx.binary(input, 0, "eq")
    # The logarithm of 1 in the place of a pole, whose slope times 0 is no number.
    pole = _hlx.binary(zero, _hlx.binary(other, 0, "le"), "logical_and")
    product = _hlx.binary(input, _hlx.unary(_hlx.masked_fill(other, pole, 1), "log"), "mul")
    return _hlx.masked_fill(product, _hlx.binary(zero, _hlx.binary(other, math.inf, "eq"), "logical_and"), 0)


@operation
def copysign(input: Tensor, other: Operand) -> Tensor:
    """Computes the magnitude of the input with the sign of the other, that of a zero too.

    >>> hlx.copysign(hlx.tensor([1.0, -2.0]), -0.0).tolist()
    [-1.0, -2.0]
    """
    magnitude = _hlx.unary(input if input.dtype.is_floating_point else _hlx.binary(input, 1, "div"), "abs")
    if is_number(other):
        return _hlx.unary(magnitude, "neg") if math.copysign(1.0, other) < 0 else magnitude
    result = _hlx.where_(_hlx.unary(magnitude, "neg"), signbit(tensor_of(other, input)), magnitude)
    # The other has a gradient of 0.
    return (
        _hlx.where_(result, _hlx.ones(input.device, [], BOOL), other)
        if isinstance(other, Tensor) and other.requires_grad
        else result
    )


@operation
def signbit(input: Tensor) -> Tensor:
    """Tells whether an element is negative, or a zero with a minus sign.

    >>> hlx.signbit(hlx.tensor([-1.0, -0.0, 0.0])).tolist()
    [True, True, False]
    """
    negative = _hlx.binary(input, 0, "lt")
    if not input.dtype.is_floating_point:
        return negative
    return _hlx.binary(negative, _hlx.binary(_hlx.unary(input, "reciprocal"), 0, "lt"), "logical_or")


@operation
def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """Computes 0 below 0 and of NaN, 1 above, and at 0 the element of `values`.

    >>> hlx.heaviside(hlx.tensor([-1.0, 0.0, 2.0]), hlx.tensor([0.5])).tolist()
    [0.0, 0.5, 1.0]
    """
    step = _hlx.to_dtype(_hlx.binary(input, 0, "gt"), input.dtype)
    return _hlx.where_(values, _hlx.binary(input, 0, "eq"), step)


@operation
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """Computes `input 2^other`.

    >>> hlx.ldexp(hlx.tensor([1.5]), hlx.tensor([3])).tolist()
    [12.0]
    """
    result = _hlx.binary(input, _hlx.unary(other, "exp2"), "mul")
    # Whole exponents decide nothing of the type.
    narrow = input.dtype.is_floating_point and not other.dtype.is_floating_point
    return _hlx.to_dtype(result, input.dtype) if narrow else result


@operation
@rounded_once
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Computes the p-norm of `input - other`.

    >>> hlx.dist(hlx.tensor([0.0, 3.0]), hlx.tensor([4.0, 0.0])).item()
    5.0
    """
    return _hlx.norm(_hlx.binary(input, other, "sub"), p, [], False)
