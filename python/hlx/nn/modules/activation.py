"""Activations: functions of the elements."""

from collections.abc import Callable

from hlx import errors
from hlx._hlx import Tensor, dtype
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn import init as initial
from hlx.nn.modules._making import parameter
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LeakyReLU",
    "LogSigmoid",
    "LogSoftmax",
    "Mish",
    "PReLU",
    "RReLU",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
]


class _Plain(Module):
    """An activation without arguments."""

    _function: Callable[..., Tensor]

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return type(self)._function(input)


class _InPlace(Module):
    """An activation that may overwrite its input."""

    _function: Callable[..., Tensor]

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return type(self)._function(input, inplace=self.inplace)

    def extra_repr(self) -> str:
        """Whether the input is overwritten."""
        return "inplace=True" if self.inplace else ""


class ReLU(_InPlace):
    """Computes `max(x, 0)`.

    >>> hlx.nn.ReLU()(hlx.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(F.relu)


class ReLU6(_InPlace):
    """Brings every element within [0, 6].

    >>> hlx.nn.ReLU6()(hlx.tensor([-2.0, 9.0])).tolist()
    [0.0, 6.0]
    """

    _function = staticmethod(F.relu6)


class SELU(_InPlace):
    """Computes 1.0507 times x above 0, else 1.0507 times `1.6733 (e^x - 1)`.

    >>> hlx.nn.SELU()(hlx.tensor([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(F.selu)


class SiLU(_InPlace):
    """Computes `x sigmoid(x)`.

    >>> hlx.nn.SiLU()(hlx.tensor([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(F.silu)


class Mish(_InPlace):
    """Computes `x tanh(softplus(x))`.

    >>> hlx.nn.Mish()(hlx.tensor([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(F.mish)


class Hardswish(_InPlace):
    """Computes `x clamp(x + 3, 0, 6) / 6`.

    >>> hlx.nn.Hardswish()(hlx.tensor([0.0, 4.0])).tolist()
    [0.0, 4.0]
    """

    _function = staticmethod(F.hardswish)


class Hardsigmoid(_InPlace):
    """Computes `clamp(x + 3, 0, 6) / 6`.

    >>> hlx.nn.Hardsigmoid()(hlx.tensor([-4.0, 0.0])).tolist()
    [0.0, 0.5]
    """

    _function = staticmethod(F.hardsigmoid)


class Sigmoid(_Plain):
    """Computes `1 / (1 + exp(-x))`.

    >>> hlx.nn.Sigmoid()(hlx.tensor([0.0])).tolist()
    [0.5]
    """

    _function = staticmethod(F.sigmoid)


class Tanh(_Plain):
    """Computes the hyperbolic tangent.

    >>> hlx.nn.Tanh()(hlx.tensor([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(F.tanh)


class Tanhshrink(_Plain):
    """Computes `x - tanh(x)`.

    >>> hlx.nn.Tanhshrink()(hlx.tensor([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(F.tanhshrink)


class Softsign(_Plain):
    """Computes `x / (1 + |x|)`.

    >>> hlx.nn.Softsign()(hlx.tensor([1.0, -3.0])).tolist()
    [0.5, -0.75]
    """

    _function = staticmethod(F.softsign)


class LogSigmoid(_Plain):
    """Computes `log(sigmoid(x))`.

    >>> hlx.nn.LogSigmoid()(hlx.tensor([-30.0])).tolist()
    [-30.0]
    """

    _function = staticmethod(F.logsigmoid)


class GELU(Module):
    """Computes `x Phi(x)` by the error function, or by a tanh with `approximate="tanh"`.

    >>> hlx.nn.GELU()(hlx.tensor([0.0])).tolist()
    [0.0]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.gelu(input, self.approximate)

    def extra_repr(self) -> str:
        """The approximation."""
        return f"approximate={self.approximate!r}"


class LeakyReLU(Module):
    """Computes x above 0, else `negative_slope x`.

    >>> hlx.nn.LeakyReLU(0.5)(hlx.tensor([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    negative_slope: float
    inplace: bool

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}{', inplace=True' if self.inplace else ''}"


class ELU(Module):
    """Computes x above 0, else `alpha (e^x - 1)`.

    >>> hlx.nn.ELU()(hlx.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    alpha: float
    inplace: bool
    _function: Callable[..., Tensor] = staticmethod(F.elu)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return type(self)._function(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        """The factor."""
        return f"alpha={self.alpha}{', inplace=True' if self.inplace else ''}"


class CELU(ELU):
    """Computes x above 0, else `alpha (e^(x / alpha) - 1)`.

    >>> hlx.nn.CELU()(hlx.tensor([0.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(F.celu)


class Hardtanh(Module):
    """Brings every element within [min_val, max_val].

    >>> hlx.nn.Hardtanh()(hlx.tensor([-2.0, 0.5])).tolist()
    [-1.0, 0.5]
    """

    min_val: float
    max_val: float
    inplace: bool

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        if min_val >= max_val:
            raise errors.ValueError(f"Hardtanh: min_val is {min_val}, expected below max_val, {max_val}")
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}{', inplace=True' if self.inplace else ''}"


class Threshold(Module):
    """Computes x above a threshold, else a value.

    >>> hlx.nn.Threshold(1, 9)(hlx.tensor([0.5, 2.0])).tolist()
    [9.0, 2.0]
    """

    threshold: float
    value: float
    inplace: bool

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"threshold={self.threshold}, value={self.value}{', inplace=True' if self.inplace else ''}"


class Softplus(Module):
    """Computes `log(1 + exp(beta x)) / beta`, and x where `beta x` is above a threshold.

    >>> hlx.nn.Softplus()(hlx.tensor([30.0])).tolist()
    [30.0]
    """

    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"beta={self.beta}, threshold={self.threshold}"


class Hardshrink(Module):
    """Takes 0 for the elements within [-lambd, lambd].

    >>> hlx.nn.Hardshrink()(hlx.tensor([0.5, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function: Callable[..., Tensor] = staticmethod(F.hardshrink)

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return type(self)._function(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"


class Softshrink(Hardshrink):
    """Moves every element toward 0 by `lambd`, at most to 0.

    >>> hlx.nn.Softshrink()(hlx.tensor([0.25, 2.0])).tolist()
    [0.0, 1.5]
    """

    _function = staticmethod(F.softshrink)


class PReLU(Module):
    """Computes x above 0, else `weight x`; one weight, or one for each channel [N, C, ..].

    >>> hlx.nn.PReLU()(hlx.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    num_parameters: int
    init: float
    weight: Parameter

    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: dtype | None = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = parameter([num_parameters], init, device, dtype)

    def reset_parameters(self) -> None:
        """Sets the initial value."""
        initial.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of weights."""
        return f"num_parameters={self.num_parameters}"


class RReLU(Module):
    """Computes x above 0, else a slope times x: in training drawn from [lower, upper), else their mean.

    >>> hlx.nn.RReLU(0.5, 0.5)(hlx.tensor([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    lower: float
    upper: float
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: float = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The bounds."""
        return f"lower={self.lower}, upper={self.upper}{', inplace=True' if self.inplace else ''}"


class GLU(Module):
    """Computes `a sigmoid(b)` of the two halves of a dimension.

    >>> hlx.nn.GLU()(hlx.tensor([3.0, 0.0])).tolist()
    [1.5]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmax(Module):
    """Computes the powers of e over their sum along a dimension.

    >>> hlx.nn.Softmax(dim=0)(hlx.tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    _function: Callable[..., Tensor] = staticmethod(F.softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        return type(self)._function(input, self.dim)

    def extra_repr(self) -> str:
        """The dimension."""
        return f"dim={self.dim}"


class Softmin(Softmax):
    """Computes the softmax of `-x` along a dimension.

    >>> hlx.nn.Softmin(dim=0)(hlx.tensor([1.0, 1.0])).tolist()
    [0.5, 0.5]
    """

    _function = staticmethod(F.softmin)


class LogSoftmax(Softmax):
    """Computes the logarithm of the softmax along a dimension.

    >>> hlx.nn.LogSoftmax(dim=0)(hlx.tensor([3.0])).tolist()
    [0.0]
    """

    _function = staticmethod(F.log_softmax)


class Softmax2d(Module):
    """Computes the softmax over the channels of images [N, C, H, W], or of one of them.

    >>> hlx.nn.Softmax2d()(hlx.ones(1, 2, 1, 1)).flatten().tolist()
    [0.5, 0.5]
    """

    def forward(self, input: Tensor) -> Tensor:
        """Computes the activation."""
        if input.ndim not in (3, 4):
            raise errors.ValueError(f"Softmax2d: the input has shape {list(input.shape)}, expected 3 or 4 dimensions")
        return F.softmax(input, -3)
