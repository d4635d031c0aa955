"""Functions of one element."""

from hlx import _hlx
from hlx._operations._register import operation
from hlx._operations._types import Tensor

_unary = _hlx.unary


@operation("neg", "negative")
def neg(input: Tensor) -> Tensor:
    """Computes `-input`.

    >>> hlx.neg(hlx.tensor([1.0, -2.0])).tolist()
    [-1.0, 2.0]
    """
    return _unary(input, "neg")


@operation("abs", "absolute")
def abs(input: Tensor) -> Tensor:
    """Computes the magnitude; its gradient at 0 is 0.

    >>> hlx.abs(hlx.tensor([1.0, -2.0])).tolist()
    [1.0, 2.0]
    """
    return _unary(input, "abs")


@operation
def square(input: Tensor) -> Tensor:
    """Computes `input input`.

    >>> hlx.square(hlx.tensor([1.0, -2.0])).tolist()
    [1.0, 4.0]
    """
    return _unary(input, "square")


@operation
def sign(input: Tensor) -> Tensor:
    """Computes -1, 0 or 1 by the sign; 0 of NaN.

    >>> hlx.sign(hlx.tensor([3.0, 0.0, -2.0])).tolist()
    [1.0, 0.0, -1.0]
    """
    return _unary(input, "sign")


@operation
def floor(input: Tensor) -> Tensor:
    """Computes the largest whole number up to x.

    >>> hlx.floor(hlx.tensor([1.5, -1.5])).tolist()
    [1.0, -2.0]
    """
    return _unary(input, "floor")


@operation
def ceil(input: Tensor) -> Tensor:
    """Computes the least whole number from x on.

    >>> hlx.ceil(hlx.tensor([1.5, -1.5])).tolist()
    [2.0, -1.0]
    """
    return _unary(input, "ceil")


@operation("trunc", "fix")
def trunc(input: Tensor) -> Tensor:
    """Computes x without its fraction.

    >>> hlx.trunc(hlx.tensor([1.5, -1.5])).tolist()
    [1.0, -1.0]
    """
    return _unary(input, "trunc")


@operation
def reciprocal(input: Tensor) -> Tensor:
    """Computes `1 / input`.

    >>> hlx.reciprocal(hlx.tensor([2.0, 4.0])).tolist()
    [0.5, 0.25]
    """
    return _unary(input, "reciprocal")


@operation
def sqrt(input: Tensor) -> Tensor:
    """Computes the square root.

    >>> hlx.sqrt(hlx.tensor([4.0, 9.0])).tolist()
    [2.0, 3.0]
    """
    return _unary(input, "sqrt")


@operation
def rsqrt(input: Tensor) -> Tensor:
    """Computes `1 / sqrt(input)`.

    >>> hlx.rsqrt(hlx.tensor([4.0, 0.25])).tolist()
    [0.5, 2.0]
    """
    return _unary(input, "rsqrt")


@operation
def exp(input: Tensor) -> Tensor:
    """Computes `e^input`.

    >>> hlx.exp(hlx.tensor([0.0])).tolist()
    [1.0]
    """
    return _unary(input, "exp")


@operation
def exp2(input: Tensor) -> Tensor:
    """Computes `2^input`.

    >>> hlx.exp2(hlx.tensor([3.0])).tolist()
    [8.0]
    """
    return _unary(input, "exp2")


@operation
def expm1(input: Tensor) -> Tensor:
    """Computes `e^input - 1`, exact near 0.

    >>> hlx.expm1(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "expm1")


@operation
def log(input: Tensor) -> Tensor:
    """Computes the natural logarithm.

    >>> hlx.log(hlx.tensor([1.0])).tolist()
    [0.0]
    """
    return _unary(input, "log")


@operation
def log2(input: Tensor) -> Tensor:
    """Computes the logarithm to base 2.

    >>> hlx.log2(hlx.tensor([8.0])).tolist()
    [3.0]
    """
    return _unary(input, "log2")


@operation
def log10(input: Tensor) -> Tensor:
    """Computes the logarithm to base 10.

    >>> hlx.log10(hlx.tensor([1.0])).tolist()
    [0.0]
    """
    return _unary(input, "log10")


@operation
def log1p(input: Tensor) -> Tensor:
    """Computes `log(1 + input)`, exact near 0.

    >>> hlx.log1p(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "log1p")


@operation
def sin(input: Tensor) -> Tensor:
    """Computes the sine of radians.

    >>> hlx.sin(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "sin")


@operation
def cos(input: Tensor) -> Tensor:
    """Computes the cosine of radians.

    >>> hlx.cos(hlx.tensor([0.0])).tolist()
    [1.0]
    """
    return _unary(input, "cos")


@operation
def tan(input: Tensor) -> Tensor:
    """Computes the tangent of radians.

    >>> hlx.tan(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "tan")


@operation("asin", "arcsin")
def asin(input: Tensor) -> Tensor:
    """Computes the inverse sine, in radians.

    >>> hlx.asin(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "asin")


@operation("acos", "arccos")
def acos(input: Tensor) -> Tensor:
    """Computes the inverse cosine, in radians.

    >>> hlx.acos(hlx.tensor([1.0])).tolist()
    [0.0]
    """
    return _unary(input, "acos")


@operation("atan", "arctan")
def atan(input: Tensor) -> Tensor:
    """Computes the inverse tangent, in radians.

    >>> hlx.atan(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "atan")


@operation
def sinh(input: Tensor) -> Tensor:
    """Computes the hyperbolic sine.

    >>> hlx.sinh(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "sinh")


@operation
def cosh(input: Tensor) -> Tensor:
    """Computes the hyperbolic cosine.

    >>> hlx.cosh(hlx.tensor([0.0])).tolist()
    [1.0]
    """
    return _unary(input, "cosh")


@operation
def tanh(input: Tensor) -> Tensor:
    """Computes the hyperbolic tangent.

    >>> hlx.tanh(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "tanh")


@operation
def sigmoid(input: Tensor) -> Tensor:
    """Computes `1 / (1 + exp(-input))`.

    >>> hlx.sigmoid(hlx.tensor([0.0])).tolist()
    [0.5]
    """
    return _unary(input, "sigmoid")


@operation
def erf(input: Tensor) -> Tensor:
    """Computes the error function.

    >>> hlx.erf(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "erf")


@operation
def relu(input: Tensor) -> Tensor:
    """Computes `max(input, 0)`; its gradient at 0 is 0.

    >>> hlx.relu(hlx.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _unary(input, "relu")


@operation
def isnan(input: Tensor) -> Tensor:
    """Tells whether an element is NaN.

    >>> hlx.isnan(hlx.tensor([0.0, float("nan")])).tolist()
    [False, True]
    """
    return _unary(input, "isnan")


@operation
def isfinite(input: Tensor) -> Tensor:
    """Tells whether an element is neither infinite nor NaN.

    >>> hlx.isfinite(hlx.tensor([0.0, float("inf")])).tolist()
    [True, False]
    """
    return _unary(input, "isfinite")


@operation
def logical_not(input: Tensor) -> Tensor:
    """Tells whether an element is 0.

    >>> hlx.logical_not(hlx.tensor([0.0, 2.0])).tolist()
    [True, False]
    """
    return _unary(input, "logical_not")


@operation
def bitwise_not(input: Tensor) -> Tensor:
    """Computes an integer with every bit changed; of bool, its negation.

    >>> hlx.bitwise_not(hlx.tensor([0, 1])).tolist()
    [-1, -2]
    """
    return _unary(input, "bitwise_not")
