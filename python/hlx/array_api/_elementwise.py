"""Functions of one element: x may have any shape.

Only what differs from the operation of the same name in `hlx` has more than one line.
"""

from __future__ import annotations

import hlx
from hlx import Tensor

from ._dtypes import Number, as_array, is_real


def abs(x: Tensor, /) -> Tensor:
    """The absolute value."""
    return hlx.abs(x)


def acos(x: Tensor, /) -> Tensor:
    """The arc cosine."""
    return hlx.acos(x)


def acosh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic cosine."""
    return hlx.acosh(x)


def asin(x: Tensor, /) -> Tensor:
    """The arc sine."""
    return hlx.asin(x)


def asinh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic sine."""
    return hlx.asinh(x)


def atan(x: Tensor, /) -> Tensor:
    """The arc tangent."""
    return hlx.atan(x)


def atanh(x: Tensor, /) -> Tensor:
    """The inverse hyperbolic tangent."""
    return hlx.atanh(x)


def bitwise_invert(x: Tensor, /) -> Tensor:
    """Flips every bit; of bool, not x."""
    return hlx.bitwise_not(x)


def ceil(x: Tensor, /) -> Tensor:
    """The smallest integer that is not less; integers are themselves."""
    return hlx.ceil(x) if is_real(x.dtype) else x


def conj(x: Tensor, /) -> Tensor:
    """The array itself: there are no complex numbers."""
    return x


def cos(x: Tensor, /) -> Tensor:
    """The cosine."""
    return hlx.cos(x)


def cosh(x: Tensor, /) -> Tensor:
    """The hyperbolic cosine."""
    return hlx.cosh(x)


def exp(x: Tensor, /) -> Tensor:
    """e to the power x."""
    return hlx.exp(x)


def expm1(x: Tensor, /) -> Tensor:
    """e to the power x, less 1."""
    return hlx.expm1(x)


def floor(x: Tensor, /) -> Tensor:
    """The largest integer that is not greater; integers are themselves."""
    return hlx.floor(x) if is_real(x.dtype) else x


def isfinite(x: Tensor, /) -> Tensor:
    """Tells whether x is neither infinite nor NaN."""
    return hlx.isfinite(x) if is_real(x.dtype) else hlx.ones_like(x, dtype=hlx.bool)


def isinf(x: Tensor, /) -> Tensor:
    """Tells whether x is infinite."""
    return hlx.isinf(x) if is_real(x.dtype) else hlx.zeros_like(x, dtype=hlx.bool)


def isnan(x: Tensor, /) -> Tensor:
    """Tells whether x is NaN."""
    return hlx.isnan(x) if is_real(x.dtype) else hlx.zeros_like(x, dtype=hlx.bool)


def log(x: Tensor, /) -> Tensor:
    """The natural logarithm."""
    return hlx.log(x)


def log1p(x: Tensor, /) -> Tensor:
    """The natural logarithm of 1 + x."""
    return hlx.log1p(x)


def log2(x: Tensor, /) -> Tensor:
    """The logarithm to base 2."""
    return hlx.log2(x)


def log10(x: Tensor, /) -> Tensor:
    """The logarithm to base 10."""
    return hlx.log10(x)


def logical_not(x: Tensor, /) -> Tensor:
    """Tells whether x is False."""
    return hlx.logical_not(x)


def negative(x: Tensor, /) -> Tensor:
    """-x."""
    return hlx.neg(x)


def positive(x: Tensor, /) -> Tensor:
    """+x, a copy."""
    return x.clone()


def real(x: Tensor, /) -> Tensor:
    """The array itself: there are no complex numbers."""
    return x


def reciprocal(x: Tensor, /) -> Tensor:
    """1 / x."""
    return hlx.reciprocal(x)


def round(x: Tensor, /) -> Tensor:
    """The nearest integer, and of two the even one; integers are themselves."""
    return hlx.round(x) if is_real(x.dtype) else x


def sign(x: Tensor, /) -> Tensor:
    """-1, 0 or 1; NaN of NaN."""
    return hlx.where(isnan(x), x, hlx.sign(x)) if is_real(x.dtype) else hlx.sign(x)


def signbit(x: Tensor, /) -> Tensor:
    """Tells whether x is negative or -0. HLX has one NaN, whose sign it does not tell."""
    return hlx.signbit(x)


def sin(x: Tensor, /) -> Tensor:
    """The sine."""
    return hlx.sin(x)


def sinh(x: Tensor, /) -> Tensor:
    """The hyperbolic sine."""
    return hlx.sinh(x)


def square(x: Tensor, /) -> Tensor:
    """x x."""
    return hlx.square(x)


def sqrt(x: Tensor, /) -> Tensor:
    """The square root."""
    return hlx.sqrt(x)


def tan(x: Tensor, /) -> Tensor:
    """The tangent."""
    return hlx.tan(x)


def tanh(x: Tensor, /) -> Tensor:
    """The hyperbolic tangent."""
    return hlx.tanh(x)


def trunc(x: Tensor, /) -> Tensor:
    """x without its fraction; integers are themselves."""
    return hlx.trunc(x) if is_real(x.dtype) else x


def clip(x: Tensor, /, min: Number | Tensor | None = None, max: Number | Tensor | None = None) -> Tensor:
    """x within bounds, in the type of x; a bound of None is none, and NaN of a NaN in x or a bound."""
    clipped = x
    if max is not None:
        clipped = hlx.minimum(clipped, as_array(max, x.dtype, x.device))
    if min is not None:
        clipped = hlx.maximum(clipped, as_array(min, x.dtype, x.device))
    return x.clone() if clipped is x else clipped
