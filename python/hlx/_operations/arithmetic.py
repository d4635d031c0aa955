"""Arithmetic of two operands, which broadcast and are promoted as in PyTorch."""

import builtins
import math

from hlx import _hlx, errors
from hlx._operations._arguments import binary, is_number, left_tensor
from hlx._operations._register import function, operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import BOOL, FLOAT32, INT8, UINT8, Number, Operand, Tensor


@operation
def add(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    """Computes `input + alpha other`; f16 and bf16 are rounded once.

    >>> hlx.add(hlx.tensor([1.0, 2.0]), 10, alpha=2).tolist()
    [21.0, 22.0]
    """
    if alpha == 1:
        return binary("add", input, other)
    return _hlx.add_scaled(left_tensor(input, other), other, alpha)


@operation("sub", "subtract")
def sub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    """Computes `input - alpha other`.

    >>> hlx.sub(hlx.tensor([1.0, 2.0]), hlx.tensor([3.0, 5.0])).tolist()
    [-2.0, -3.0]
    """
    if alpha == 1:
        return binary("sub", input, other)
    return _hlx.add_scaled(left_tensor(input, other), other, -alpha)


@function
def rsub(input: Operand, other: Operand, *, alpha: Number = 1) -> Tensor:
    """Computes `other - alpha input`.

    >>> hlx.rsub(hlx.tensor([1.0, 2.0]), 10).tolist()
    [9.0, 8.0]
    """
    return sub(other, input, alpha=alpha)


@operation("mul", "multiply")
def mul(input: Operand, other: Operand) -> Tensor:
    """Computes `input other`, element by element.

    >>> hlx.mul(hlx.tensor([1.0, 2.0]), 3).tolist()
    [3.0, 6.0]
    """
    return binary("mul", input, other)


@operation("div", "divide")
def div(input: Operand, other: Operand, *, rounding_mode: str | None = None) -> Tensor:
    """Computes `input / other`: of integers the quotient is a float, unless it is rounded.

    `rounding_mode` is "floor" (down), "trunc" (toward zero) or None. An integer divided by 0 and rounded is 0.

    >>> hlx.div(hlx.tensor([7.0, -7.0]), 2, rounding_mode="floor").tolist()
    [3.0, -4.0]
    """
    if rounding_mode is None:
        return binary("div", input, other)
    if rounding_mode not in ("floor", "trunc"):
        raise errors.ValueError(f"div: rounding_mode is {rounding_mode!r}, expected None, 'floor' or 'trunc'")
    return _hlx.div_rounded(left_tensor(input, other), other, rounding_mode)


@operation
def true_divide(input: Operand, other: Operand) -> Tensor:
    """Computes `input / other`, as a float.

    >>> hlx.true_divide(hlx.tensor([7.0]), 2).tolist()
    [3.5]
    """
    return binary("div", input, other)


@operation
def floor_divide(input: Operand, other: Operand) -> Tensor:
    """Computes `floor(input / other)`; of integers divided by 0 it is 0.

    >>> hlx.floor_divide(hlx.tensor([7, -7]), 2).tolist()
    [3, -4]
    """
    return binary("floor_divide", input, other)


@operation
def remainder(input: Operand, other: Operand) -> Tensor:
    """Computes `input - other floor(input / other)`, which has the divisor's sign.

    >>> hlx.remainder(hlx.tensor([7, -7]), 3).tolist()
    [1, 2]
    """
    return binary("remainder", input, other)


@operation
@rounded_once
def fmod(input: Tensor, other: Operand) -> Tensor:
    """Computes `input - other trunc(input / other)`, which has the sign of the input.

    >>> hlx.fmod(hlx.tensor([7.0, -7.0]), 3).tolist()
    [1.0, -1.0]
    """
    negative = _hlx.binary(input, 0, "lt")
    magnitude = _hlx.where_(_hlx.unary(input, "neg"), negative, input)
    divisor = _hlx.unary(other, "abs") if isinstance(other, Tensor) else builtins.abs(other)
    rest = _hlx.binary(magnitude, divisor, "remainder")
    return _hlx.where_(_hlx.unary(rest, "neg"), negative, rest)


@operation
def pow(input: Operand, exponent: Operand) -> Tensor:
    """Computes `input ** exponent`; the gradient by an exponent of 0 is 0.

    >>> hlx.pow(hlx.tensor([1.0, 2.0, 3.0]), 2).tolist()
    [1.0, 4.0, 9.0]
    """
    return binary("pow", input, exponent)


@operation("atan2", "arctan2")
def atan2(input: Operand, other: Operand) -> Tensor:
    """Computes the angle of the point (other, input), in radians.

    >>> hlx.atan2(hlx.tensor([0.0]), hlx.tensor([1.0])).tolist()
    [0.0]
    """
    return binary("atan2", input, other)


@operation
def maximum(input: Tensor, other: Tensor) -> Tensor:
    """Takes the larger of two elements, NaN if either is; equal elements share the gradient.

    >>> hlx.maximum(hlx.tensor([1.0, 5.0]), hlx.tensor([3.0, 2.0])).tolist()
    [3.0, 5.0]
    """
    return binary("maximum", input, other)


@operation
def minimum(input: Tensor, other: Tensor) -> Tensor:
    """Takes the smaller of two elements, NaN if either is; equal elements share the gradient.

    >>> hlx.minimum(hlx.tensor([1.0, 5.0]), hlx.tensor([3.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return binary("minimum", input, other)


def _unless_nan(input: Tensor, other: Tensor, extreme: str) -> Tensor:
    chosen = _hlx.where_(other, _hlx.unary(input, "isnan"), _hlx.binary(input, other, extreme))
    return _hlx.where_(input, _hlx.unary(other, "isnan"), chosen)


@operation
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """Takes the larger of two elements, the other one where one is NaN; equal elements share the gradient.

    >>> hlx.fmax(hlx.tensor([1.0, float("nan")]), hlx.tensor([3.0, 2.0])).tolist()
    [3.0, 2.0]
    """
    return _unless_nan(input, other, "maximum")


@operation
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """Takes the smaller of two elements, the other one where one is NaN; equal elements share the gradient.

    >>> hlx.fmin(hlx.tensor([1.0, float("nan")]), hlx.tensor([3.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    return _unless_nan(input, other, "minimum")


@operation
@rounded_once
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """Computes `input + value tensor1 tensor2`.

    >>> hlx.addcmul(hlx.tensor([1.0]), hlx.tensor([2.0]), hlx.tensor([3.0]), value=0.5).tolist()
    [4.0]
    """
    return add(input, _hlx.binary(tensor1, tensor2, "mul"), alpha=value)


@operation
@rounded_once
def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Number = 1) -> Tensor:
    """Computes `input + value tensor1 / tensor2`.

    >>> hlx.addcdiv(hlx.tensor([1.0]), hlx.tensor([2.0]), hlx.tensor([4.0]), value=2).tolist()
    [2.0]
    """
    return add(input, _hlx.binary(tensor1, tensor2, "div"), alpha=value)


@operation
@rounded_once
def lerp(input: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """Computes `input + weight (end - input)`, from the nearer end: exact at weights of 0 and 1.

    >>> hlx.lerp(hlx.tensor([0.0]), hlx.tensor([10.0]), 0.25).tolist()
    [2.5]
    """
    distance = _hlx.binary(end, input, "sub")
    rest = _hlx.binary(1, weight, "sub") if isinstance(weight, Tensor) else 1 - weight
    near = _hlx.binary(input, _hlx.binary(distance, weight, "mul"), "add")
    far = _hlx.binary(end, _hlx.binary(distance, rest, "mul"), "sub")
    if not isinstance(weight, Tensor):
        return near if builtins.abs(weight) < 0.5 else far
    return _hlx.where_(near, _hlx.binary(_hlx.unary(weight, "abs"), 0.5, "lt"), far)


@operation("clamp", "clip")
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Brings every element within [min, max]; NaN stays.

    The gradient is 0 at a bound that is a number. A bound that is a tensor broadcasts and shares it.

    >>> hlx.clamp(hlx.tensor([-1.0, 0.5, 9.0]), 0, 1).tolist()
    [0.0, 0.5, 1.0]
    """
    if min is None and max is None:
        raise errors.ValueError("clamp: min and max are None, expected a bound")
    if isinstance(min, float | int) and isinstance(max, float | int) and input.dtype == FLOAT32:
        low, high = float(min), float(max)
        if -math.inf < low <= high < math.inf:
            return _hlx.unary(input, "clamp", low, high)
    if min is not None:
        input = clamp_min(input, min)
    return input if max is None else clamp_max(input, max)


@operation
def clamp_min(input: Tensor, min: Operand) -> Tensor:
    """Takes the larger of an element and a bound; NaN stays.

    >>> hlx.clamp_min(hlx.tensor([-1.0, 9.0]), 0).tolist()
    [0.0, 9.0]
    """
    if _is_plain(input, min):
        return _hlx.clone(input) if _is_idle(input, min, 0) else _hlx.binary(min, input, "maximum")
    return _hlx.clamp_min(left_tensor(input, min), min)


@operation
def clamp_max(input: Tensor, max: Operand) -> Tensor:
    """Takes the smaller of an element and a bound; NaN stays.

    >>> hlx.clamp_max(hlx.tensor([-1.0, 9.0]), 0).tolist()
    [-1.0, 0.0]
    """
    if _is_plain(input, max):
        return _hlx.clone(input) if _is_idle(input, max, 1) else _hlx.binary(max, input, "minimum")
    return _hlx.clamp_max(left_tensor(input, max), max)


#: The least and the largest number of the narrow integers.
_ENDS = {INT8: (-128, 127), UINT8: (0, 255)}


def _is_idle(input: Operand, bound: Operand, end: int) -> bool:
    """Whether an integer bound of narrow integers is at or past their end, so that it changes nothing."""
    ends = _ENDS.get(input.dtype) if isinstance(input, Tensor) and isinstance(bound, int) else None
    if ends is None or not isinstance(bound, int):
        return False
    if not ends[0] <= bound <= ends[1] and (bound < ends[0]) == (end == 1):
        word = ("min", "max")[end]
        raise errors.RuntimeError(f"clamp: {word} is {bound}, expected {ends[0]} to {ends[1]}")
    return bound <= ends[0] if end == 0 else bound >= ends[1]


def _is_plain(input: Operand, bound: Operand) -> bool:
    # One launch in the place of four; only the gradient at the bound is another one.
    return is_number(bound) and isinstance(input, Tensor) and not input.requires_grad and input.dtype != BOOL
