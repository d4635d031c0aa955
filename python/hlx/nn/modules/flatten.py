"""Changes of shape."""

from collections.abc import Sequence

from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn._functional.images import Sizes
from hlx.nn.modules.module import Module

__all__ = ["ChannelShuffle", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "Unflatten", "Unfold"]


class Flatten(Module):
    """Makes one dimension of those from `start_dim` to `end_dim`.

    >>> hlx.nn.Flatten()(hlx.ones(2, 3, 4)).shape
    hlx.Size([2, 12])
    """

    start_dim: int
    end_dim: int

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Flattens."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes several dimensions of one; names of dimensions are refused.

    >>> hlx.nn.Unflatten(1, (3, 4))(hlx.ones(2, 12)).shape
    hlx.Size([2, 3, 4])
    """

    dim: int
    unflattened_size: Sequence[int]

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Unflattens."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """The dimension and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class PixelShuffle(Module):
    """Makes images [.., C, r H, r W] of r r C channels [.., r r C, H, W].

    >>> hlx.nn.PixelShuffle(2)(hlx.ones(1, 4, 3, 3)).shape
    hlx.Size([1, 1, 6, 6])
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Shuffles."""
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Makes channels [.., r r C, H, W] of images [.., C, r H, r W]: the inverse of `PixelShuffle`.

    >>> hlx.nn.PixelUnshuffle(2)(hlx.ones(1, 1, 6, 6)).shape
    hlx.Size([1, 4, 3, 3])
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Unshuffles."""
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Takes channels [N, C, ..] from each group in turn.

    >>> hlx.nn.ChannelShuffle(2)(hlx.tensor([[[1], [2], [3], [4]]])).flatten().tolist()
    [1, 3, 2, 4]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        """Shuffles."""
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The groups."""
        return f"groups={self.groups}"


class Unfold(Module):
    """Makes columns [N, C kernel, windows] of the windows of images [N, C, H, W].

    >>> hlx.nn.Unfold(2)(hlx.ones(1, 3, 4, 4)).shape
    hlx.Size([1, 12, 9])
    """

    kernel_size: Sizes
    dilation: Sizes
    padding: Sizes
    stride: Sizes

    def __init__(self, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Unfolds."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class Fold(Module):
    """Adds columns [N, C kernel, windows] to images [N, C, H, W].

    >>> hlx.nn.Fold((1, 3), (1, 2))(hlx.ones(1, 2, 2)).tolist()
    [[[[1.0, 2.0, 1.0]]]]
    """

    output_size: Sizes
    kernel_size: Sizes
    dilation: Sizes
    padding: Sizes
    stride: Sizes

    def __init__(
        self, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Folds."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation},"
            f" padding={self.padding}, stride={self.stride}"
        )
