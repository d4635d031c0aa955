"""Functions of two operands, which are broadcast and promoted; one of them may be a Python number.

An array without dimensions takes part in promotion in full, unlike in `hlx`.
"""

from __future__ import annotations

import hlx
from hlx import Tensor

from ._dtypes import Operand, is_real, operands


def add(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 + x2."""
    return hlx.add(*operands("add", x1, x2))


def atan2(x1: Operand, x2: Operand, /) -> Tensor:
    """The angle of the point (x2, x1)."""
    return hlx.atan2(*operands("atan2", x1, x2))


def bitwise_and(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that both have."""
    return hlx.bitwise_and(*operands("bitwise_and", x1, x2))


def bitwise_left_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 times 2 to the power x2."""
    return hlx.bitwise_left_shift(*operands("bitwise_left_shift", x1, x2))


def bitwise_or(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that one has."""
    return hlx.bitwise_or(*operands("bitwise_or", x1, x2))


def bitwise_right_shift(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 divided by 2 to the power x2, rounded down."""
    return hlx.bitwise_right_shift(*operands("bitwise_right_shift", x1, x2))


def bitwise_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """The bits that exactly one has."""
    return hlx.bitwise_xor(*operands("bitwise_xor", x1, x2))


def copysign(x1: Operand, x2: Operand, /) -> Tensor:
    """The size of x1 with the sign of x2."""
    return hlx.copysign(*operands("copysign", x1, x2))


def divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2; of integers a float."""
    return hlx.div(*operands("divide", x1, x2))


def equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether both are equal."""
    return hlx.eq(*operands("equal", x1, x2))


def floor_divide(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 / x2 rounded down; of an infinity and a finite number x1 / x2 itself, where PyTorch has NaN or -1."""
    a, b = operands("floor_divide", x1, x2)
    quotient = hlx.floor_divide(a, b)
    if not is_real(a.dtype):
        return quotient
    one_infinite = hlx.logical_xor(hlx.isinf(a), hlx.isinf(b))
    # NaN and division by 0 keep PyTorch's result.
    defined = hlx.logical_and(hlx.eq(b, b), hlx.ne(b, 0))
    return hlx.where(hlx.logical_and(hlx.logical_and(one_infinite, defined), hlx.eq(a, a)), hlx.div(a, b), quotient)


def greater(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether x1 > x2."""
    return hlx.gt(*operands("greater", x1, x2))


def greater_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether x1 >= x2."""
    return hlx.ge(*operands("greater_equal", x1, x2))


def hypot(x1: Operand, x2: Operand, /) -> Tensor:
    """The square root of x1 x1 + x2 x2, without overflow in between."""
    return hlx.hypot(*operands("hypot", x1, x2))


def less(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether x1 < x2."""
    return hlx.lt(*operands("less", x1, x2))


def less_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether x1 <= x2."""
    return hlx.le(*operands("less_equal", x1, x2))


def logaddexp(x1: Operand, x2: Operand, /) -> Tensor:
    """log(exp(x1) + exp(x2)), without overflow in between."""
    return hlx.logaddexp(*operands("logaddexp", x1, x2))


def logical_and(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether both are True."""
    return hlx.logical_and(*operands("logical_and", x1, x2))


def logical_or(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether one is True."""
    return hlx.logical_or(*operands("logical_or", x1, x2))


def logical_xor(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether exactly one is True."""
    return hlx.logical_xor(*operands("logical_xor", x1, x2))


def maximum(x1: Operand, x2: Operand, /) -> Tensor:
    """The larger, and NaN if either is."""
    return hlx.maximum(*operands("maximum", x1, x2))


def minimum(x1: Operand, x2: Operand, /) -> Tensor:
    """The smaller, and NaN if either is."""
    return hlx.minimum(*operands("minimum", x1, x2))


def multiply(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 x2."""
    return hlx.mul(*operands("multiply", x1, x2))


def not_equal(x1: Operand, x2: Operand, /) -> Tensor:
    """Tells whether both differ."""
    return hlx.ne(*operands("not_equal", x1, x2))


def pow(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 to the power x2."""
    return hlx.pow(*operands("pow", x1, x2))


def remainder(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 - x2 floor(x1 / x2), with the sign of x2; a remainder of 0 has it too, unlike in PyTorch."""
    a, b = operands("remainder", x1, x2)
    rest = hlx.remainder(a, b)
    return hlx.where(hlx.eq(rest, 0), hlx.copysign(rest, b), rest) if is_real(a.dtype) else rest


def subtract(x1: Operand, x2: Operand, /) -> Tensor:
    """x1 - x2."""
    return hlx.sub(*operands("subtract", x1, x2))
