"""Activations with a slope below 0."""

from collections.abc import Callable

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
    "LeakyReLU",
    "PReLU",
    "RReLU",
]


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
