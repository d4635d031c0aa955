"""Activations along a dimension."""

from collections.abc import Callable

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn.modules.module import Module

__all__ = [
    "GLU",
    "LogSoftmax",
    "Softmax",
    "Softmax2d",
    "Softmin",
]


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
