"""Normalisation within a sample."""

from hlx import errors
from hlx._hlx import Tensor, dtype
from hlx._operations._types import Device, Shape
from hlx.nn import functional as F
from hlx.nn.modules._making import parameter
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    weight: Parameter | None
    bias: Parameter | None

    def reset_parameters(self) -> None:
        """Sets gain 1 and bias 0."""
        for found, value in ((self.weight, 1), (self.__dict__["_parameters"].get("bias"), 0)):
            if found is not None:
                found.detach().fill_(value)


class LayerNorm(_Affine):
    """Computes `(x - mean) / sqrt(variance + eps) weight + bias` over the last dimensions.

    >>> hlx.nn.LayerNorm(4)(hlx.ones(2, 4)).tolist()
    [[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    """

    normalized_shape: tuple[int, ...]
    eps: float
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | Shape,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        shape = self.normalized_shape
        self.register_parameter("weight", parameter(shape, 1.0, device, dtype) if elementwise_affine else None)
        has_bias = elementwise_affine and bias
        self.register_parameter("bias", parameter(shape, 0.0, device, dtype) if has_bias else None)

    def forward(self, input: Tensor) -> Tensor:
        """Normalises."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine},"
            f" bias={self.bias is not None}"
        )


class RMSNorm(_Affine):
    """Computes `x / sqrt(mean(x^2) + eps) weight` over the last dimensions; eps is 2^-23 by default.

    >>> hlx.nn.RMSNorm(2, eps=0)(hlx.tensor([2.0, -2.0])).tolist()
    [1.0, -1.0]
    """

    normalized_shape: tuple[int, ...]
    eps: float | None
    elementwise_affine: bool

    def __init__(
        self,
        normalized_shape: int | Shape,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        shape = self.normalized_shape
        self.register_parameter("weight", parameter(shape, 1.0, device, dtype) if elementwise_affine else None)

    def forward(self, x: Tensor) -> Tensor:
        """Normalises."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalises each group of channels of [N, C, ..] by its mean and variance; gain and bias are by channel.

    >>> hlx.nn.GroupNorm(2, 4)(hlx.ones(1, 4, 1)).flatten().tolist()
    [0.0, 0.0, 0.0, 0.0]
    """

    num_groups: int
    num_channels: int
    eps: float
    affine: bool

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise errors.ValueError(f"GroupNorm: {num_channels} channels are no multiple of {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        shape = [num_channels]
        self.register_parameter("weight", parameter(shape, 1.0, device, dtype) if affine else None)
        self.register_parameter("bias", parameter(shape, 0.0, device, dtype) if affine and bias else None)

    def forward(self, input: Tensor) -> Tensor:
        """Normalises."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine},"
            f" bias={self.bias is not None}"
        )


class LocalResponseNorm(Module):
    """Divides by `(k + alpha mean(x^2))^beta`, the mean over `size` neighbouring channels of [N, C, ..].

    >>> hlx.nn.LocalResponseNorm(1, alpha=0.0)(hlx.ones(1, 1, 2)).tolist()
    [[[1.0, 1.0]]]
    """

    size: int
    alpha: float
    beta: float
    k: float

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """Normalises."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The numbers."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
