"""Dropout of elements and of channels."""

from collections.abc import Callable

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn.modules.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    p: float
    inplace: bool
    _function: Callable[..., Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise errors.ValueError(f"{self._get_name()}: p is {p}, expected 0 to 1")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Drops in training, each call with draws of its own; in evaluation returns the input."""
        return type(self)._function(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training zeroes elements with probability p and scales the others by 1 / (1 - p).

    >>> hlx.nn.Dropout(0.5).eval()(hlx.ones(2)).tolist()
    [1.0, 1.0]
    """

    _function = staticmethod(F.dropout)


class Dropout1d(_Dropout):
    """In training zeroes channels of signals [N, C, L] with probability p and scales the others.

    >>> hlx.nn.Dropout1d(1.0)(hlx.ones(1, 1, 2)).tolist()
    [[[0.0, 0.0]]]
    """

    _function = staticmethod(F.dropout1d)


class Dropout2d(_Dropout):
    """In training zeroes channels of images [N, C, H, W] with probability p and scales the others.

    >>> hlx.nn.Dropout2d(1.0)(hlx.ones(1, 1, 1, 2)).tolist()
    [[[[0.0, 0.0]]]]
    """

    _function = staticmethod(F.dropout2d)


class Dropout3d(_Dropout):
    """In training zeroes channels of volumes [N, C, D, H, W] with probability p and scales the others.

    >>> hlx.nn.Dropout3d(1.0)(hlx.ones(1, 1, 1, 1, 2)).tolist()
    [[[[[0.0, 0.0]]]]]
    """

    _function = staticmethod(F.dropout3d)


class AlphaDropout(_Dropout):
    """In training sets elements to SELU's bound with probability p, and keeps mean 0 and variance 1.

    >>> hlx.nn.AlphaDropout().eval()(hlx.ones(2)).tolist()
    [1.0, 1.0]
    """

    _function = staticmethod(F.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """In training sets channels of [N, C, ..] to SELU's bound with probability p, and keeps mean 0 and variance 1.

    >>> hlx.nn.FeatureAlphaDropout().eval()(hlx.ones(1, 2, 1)).tolist()
    [[[1.0], [1.0]]]
    """

    _function = staticmethod(F.feature_alpha_dropout)
