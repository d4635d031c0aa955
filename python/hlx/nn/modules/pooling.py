"""Pooling of signals and images."""

from collections.abc import Callable, Sequence
from typing import Any

from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn._functional.images import Sizes
from hlx.nn.modules._making import each
from hlx.nn.modules.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxUnpool1d",
    "MaxUnpool2d",
]


class _MaxPool(Module):
    kernel_size: Sizes
    padding: Sizes
    dilation: Sizes
    stride: Sizes
    return_indices: bool
    ceil_mode: bool
    _function: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding, self.dilation = kernel_size, padding, dilation
        self.stride = kernel_size if stride is None else stride
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        """The largest elements of windows; with `return_indices` also their places."""
        return type(self)._function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding},"
            f" dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Takes the largest elements of windows of signals [N, C, L].

    >>> hlx.nn.MaxPool1d(2)(hlx.tensor([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[3.0, 2.0]]]
    """

    _function = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """Takes the largest elements of windows of images [N, C, H, W].

    >>> hlx.nn.MaxPool2d(2)(hlx.ones(1, 3, 8, 8)).shape
    hlx.Size([1, 3, 4, 4])
    """

    _function = staticmethod(F.max_pool2d)


class _MaxUnpool(Module):
    n = 2
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    _function: Callable[..., Tensor]

    def __init__(self, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0) -> None:
        super().__init__()
        name = self._get_name()
        self.kernel_size = each(name, "kernel_size", kernel_size, self.n)
        self.stride = self.kernel_size if stride is None else each(name, "stride", stride, self.n)
        self.padding = each(name, "padding", padding, self.n)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Puts elements at their places, with zeros elsewhere."""
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts the results of `MaxPool1d` back to their places.

    >>> hlx.nn.MaxUnpool1d(2)(hlx.tensor([[3.0]]), hlx.tensor([[1]])).tolist()
    [[0.0, 3.0]]
    """

    n = 1
    _function = staticmethod(F.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """Puts the results of `MaxPool2d` back to their places.

    >>> hlx.nn.MaxUnpool2d(2)(hlx.tensor([[[3.0]]]), hlx.tensor([[[2]]])).tolist()
    [[[0.0, 0.0], [3.0, 0.0]]]
    """

    _function = staticmethod(F.max_unpool2d)


class AvgPool1d(Module):
    """Takes the means of windows of signals [N, C, L].

    >>> hlx.nn.AvgPool1d(2)(hlx.tensor([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[2.0, 1.0]]]
    """

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    ceil_mode: bool
    count_include_pad: bool

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = (
            (value,) if isinstance(value, int) else tuple(value)
            for value in (kernel_size, kernel_size if stride is None else stride, padding)
        )
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """Takes the means of windows of images [N, C, H, W].

    >>> hlx.nn.AvgPool2d(2)(hlx.ones(1, 3, 8, 8)).shape
    hlx.Size([1, 3, 4, 4])
    """

    kernel_size: Sizes
    padding: Sizes
    stride: Sizes
    ceil_mode: bool
    count_include_pad: bool
    divisor_override: int | None

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode, self.count_include_pad, self.divisor_override = ceil_mode, count_include_pad, divisor_override

    def forward(self, input: Tensor) -> Tensor:
        """The means."""
        return F.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _Adaptive(Module):
    _function: Callable[..., Any]

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """The means of as many windows as the output has elements."""
        found: Tensor = type(self)._function(input, self.output_size)
        return found

    def extra_repr(self) -> str:
        """The output's size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Takes the means of as many windows of signals [N, C, L] as the output has elements.

    >>> hlx.nn.AdaptiveAvgPool1d(2)(hlx.tensor([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[2.0, 1.0]]]
    """

    _function = staticmethod(F.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_Adaptive):
    """Takes the means of as many windows of images [N, C, H, W] as the output has elements; None leaves an extent.

    >>> hlx.nn.AdaptiveAvgPool2d((2, None))(hlx.ones(1, 3, 8, 8)).shape
    hlx.Size([1, 3, 2, 8])
    """

    _function = staticmethod(F.adaptive_avg_pool2d)


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        """The largest elements of as many windows as the output has; with `return_indices` also their places."""
        return type(self)._function(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Takes the largest elements of as many windows of signals [N, C, L] as the output has elements.

    >>> hlx.nn.AdaptiveMaxPool1d(2)(hlx.tensor([[[1.0, 3.0, 2.0, 0.0]]])).tolist()
    [[[3.0, 2.0]]]
    """

    _function = staticmethod(F.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Takes the largest elements of as many windows of images [N, C, H, W] as the output has; None leaves an extent.

    >>> hlx.nn.AdaptiveMaxPool2d(1)(hlx.tensor([[[[1.0, 3.0], [2.0, 0.0]]]])).tolist()
    [[[[3.0]]]]
    """

    _function = staticmethod(F.adaptive_max_pool2d)
