"""Linear maps."""

import math

from hlx._hlx import Tensor, dtype
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn import init
from hlx.nn.modules._making import parameter, uniform_by_inputs
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = ["Bilinear", "Identity", "Linear"]


class Identity(Module):
    """Returns its input; arguments of the constructor mean nothing.

    >>> hlx.nn.Identity()(hlx.ones(1)).tolist()
    [1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        """Returns the input."""
        return input


class Linear(Module):
    """Computes `x weight^T + bias` of rows [.., in_features].

    Initial values are uniform within `1 / sqrt(in_features)`.

    >>> layer = hlx.nn.Linear(20, 30)
    >>> layer(hlx.ones(128, 20)).shape
    hlx.Size([128, 30])
    """

    in_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Device = None, dtype: dtype | None = None
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = parameter([out_features, in_features], 0.0, device, dtype)
        self.register_parameter("bias", parameter([out_features], 0.0, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws initial values."""
        uniform_by_inputs(self.weight, self.bias)

    def forward(self, input: Tensor) -> Tensor:
        """Computes rows [.., out_features]."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """Computes `x1 weight[n] x2 + bias[n]` of rows [.., in1_features] and [.., in2_features].

    Initial values are uniform within `1 / sqrt(in1_features)`.

    >>> hlx.nn.Bilinear(2, 3, 4)(hlx.ones(5, 2), hlx.ones(5, 3)).shape
    hlx.Size([5, 4])
    """

    in1_features: int
    in2_features: int
    out_features: int
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.in1_features, self.in2_features, self.out_features = in1_features, in2_features, out_features
        self.weight = parameter([out_features, in1_features, in2_features], 0.0, device, dtype)
        self.register_parameter("bias", parameter([out_features], 0.0, device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws initial values."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """Computes rows [.., out_features]."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features},"
            f" bias={self.bias is not None}"
        )
