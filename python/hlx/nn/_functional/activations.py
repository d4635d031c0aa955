"""Activations, and other functions of the elements of a layer."""

from collections.abc import Callable

from hlx import _hlx, errors
from hlx._operations._arguments import axis, converted
from hlx._operations._rounding import rounded_once
from hlx._operations._types import Number, Tensor, dtype
from hlx._operations.arithmetic import clamp

_unary, _binary = _hlx.unary, _hlx.binary


def _result(input: Tensor, inplace: bool, name: str, function: Callable[[Tensor], Tensor]) -> Tensor:
    return _hlx.in_place(input, f"{name}_", function) if inplace else function(input)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes `max(x, 0)`; the gradient at 0 is 0.

    >>> hlx.nn.functional.relu(hlx.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _result(input, inplace, "relu", lambda x: _unary(x, "relu"))


def relu_(input: Tensor) -> Tensor:
    """Computes `max(x, 0)` into the tensor's own memory.

    >>> hlx.nn.functional.relu_(hlx.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return relu(input, inplace=True)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Computes x above 0, else `negative_slope x`.

    >>> hlx.nn.functional.leaky_relu(hlx.tensor([-1.0, 2.0]), 0.5).tolist()
    [-0.5, 2.0]
    """
    return _result(input, inplace, "leaky_relu", lambda x: _unary(x, "leaky_relu", negative_slope))


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Computes x above 0, else `alpha (e^x - 1)`.

    >>> hlx.nn.functional.elu(hlx.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _result(input, inplace, "elu", lambda x: _unary(x, "elu", alpha))


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes 1.0507 times x above 0, else 1.0507 times `1.6733 (e^x - 1)`.

    >>> hlx.nn.functional.selu(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946

    @rounded_once
    def compute(x: Tensor) -> Tensor:
        return _binary(_unary(x, "elu", alpha), scale, "mul")

    return _result(input, inplace, "selu", compute)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Computes x above 0, else `alpha (e^(x / alpha) - 1)`.

    >>> hlx.nn.functional.celu(hlx.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    @rounded_once
    def compute(x: Tensor) -> Tensor:
        # NaN counts as above, and passes the gradient on.
        above = _unary(_binary(x, 0, "le"), "logical_not")
        below = _unary(_binary(_hlx.masked_fill(x, above, 0.0), alpha, "div"), "expm1")
        return _hlx.where_(x, above, _binary(below, alpha, "mul"))

    return _result(input, inplace, "celu", compute)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Computes `x Phi(x)` by the error function, or by a tanh with `approximate="tanh"`.

    >>> hlx.nn.functional.gelu(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    if approximate not in ("none", "tanh"):
        raise errors.RuntimeError(f"gelu: approximate is {approximate!r}, expected 'none' or 'tanh'")
    return _unary(input, "gelu" if approximate == "none" else "gelu_tanh")


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes `x sigmoid(x)`.

    >>> hlx.nn.functional.silu(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _result(input, inplace, "silu", lambda x: _unary(x, "silu"))


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes `x tanh(softplus(x))`.

    >>> hlx.nn.functional.mish(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _result(input, inplace, "mish", lambda x: _unary(x, "mish"))


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes `x clamp(x + 3, 0, 6) / 6`.

    >>> hlx.nn.functional.hardswish(hlx.tensor([0.0, 4.0])).tolist()
    [0.0, 4.0]
    """
    return _result(input, inplace, "hardswish", lambda x: _unary(x, "hardswish"))


def softplus(input: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """Computes `log(1 + exp(beta x)) / beta`, and x where `beta x` is above a threshold.

    >>> hlx.nn.functional.softplus(hlx.tensor([30.0])).tolist()
    [30.0]
    """
    if (beta, threshold) == (1, 20):
        return _unary(input, "softplus")
    return _hlx.softplus_with(input, beta, threshold)


@rounded_once
def logsigmoid(input: Tensor) -> Tensor:
    """Computes `log(sigmoid(x))` as `-softplus(-x)`.

    >>> hlx.nn.functional.logsigmoid(hlx.tensor([-30.0])).tolist()
    [-30.0]
    """
    return _unary(_unary(_unary(input, "neg"), "softplus"), "neg")


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Brings every element within [min_val, max_val].

    >>> hlx.nn.functional.hardtanh(hlx.tensor([-2.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    if not input.dtype.is_floating_point:
        min_val, max_val = int(min_val), int(max_val)
    return _result(input, inplace, "hardtanh", lambda x: clamp(x, min_val, max_val))


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Brings every element within [0, 6].

    >>> hlx.nn.functional.relu6(hlx.tensor([-2.0, 9.0])).tolist()
    [0.0, 6.0]
    """
    return hardtanh(input, 0.0, 6.0, inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Computes `clamp(x + 3, 0, 6) / 6`.

    >>> hlx.nn.functional.hardsigmoid(hlx.tensor([-4.0, 0.0])).tolist()
    [0.0, 0.5]
    """

    @rounded_once
    def compute(x: Tensor) -> Tensor:
        return _binary(clamp(_binary(x, 3.0, "add"), 0.0, 6.0), 6.0, "div")

    return _result(input, inplace, "hardsigmoid", compute)


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Takes 0 for the elements within [-lambd, lambd].

    >>> hlx.nn.functional.hardshrink(hlx.tensor([0.5, 2.0])).tolist()
    [0.0, 2.0]
    """
    return _shrunk(input, input, lambd)


def _shrunk(input: Tensor, moved: Tensor, lambd: float) -> Tensor:
    # NaN stays, without a gradient.
    rest = _hlx.where_(_hlx.detach(input), _unary(input, "isnan"), 0.0)
    return _hlx.where_(moved, _binary(_unary(input, "abs"), lambd, "gt"), rest)


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """Moves every element toward 0 by `lambd`, at most to 0.

    >>> hlx.nn.functional.softshrink(hlx.tensor([0.25, 2.0, -2.0])).tolist()
    [0.0, 1.5, -1.5]
    """
    if lambd < 0:
        raise errors.RuntimeError(f"softshrink: lambd is {lambd}, expected at least 0")
    moved = _hlx.where_(_binary(input, lambd, "sub"), _binary(input, 0, "gt"), _binary(input, lambd, "add"))
    return _shrunk(input, moved, lambd)


@rounded_once
def tanhshrink(input: Tensor) -> Tensor:
    """Computes `x - tanh(x)`.

    >>> hlx.nn.functional.tanhshrink(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _binary(input, _unary(input, "tanh"), "sub")


@rounded_once
def softsign(input: Tensor) -> Tensor:
    """Computes `x / (1 + |x|)`.

    >>> hlx.nn.functional.softsign(hlx.tensor([1.0, -3.0])).tolist()
    [0.5, -0.75]
    """
    return _binary(input, _binary(_unary(input, "abs"), 1, "add"), "div")


def tanh(input: Tensor) -> Tensor:
    """Computes the hyperbolic tangent.

    >>> hlx.nn.functional.tanh(hlx.tensor([0.0])).tolist()
    [0.0]
    """
    return _unary(input, "tanh")


def sigmoid(input: Tensor) -> Tensor:
    """Computes `1 / (1 + exp(-x))`.

    >>> hlx.nn.functional.sigmoid(hlx.tensor([0.0])).tolist()
    [0.5]
    """
    return _unary(input, "sigmoid")


def threshold(input: Tensor, threshold: Number, value: Number, inplace: bool = False) -> Tensor:
    """Takes x above a threshold, else a value.

    >>> hlx.nn.functional.threshold(hlx.tensor([0.5, 2.0]), 1, 9).tolist()
    [9.0, 2.0]
    """
    return _result(input, inplace, "threshold", lambda x: _hlx.masked_fill(x, _binary(x, threshold, "le"), value))


@rounded_once
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Computes x above 0, else `weight x`; one weight, or one for each channel [N, C, ..].

    >>> hlx.nn.functional.prelu(hlx.tensor([-1.0, 2.0]), hlx.tensor([0.25])).tolist()
    [-0.25, 2.0]
    """
    if weight.ndim > 1 or (weight.numel() != 1 and (input.ndim < 2 or weight.numel() != input.shape[1])):
        raise errors.RuntimeError(
            f"prelu: weight has shape {list(weight.shape)}, expected one element or one for each channel of"
            f" {list(input.shape)}"
        )
    shape = [1] * input.ndim
    if input.ndim > 1:
        shape[1] = weight.numel()
    below = _binary(_hlx.reshape(weight, shape), input, "mul")
    return _hlx.where_(input, _binary(input, 0, "gt"), below)


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Computes x above 0, else x times the mean of lower and upper, or in training a slope drawn between them.

    >>> hlx.nn.functional.rrelu(hlx.tensor([-1.0, 2.0]), 0.25, 0.75).tolist()
    [-0.5, 2.0]
    """
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    drawn = _hlx.rand(input.device, list(input.shape), _hlx.next_seed())
    slopes = _hlx.to_dtype(_binary(_binary(drawn, upper - lower, "mul"), lower, "add"), input.dtype)
    return _result(input, inplace, "rrelu", lambda x: _hlx.where_(x, _binary(x, 0, "gt"), _binary(x, slopes, "mul")))


@rounded_once
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Computes `a sigmoid(b)` of the two halves of a dimension.

    >>> hlx.nn.functional.glu(hlx.tensor([3.0, 0.0])).tolist()
    [1.5]
    """
    extent = input.shape[axis("glu", dim, input.ndim)] if input.ndim else 1
    if extent % 2:
        raise errors.RuntimeError(f"glu: dimension {dim} has {extent} elements, expected an even number")
    half = extent // 2
    value, gate = _hlx.narrow(input, dim, 0, half), _hlx.narrow(input, dim, half, half)
    return _binary(value, _unary(gate, "sigmoid"), "mul")


def _softmax_dim(dim: int | None, rank: int) -> int:
    # PyTorch's old choice where no dimension is named.
    if dim is not None:
        return dim
    return 0 if rank in (0, 1, 3) else 1


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """Computes `exp(x) / sum(exp(x))` along a dimension.

    >>> hlx.nn.functional.softmax(hlx.tensor([1.0, 1.0]), dim=0).tolist()
    [0.5, 0.5]
    """
    return _hlx.softmax_dim(converted(input, dtype), _softmax_dim(dim, input.ndim))


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """Computes the softmax of `-x` along a dimension.

    >>> hlx.nn.functional.softmin(hlx.tensor([1.0, 1.0]), dim=0).tolist()
    [0.5, 0.5]
    """
    return softmax(_unary(input, "neg"), dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: dtype | None = None) -> Tensor:
    """Computes `log(softmax(x))` along a dimension.

    >>> hlx.nn.functional.log_softmax(hlx.tensor([3.0]), dim=0).tolist()
    [0.0]
    """
    return _hlx.log_softmax(converted(input, dtype), _softmax_dim(dim, input.ndim))


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """Draws a softmax of `(logits + Gumbel noise) / tau`; with `hard` 1 at its largest element, with its gradient.

    >>> hlx.nn.functional.gumbel_softmax(hlx.tensor([0.0, 100.0]), hard=True).tolist()
    [0.0, 1.0]
    """
    uniform = _hlx.rand(logits.device, list(logits.shape), _hlx.next_seed())
    # 1 - u is not 0, and -log(1 - u) exponential; a draw of 0 has no logarithm of its own.
    exponential = _hlx.clamp_min(_unary(_unary(_unary(uniform, "neg"), "log1p"), "neg"), 2.0**-126)
    noise = _hlx.to_dtype(_unary(_unary(exponential, "log"), "neg"), logits.dtype)
    soft = _hlx.softmax_dim(_binary(_binary(logits, noise, "add"), float(tau), "div"), dim)
    if not hard:
        return soft
    places = _hlx.argmax(_hlx.detach(soft), dim, True)
    ones = _hlx.ones(logits.device, list(places.shape), soft.dtype)
    chosen = _hlx.scatter(_hlx.zeros(logits.device, list(soft.shape), soft.dtype), dim, places, ones)
    return _binary(_binary(chosen, _hlx.detach(soft), "sub"), soft, "add")
