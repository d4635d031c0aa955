"""Activations: functions of the elements."""

from collections.abc import Callable

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn.modules.module import Module

__all__ = [
    "GELU",
    "SELU",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LogSigmoid",
    "Mish",
    "ReLU",
    "ReLU6",
    "SiLU",
    "Sigmoid",
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

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


class Hardsigmoid(_InPlace):
    """Computes `clamp(x + 3, 0, 6) / 6`.

    >>> hlx.nn.Hardsigmoid()(hlx.tensor([-4.0, 0.0])).tolist()
    [0.0, 0.5]
    """

    _function = staticmethod(F.hardsigmoid)

    def extra_repr(self) -> str:
        """Nothing, as in PyTorch."""
        return ""


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
