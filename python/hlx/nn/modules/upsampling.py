"""Resampling of signals and images."""

from collections.abc import Sequence

from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn._functional.images import Sizes
from hlx.nn.modules.module import Module

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]

Factors = float | Sequence[float]


class Upsample(Module):
    """Samples signals, images or volumes [N, C, ..] to a size or by a factor; the modes are those of `interpolate`.

    >>> hlx.nn.Upsample(scale_factor=2)(hlx.tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    size: Sizes | None
    mode: str
    align_corners: bool | None
    scale_factor: float | tuple[float, ...] | None

    def __init__(
        self,
        size: Sizes | None = None,
        scale_factor: Factors | None = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size, self.mode, self.align_corners = size, mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor
        self.scale_factor = (
            float(scale_factor) if isinstance(scale_factor, int | float)
            else None if scale_factor is None
            else tuple(float(factor) for factor in scale_factor)
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """Samples."""
        return F.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """The size or the factor, and the mode."""
        size = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{size}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Samples images [N, C, H, W] to a size or by a factor, the nearest elements.

    >>> hlx.nn.UpsamplingNearest2d(scale_factor=2)(hlx.ones(1, 1, 2, 2)).shape
    hlx.Size([1, 1, 4, 4])
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Samples images [N, C, H, W] to a size or by a factor, bilinear with aligned corners.

    >>> hlx.nn.UpsamplingBilinear2d(size=(1, 3))(hlx.tensor([[[[0.0, 2.0]]]])).tolist()
    [[[[0.0, 1.0, 2.0]]]]
    """

    def __init__(self, size: Sizes | None = None, scale_factor: Factors | None = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)
