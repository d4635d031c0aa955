"""Functions of one element, and of the elements along a dimension, that are made of others."""

import math

from hlx import _hlx, errors
from hlx._operations._arguments import converted, required
from hlx._operations._register import function, operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import BFLOAT16, BOOL, FLOAT32, Number, Tensor, dtype
from hlx.autograd import Function, FunctionCtx

_unary, _binary = _hlx.unary, _hlx.binary


@operation
def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Computes the nearest whole number, ties to even; with `decimals` of a float the nearest so many decimals.

    >>> hlx.round(hlx.tensor([0.5, 1.5, 2.6])).tolist()
    [0.0, 2.0, 3.0]
    """
    if decimals == 0:
        return _unary(input, "round")
    if not input.dtype.is_floating_point:
        raise errors.RuntimeError(f"round: decimals is {decimals} of {input.dtype}, expected 0")
    wide, scale = _hlx.to_dtype(input, FLOAT32), 10.0 ** abs(decimals)
    to, back = ("mul", "div") if decimals > 0 else ("div", "mul")
    return _hlx.to_dtype(_binary(_unary(_binary(wide, scale, to), "round"), scale, back), input.dtype)


@operation
def positive(input: Tensor) -> Tensor:
    """Returns the tensor itself; bool is refused, as in PyTorch.

    >>> hlx.positive(hlx.tensor([-1.0])).tolist()
    [-1.0]
    """
    if input.dtype == BOOL:
        raise errors.RuntimeError("positive: the input has elements of bool, expected numbers")
    return input


@operation
def sgn(input: Tensor) -> Tensor:
    """Computes -1, 0 or 1 by the sign, as `sign`.

    >>> hlx.sgn(hlx.tensor([-3.0, 0.0])).tolist()
    [-1.0, 0.0]
    """
    return _unary(input, "sign")


@operation
@rounded_once
def frac(input: Tensor) -> Tensor:
    """Computes the fraction `input - trunc(input)`.

    >>> hlx.frac(hlx.tensor([1.5, -1.25])).tolist()
    [0.5, -0.25]
    """
    return _binary(input, _unary(input, "trunc"), "sub")


#: exp(x^2) erfc(x) = t exp(polynomial of t) with t = 1 / (1 + x / 2), to 1.2e-7 of it: Press, Teukolsky, Vetterling
#: and Flannery, Numerical Recipes, section 6.2.
_TAIL = (0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418, 0.37409196, 1.00002368)
_TAIL_AT_0 = -1.26551223


class _Erfc(Function):
    """1 - erf up to 1/2, and from there on the tail."""

    @staticmethod
    def forward(ctx: FunctionCtx, input: Tensor) -> Tensor:
        ctx.save_for_backward(input)
        far = _binary(input, 0.5, "gt")
        near = _binary(1.0, _unary(input, "erf"), "sub")
        # The tail is 0 from 10 on.
        x = _hlx.clamp_max(_hlx.where_(input, far, 1.0), 10.5)
        t = _unary(_binary(_binary(x, 0.5, "mul"), 1.0, "add"), "reciprocal")
        sum_ = _hlx.full(x.device, list(x.shape), _TAIL[0], FLOAT32)
        for coefficient in _TAIL[1:]:
            sum_ = _binary(_binary(sum_, t, "mul"), coefficient, "add")
        sum_ = _binary(_binary(sum_, t, "mul"), _TAIL_AT_0, "add")
        # The square in two parts, the first of them exact.
        short = _hlx.to_dtype(_hlx.to_dtype(x, BFLOAT16), FLOAT32)
        rest = _binary(_binary(short, x, "sub"), _binary(short, x, "add"), "mul")
        bell = _unary(_unary(_unary(short, "square"), "neg"), "exp")
        tail = _binary(_binary(t, bell, "mul"), _unary(_binary(rest, sum_, "add"), "exp"), "mul")
        return _hlx.where_(tail, far, near)

    @staticmethod
    def backward(ctx: FunctionCtx, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert x is not None
        bell = _unary(_unary(_unary(x, "square"), "neg"), "exp")
        return _binary(dy, _binary(bell, -2 / math.sqrt(math.pi), "mul"), "mul")


@operation
@rounded_once
def erfc(input: Tensor) -> Tensor:
    """Computes `1 - erf(input)`, whose digits stay in the tail.

    >>> hlx.erfc(hlx.tensor([0.0])).tolist()
    [1.0]
    """
    x = input if input.dtype.is_floating_point else _hlx.to_dtype(input, FLOAT32)
    result: Tensor = _Erfc.apply(x)
    return result


@operation("asinh", "arcsinh")
@rounded_once
def asinh(input: Tensor) -> Tensor:
    """Computes the inverse hyperbolic sine, `sign(x) log1p(|x| + x^2 / (1 + sqrt(1 + x^2)))`.

    >>> hlx.asinh(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    negative = _binary(input, 0, "lt")
    x = _hlx.where_(_unary(input, "neg"), negative, input)
    # From here on the square adds nothing that f32 holds, and it would overflow.
    far = _binary(x, 2.0**28, "ge")
    near = _hlx.masked_fill(x, far, 1.0)
    square = _unary(near, "square")
    root = _unary(_binary(square, 1.0, "add"), "sqrt")
    y = _unary(_binary(near, _binary(square, _binary(root, 1.0, "add"), "div"), "add"), "log1p")
    beyond = _binary(_unary(_hlx.where_(x, far, 1.0), "log"), math.log(2), "add")
    y = _hlx.where_(beyond, far, y)
    y = _hlx.where_(_unary(y, "neg"), negative, y)
    # A zero keeps its sign.
    return _hlx.where_(input, _binary(input, 0, "eq"), y)


class _Acosh(Function):
    """Its derivative is 1 / sqrt(x^2 - 1), also where the function is NaN, as in PyTorch."""

    @staticmethod
    def forward(ctx: FunctionCtx, input: Tensor) -> Tensor:
        ctx.save_for_backward(input)
        far = _binary(input, 2.0**28, "ge")
        x = _hlx.masked_fill(input, far, 2.0)
        t = _binary(x, 1.0, "sub")
        # NaN below 1, as the root of t is.
        root = _binary(_unary(t, "sqrt"), _unary(_binary(x, 1.0, "add"), "sqrt"), "mul")
        y = _unary(_binary(t, root, "add"), "log1p")
        beyond = _binary(_unary(_hlx.where_(input, far, 1.0), "log"), math.log(2), "add")
        return _hlx.where_(beyond, far, y)

    @staticmethod
    def backward(ctx: FunctionCtx, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert x is not None
        return _binary(dy, _unary(_binary(_unary(x, "square"), 1.0, "sub"), "rsqrt"), "mul")


@operation("acosh", "arccosh")
@rounded_once
def acosh(input: Tensor) -> Tensor:
    """Computes the inverse hyperbolic cosine, with t = x - 1: `log1p(t + sqrt(t) sqrt(x + 1))`.

    >>> hlx.acosh(hlx.tensor([1.0])).tolist()
    [0.0]
    """
    result: Tensor = _Acosh.apply(input)
    return result


@operation("atanh", "arctanh")
@rounded_once
def atanh(input: Tensor) -> Tensor:
    """Computes the inverse hyperbolic tangent, `(log1p(x) - log1p(-x)) / 2`.

    >>> hlx.atanh(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    difference = _binary(_unary(input, "log1p"), _unary(_unary(input, "neg"), "log1p"), "sub")
    return _binary(difference, 0.5, "mul")


@operation
@rounded_once
def deg2rad(input: Tensor) -> Tensor:
    """Converts degrees to radians.

    >>> hlx.deg2rad(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _binary(input, math.pi / 180, "mul")


@operation
@rounded_once
def rad2deg(input: Tensor) -> Tensor:
    """Converts radians to degrees.

    >>> hlx.rad2deg(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _binary(input, 180 / math.pi, "mul")


@operation
@rounded_once
def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """Computes `log(x / (1 - x))`, of x within [eps, 1 - eps] if eps is given.

    >>> hlx.logit(hlx.tensor([0.5])).tolist()
    [0.0]
    """
    x = input if input.dtype.is_floating_point else _hlx.to_dtype(input, FLOAT32)
    if eps is not None:
        low = _binary(x, eps, "lt")
        x = _hlx.masked_fill(_hlx.masked_fill(x, _binary(x, 1 - eps, "gt"), 1 - eps), low, eps)
    return _unary(_binary(x, _binary(1.0, x, "sub"), "div"), "log")


class _Sinc(Function):
    """Its derivative near 0 is a series, as the difference of its two terms loses them there."""

    @staticmethod
    def forward(ctx: FunctionCtx, input: Tensor) -> Tensor:
        ctx.save_for_backward(input)
        zero = _binary(input, 0, "eq")
        u = _binary(_hlx.masked_fill(input, zero, 1.0), math.pi, "mul")
        return _hlx.masked_fill(_binary(_unary(u, "sin"), u, "div"), zero, 1.0)

    @staticmethod
    def backward(ctx: FunctionCtx, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        assert x is not None
        u = _binary(x, math.pi, "mul")
        near = _binary(_unary(u, "abs"), 1.0, "lt")
        inside = _hlx.where_(u, near, 0.0)
        square, slope = _unary(inside, "square"), _hlx.zeros(x.device, list(x.shape), x.dtype)
        for n in range(6, 0, -1):
            # The terms of sum (-1)^n 2n u^(2n - 1) / (2n + 1)!.
            term = (-1) ** n * 2 * n / math.factorial(2 * n + 1)
            slope = _binary(_binary(slope, square, "mul"), term, "add")
        slope = _binary(slope, inside, "mul")
        far = _hlx.where_(_hlx.tensor(1.0, device=x.device), near, u)
        rest = _binary(_unary(far, "cos"), _binary(_unary(far, "sin"), far, "div"), "sub")
        slope = _hlx.where_(slope, near, _binary(rest, far, "div"))
        return _binary(dy, _binary(slope, math.pi, "mul"), "mul")


@operation
@rounded_once
def sinc(input: Tensor) -> Tensor:
    """Computes `sin(pi x) / (pi x)`, 1 at 0.

    >>> hlx.sinc(hlx.tensor([0.0])).tolist()
    [1.0]
    """
    x = input if input.dtype.is_floating_point else _hlx.to_dtype(input, FLOAT32)
    result: Tensor = _Sinc.apply(x)
    return result


@operation
def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replaces NaN by a number (0), positive and negative infinity by others (the type's ends).

    >>> hlx.nan_to_num(hlx.tensor([float("nan"), 1.0]), nan=5.0).tolist()
    [5.0, 1.0]
    """
    if not input.dtype.is_floating_point:
        return input
    from hlx._operations.facts import finfo

    ends = finfo(input.dtype)
    y = _hlx.masked_fill(input, _unary(input, "isnan"), 0.0 if nan is None else nan)
    y = _hlx.masked_fill(y, _binary(input, math.inf, "eq"), ends.max if posinf is None else posinf)
    return _hlx.masked_fill(y, _binary(input, -math.inf, "eq"), ends.min if neginf is None else neginf)


@operation
def softmax(input: Tensor, dim: int | None = None, *, dtype: dtype | None = None, axis: int | None = None) -> Tensor:
    """Computes `exp(x) / sum(exp(x))` along a dimension, in a type if one is named.

    >>> hlx.softmax(hlx.tensor([1.0, 1.0]), dim=0).tolist()
    [0.5, 0.5]
    """
    return _hlx.softmax_dim(converted(input, dtype), required("softmax", dim, axis))


@operation
def log_softmax(
    input: Tensor, dim: int | None = None, *, dtype: dtype | None = None, axis: int | None = None
) -> Tensor:
    """Computes `log(softmax(x))` along a dimension, in a type if one is named.

    >>> hlx.log_softmax(hlx.tensor([3.0]), dim=0).tolist()
    [0.0]
    """
    return _hlx.log_softmax(converted(input, dtype), required("log_softmax", dim, axis))


@function
def threshold(input: Tensor, threshold: Number, value: Number) -> Tensor:
    """Takes x above a threshold, else a value.

    >>> hlx.threshold(hlx.tensor([0.5, 2.0]), 1, 9).tolist()
    [9.0, 2.0]
    """
    return _hlx.masked_fill(input, _binary(input, threshold, "le"), value)


@operation
def angle(input: Tensor) -> Tensor:
    """Computes the angle of a real number: pi below 0, else 0; NaN stays.

    >>> hlx.angle(hlx.tensor([2.0])).tolist()
    [0.0]
    """
    x = input if input.dtype.is_floating_point else _hlx.to_dtype(input, FLOAT32)
    angles = _binary(_hlx.to_dtype(_binary(x, 0, "lt"), x.dtype), math.pi, "mul")
    angles = _hlx.where_(_hlx.detach(x), _unary(x, "isnan"), angles)
    # The gradient is 0.
    return _hlx.where_(angles, _hlx.ones(x.device, [], BOOL), x) if x.requires_grad else angles


@operation("real", "conj", "conj_physical", "resolve_conj", "resolve_neg")
def real(input: Tensor) -> Tensor:
    """Returns the tensor itself: every element is real.

    >>> hlx.real(hlx.tensor([1.0])).tolist()
    [1.0]
    """
    return input
