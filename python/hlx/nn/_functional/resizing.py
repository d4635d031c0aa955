"""Interpolation, and the order of pixels and channels."""

import math
from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._operations._rounding import rounded_once
from hlx._operations._types import FLOAT32, INT32, Tensor
from hlx.nn._functional.images import adaptive_avg_pool1d, adaptive_avg_pool2d

Sizes = int | Sequence[int]
Factors = float | Sequence[float]


def _sizes(input: Tensor, size: Sizes | None, n: int) -> list[int] | None:
    if size is None:
        return None
    sizes = [size] * n if isinstance(size, int) else list(size)
    if len(sizes) != n:
        raise errors.ValueError(f"interpolate: size is {sizes} of an input {list(input.shape)}, expected {n} numbers")
    return sizes


def _factors(input: Tensor, scale_factor: Factors | None, n: int) -> list[float]:
    if scale_factor is None:
        raise errors.ValueError("interpolate: size and scale_factor are None, expected one of them")
    factors = [float(scale_factor)] * n if isinstance(scale_factor, int | float) else [float(f) for f in scale_factor]
    if len(factors) != n:
        raise errors.ValueError(
            f"interpolate: scale_factor is {factors} of an input {list(input.shape)}, expected {n} numbers"
        )
    return factors


#: The numbers of dimensions that each mode has.
_MODES = {
    "nearest": (1, 2, 3),
    "nearest-exact": (1, 2, 3),
    "linear": (1,),
    "bilinear": (2,),
    "trilinear": (3,),
    "area": (1, 2),
    "bicubic": (2,),
}


