"""Padding of signals and images; volumes are padded with a constant."""

from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn._functional.images import Sizes
from hlx.nn.modules._making import each
from hlx.nn.modules.module import Module

__all__ = [
    "CircularPad1d",
    "CircularPad2d",
    "ConstantPad1d",
    "ConstantPad2d",
    "ConstantPad3d",
    "ReflectionPad1d",
    "ReflectionPad2d",
    "ReplicationPad1d",
    "ReplicationPad2d",
    "ZeroPad1d",
    "ZeroPad2d",
    "ZeroPad3d",
]


class _Pad(Module):
    """Pads the last `n` dimensions; a negative width cuts."""

    padding: tuple[int, ...]

    n = 1
    mode = "constant"
    value: float | None = None

    def __init__(self, padding: Sizes) -> None:
        super().__init__()
        self.padding = each(self._get_name(), "padding", padding, 2 * self.n)

    def forward(self, input: Tensor) -> Tensor:
        """Pads."""
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """The widths."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    value: float | None

    def __init__(self, padding: Sizes, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """The widths and the value."""
        return f"padding={self.padding}, value={self.value}"


class ZeroPad1d(_Pad):
    """Pads signals [.., L] with zeros: `(left, right)`.

    >>> hlx.nn.ZeroPad1d(1)(hlx.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[0.0, 1.0, 2.0, 3.0, 0.0]]]
    """

    n = 1


class ZeroPad2d(_Pad):
    """Pads images [.., H, W] with zeros: `(left, right, top, bottom)`.

    >>> hlx.nn.ZeroPad2d(1)(hlx.ones(1, 1, 4, 4)).shape
    hlx.Size([1, 1, 6, 6])
    """

    n = 2


class ZeroPad3d(_Pad):
    """Pads volumes [.., D, H, W] with zeros: `(left, right, top, bottom, front, back)`.

    >>> hlx.nn.ZeroPad3d(1)(hlx.ones(1, 1, 4, 4, 4)).shape
    hlx.Size([1, 1, 6, 6, 6])
    """

    n = 3


class ConstantPad1d(_ConstantPad):
    """Pads signals [.., L] with a value: `(left, right)`.

    >>> hlx.nn.ConstantPad1d(1, 7.0)(hlx.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[7.0, 1.0, 2.0, 3.0, 7.0]]]
    """

    n = 1


class ConstantPad2d(_ConstantPad):
    """Pads images [.., H, W] with a value: `(left, right, top, bottom)`.

    >>> hlx.nn.ConstantPad2d(1, 7.0)(hlx.ones(1, 1, 4, 4)).shape
    hlx.Size([1, 1, 6, 6])
    """

    n = 2


class ConstantPad3d(_ConstantPad):
    """Pads volumes [.., D, H, W] with a value: `(left, right, top, bottom, front, back)`.

    >>> hlx.nn.ConstantPad3d(1, 7.0)(hlx.ones(1, 1, 4, 4, 4)).shape
    hlx.Size([1, 1, 6, 6, 6])
    """

    n = 3


class ReflectionPad1d(_Pad):
    """Pads signals [.., L] with the elements beside their ends: `(left, right)`.

    >>> hlx.nn.ReflectionPad1d(1)(hlx.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[2.0, 1.0, 2.0, 3.0, 2.0]]]
    """

    n = 1
    mode = "reflect"


class ReflectionPad2d(_Pad):
    """Pads images [.., H, W] with the elements beside their ends: `(left, right, top, bottom)`.

    >>> hlx.nn.ReflectionPad2d(1)(hlx.ones(1, 1, 4, 4)).shape
    hlx.Size([1, 1, 6, 6])
    """

    n = 2
    mode = "reflect"


class ReplicationPad1d(_Pad):
    """Pads signals [.., L] with their last elements: `(left, right)`.

    >>> hlx.nn.ReplicationPad1d(1)(hlx.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 3.0, 3.0]]]
    """

    n = 1
    mode = "replicate"


class ReplicationPad2d(_Pad):
    """Pads images [.., H, W] with their last elements: `(left, right, top, bottom)`.

    >>> hlx.nn.ReplicationPad2d(1)(hlx.ones(1, 1, 4, 4)).shape
    hlx.Size([1, 1, 6, 6])
    """

    n = 2
    mode = "replicate"


class CircularPad1d(_Pad):
    """Pads signals [.., L] with the elements of their other end: `(left, right)`.

    >>> hlx.nn.CircularPad1d(1)(hlx.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[3.0, 1.0, 2.0, 3.0, 1.0]]]
    """

    n = 1
    mode = "circular"


class CircularPad2d(_Pad):
    """Pads images [.., H, W] with the elements of their other end: `(left, right, top, bottom)`.

    >>> hlx.nn.CircularPad2d(1)(hlx.ones(1, 1, 4, 4)).shape
    hlx.Size([1, 1, 6, 6])
    """

    n = 2
    mode = "circular"