def interpolate(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Samples signals, images or volumes [N, C, ..] to a size or by a factor.

    `mode` is "nearest" or "nearest-exact", "linear" of signals, "bilinear" or "bicubic" of images, "trilinear" of
    volumes, or "area" of signals and images.

    >>> hlx.nn.functional.interpolate(hlx.tensor([[[1.0, 2.0]]]), scale_factor=2).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    n = input.ndim - 2
    if mode not in _MODES:
        raise errors.NotImplementedError(f"interpolate: mode is {mode!r}, expected one of {', '.join(_MODES)}")
    if n not in _MODES[mode]:
        expected = " or ".join(str(count + 2) for count in _MODES[mode])
        raise errors.NotImplementedError(
            f"interpolate: the input has {input.ndim} dimensions in mode {mode!r}, expected {expected}"
        )
    if antialias:
        raise errors.ValueError("interpolate: antialias is True, expected False")
    if not mode.endswith(("linear", "cubic")) and align_corners is not None:
        raise errors.ValueError(f"interpolate: align_corners is given in mode {mode!r}, expected None")
    if size is not None and scale_factor is not None:
        raise errors.ValueError("interpolate: size and scale_factor are given, expected one of them")
    sizes = _sizes(input, size, n)
    factors = None if sizes else _factors(input, scale_factor, n)
    if factors and recompute_scale_factor:
        sides = zip(input.shape[2:], factors, strict=True)
        sizes, factors = [math.floor(extent * factor) for extent, factor in sides], None
    if mode == "area":
        return _area(input, sizes, factors)
    if mode == "bicubic":
        return _bicubic(input, _output(input, sizes, factors), factors, bool(align_corners))
    if mode == "nearest-exact":
        return _nearest_exact(input, sizes, factors)
    return _sampled(input, sizes, factors, "nearest" if mode == "nearest" else "bilinear", bool(align_corners))


def _output(input: Tensor, sizes: list[int] | None, factors: list[float] | None) -> list[int]:
    if sizes is not None:
        return sizes
    return [math.floor(extent * factor) for extent, factor in zip(input.shape[2:], factors or [], strict=True)]


def _area(input: Tensor, sizes: list[int] | None, factors: list[float] | None) -> Tensor:
    output = _output(input, sizes, factors)
    return adaptive_avg_pool1d(input, output) if len(output) == 1 else adaptive_avg_pool2d(input, output)


def _cubic_weights(t: float) -> list[float]:
    """The weights of four neighbours by their distances from a place: Keys' kernel with -0.75, as in PyTorch."""

    def near(x: float) -> float:
        return (1.25 * x - 2.25) * x * x + 1

    def far(x: float) -> float:
        return ((-0.75 * x + 3.75) * x - 6) * x + 3

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@rounded_once
def _bicubic(input: Tensor, output: list[int], factors: list[float] | None, aligned: bool) -> Tensor:
    if not input.dtype.is_floating_point:
        raise errors.RuntimeError(f"interpolate: the input has elements of {input.dtype}, expected hlx.float32")
    for i, extent in enumerate(output):
        dim, own = 2 + i, input.shape[2 + i]
        if aligned:
            sources = [place * ((own - 1) / (extent - 1) if extent > 1 else 0.0) for place in range(extent)]
        else:
            scale = own / extent if factors is None else 1 / factors[i]
            sources = [(place + 0.5) * scale - 0.5 for place in range(extent)]
        starts = [math.floor(source) for source in sources]
        weights = [_cubic_weights(source - start) for source, start in zip(sources, starts, strict=True)]
        along = [extent if other == dim else 1 for other in range(input.ndim)]
        total: Tensor | None = None
        for tap in range(4):
            places = [min(max(start + tap - 1, 0), own - 1) for start in starts]
            taken = _hlx.index_select(input, dim, _hlx.tensor(places, INT32, input.device))
            weight = _hlx.tensor([each[tap] for each in weights], FLOAT32, input.device)
            part = _hlx.binary(taken, _hlx.reshape(weight, along), "mul")
            total = part if total is None else _hlx.binary(total, part, "add")
        assert total is not None
        input = total
    return input


def _nearest_exact(input: Tensor, sizes: list[int] | None, factors: list[float] | None) -> Tensor:
    """Takes, along each dimension, the element at the middle of each output element."""
    for i, extent in enumerate(_output(input, sizes, factors)):
        own = input.shape[2 + i]
        scale = own / extent if factors is None else 1 / factors[i]
        places = [min(math.floor((place + 0.5) * scale), own - 1) for place in range(extent)]
        input = _hlx.index_select(input, 2 + i, _hlx.tensor(places, INT32, input.device))
    return input


def _sampled(input: Tensor, sizes: list[int] | None, factors: list[float] | None, kind: str, aligned: bool) -> Tensor:
    n = input.ndim - 2
    if n == 3:
        return _volume(input, sizes, factors, kind, aligned)
    image = _hlx.unsqueeze(input, -2) if n == 1 else input
    if sizes is not None:
        result = _hlx.interpolate(image, [1, *sizes] if n == 1 else sizes, kind, aligned)
    else:
        assert factors is not None
        result = _hlx.interpolate_by(image, [1.0, *factors] if n == 1 else factors, kind, aligned)
    return _hlx.squeeze(result, -2) if n == 1 else result


def _volume(input: Tensor, sizes: list[int] | None, factors: list[float] | None, kind: str, aligned: bool) -> Tensor:
    # Along one dimension after another: the planes first, then the depth; 16 bits are rounded once.
    if input.dtype.is_floating_point and input.dtype != FLOAT32:
        wide = _volume(_hlx.to_dtype(input, FLOAT32), sizes, factors, kind, aligned)
        return _hlx.to_dtype(wide, input.dtype)
    samples, channels, depth, *plane = input.shape
    planes = _hlx.reshape(input, [samples, channels * depth, *plane])
    planes = _sampled(planes, sizes and sizes[1:], factors and factors[1:], kind, aligned)
    height, width = planes.shape[-2:]
    columns = _hlx.reshape(planes, [samples, channels, depth, height * width])
    within = sizes and [sizes[0], height * width]
    columns = _sampled(columns, within, factors and [factors[0], 1.0], kind, aligned)
    return _hlx.reshape(columns, [samples, channels, columns.shape[2], height, width])


def upsample(
    input: Tensor,
    size: Sizes | None = None,
    scale_factor: Factors | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Samples to a size or by a factor, as `interpolate`.

    >>> hlx.nn.functional.upsample(hlx.tensor([[[1.0, 2.0]]]), size=4).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Sizes | None = None, scale_factor: Factors | None = None) -> Tensor:
    """Samples to a size or by a factor, the nearest elements.

    >>> hlx.nn.functional.upsample_nearest(hlx.tensor([[[1.0, 2.0]]]), size=4).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Sizes | None = None, scale_factor: Factors | None = None) -> Tensor:
    """Samples images to a size or by a factor, bilinear with aligned corners.

    >>> hlx.nn.functional.upsample_bilinear(hlx.tensor([[[[0.0, 2.0]]]]), size=(1, 3)).tolist()
    [[[[0.0, 1.0, 2.0]]]]
    """
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Makes images [.., C, r H, r W] of r r C channels [.., r r C, H, W].

    >>> hlx.nn.functional.pixel_shuffle(hlx.tensor([[[1]], [[2]], [[3]], [[4]]]), 2).tolist()
    [[[1, 2], [3, 4]]]
    """
    r = upscale_factor
    *batch, channels, height, width = input.shape
    if channels % (r * r):
        raise errors.RuntimeError(f"pixel_shuffle: the input has {channels} channels, expected a multiple of {r * r}")
    parts = _hlx.reshape(input, [*batch, channels // (r * r), r, r, height, width])
    at = len(batch)
    order = [*range(at), at, at + 3, at + 1, at + 4, at + 2]
    return _hlx.reshape(_hlx.permute(parts, order), [*batch, channels // (r * r), height * r, width * r])


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Makes channels [.., r r C, H, W] of images [.., C, r H, r W]: the inverse of `pixel_shuffle`.

    >>> hlx.nn.functional.pixel_unshuffle(hlx.tensor([[[1, 2], [3, 4]]]), 2).tolist()
    [[[1]], [[2]], [[3]], [[4]]]
    """
    r = downscale_factor
    *batch, channels, height, width = input.shape
    if height % r or width % r:
        raise errors.RuntimeError(f"pixel_unshuffle: the input is {height} x {width}, expected multiples of {r}")
    parts = _hlx.reshape(input, [*batch, channels, height // r, r, width // r, r])
    at = len(batch)
    order = [*range(at), at, at + 2, at + 4, at + 1, at + 3]
    return _hlx.reshape(_hlx.permute(parts, order), [*batch, channels * r * r, height // r, width // r])


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Takes channels [N, C, ..] from each group in turn.

    >>> hlx.nn.functional.channel_shuffle(hlx.tensor([[[1], [2], [3], [4]]]), 2).tolist()
    [[[1], [3], [2], [4]]]
    """
    samples, channels, *rest = input.shape
    if channels % groups:
        raise errors.RuntimeError(f"channel_shuffle: {channels} channels are no multiple of {groups} groups")
    parts = _hlx.reshape(input, [samples, groups, channels // groups, *rest])
    return _hlx.reshape(_hlx.transpose(parts, 1, 2), list(input.shape))
