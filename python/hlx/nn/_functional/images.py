"""Convolutions, pooling, interpolation and padding of signals [.., L] and images [.., H, W]."""

from collections.abc import Sequence
from typing import Literal, overload

from hlx import _hlx, errors
from hlx._operations._arguments import axis
from hlx._operations._types import Number, Shape, Tensor
from hlx._operations.parts import pairs

Sizes = int | Sequence[int]


def each(operation: str, name: str, value: Sizes, n: int) -> list[int]:
    """One number for each dimension of an image, from one for all or one each."""
    numbers = [value] * n if isinstance(value, int) else list(value)
    if len(numbers) == 1:
        numbers *= n
    if len(numbers) != n:
        raise errors.RuntimeError(f"{operation}: {name} is {list(value)}, expected {n} numbers")  # type: ignore[arg-type]
    return numbers


def _padding(operation: str, padding: Sizes | str, n: int) -> tuple[list[int], bool]:
    if not isinstance(padding, str):
        return each(operation, "padding", padding, n), False
    if padding not in ("same", "valid"):
        raise errors.ValueError(f"{operation}: padding is {padding!r}, expected numbers, 'same' or 'valid'")
    return [0] * n, padding == "same"


def conv1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolves signals [N, C, L] with kernels [O, C / groups, K].

    >>> hlx.nn.functional.conv1d(hlx.tensor([[[1.0, 2.0, 4.0]]]), hlx.tensor([[[1.0, 1.0]]])).tolist()
    [[[3.0, 6.0]]]
    """
    widths, same = _padding("conv1d", padding, 1)
    steps, taps = each("conv1d", "stride", stride, 1), each("conv1d", "dilation", dilation, 1)
    return _hlx.conv1d(input, weight, bias, steps[0], widths[0], taps[0], groups, same)


def conv2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes | str = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Tensor:
    """Convolves images [N, C, H, W] with kernels [O, C / groups, K, L].

    >>> hlx.nn.functional.conv2d(hlx.ones(1, 1, 2, 2), hlx.ones(1, 1, 2, 2)).tolist()
    [[[[4.0]]]]
    """
    widths, same = _padding("conv2d", padding, 2)
    steps, taps = each("conv2d", "stride", stride, 2), each("conv2d", "dilation", dilation, 2)
    return _hlx.conv2d(input, weight, bias, steps, widths, taps, groups, same)


def conv_transpose1d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Convolves signals [N, C, L] transposed: the gradient of a convolution by its input.

    >>> hlx.nn.functional.conv_transpose1d(hlx.tensor([[[1.0, 2.0]]]), hlx.tensor([[[1.0, 1.0]]])).tolist()
    [[[1.0, 3.0, 2.0]]]
    """
    named = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
    one = {name: each("conv_transpose1d", name, value, 1)[0] for name, value in named.items()}
    return _hlx.conv_transpose1d(
        input, weight, bias, one["stride"], one["padding"], one["dilation"], groups, one["output_padding"]
    )


def conv_transpose2d(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Tensor:
    """Convolves images [N, C, H, W] transposed: the gradient of a convolution by its input.

    >>> hlx.nn.functional.conv_transpose2d(hlx.ones(1, 1, 1, 1), hlx.ones(1, 1, 1, 2)).tolist()
    [[[[1.0, 1.0]]]]
    """
    named = {"stride": stride, "padding": padding, "output_padding": output_padding, "dilation": dilation}
    two = {name: each("conv_transpose2d", name, value, 2) for name, value in named.items()}
    return _hlx.conv_transpose2d(
        input, weight, bias, two["stride"], two["padding"], two["dilation"], groups, two["output_padding"]
    )


def window_sizes(
    operation: str, n: int, kernel: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes = 1
) -> list[list[int]]:
    """Kernel, stride, padding and dilation of images; a signal is an image of height 1."""
    size = each(operation, "kernel_size", kernel, n)
    has_stride = stride is not None and not (isinstance(stride, Sequence) and not stride)
    step = each(operation, "stride", stride, n) if has_stride else size  # type: ignore[arg-type]
    rest = [each(operation, "padding", padding, n), each(operation, "dilation", dilation, n)]
    if n == 2:
        return [size, step, *rest]
    return [[1, *size], [1, *step], [0, *rest[0]], [1, *rest[1]]]


@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def max_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Takes the largest element of each window of signals [.., L], on demand with its place.

    >>> hlx.nn.functional.max_pool1d(hlx.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    windows = window_sizes("max_pool1d", 1, kernel_size, stride, padding, dilation)
    image = _hlx.unsqueeze(input, -2)
    if not return_indices:
        return _hlx.squeeze(_hlx.max_pool2d(image, *windows, ceil_mode), -2)
    values, places = _hlx.max_pool2d_with_indices(image, *windows, ceil_mode)
    return _hlx.squeeze(values, -2), _hlx.squeeze(places, -2)


@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    return_indices: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def max_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Takes the largest element of each window of images [.., H, W], on demand with its place in the image.

    >>> hlx.nn.functional.max_pool2d(hlx.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[3.0]]]
    """
    windows = window_sizes("max_pool2d", 2, kernel_size, stride, padding, dilation)
    if return_indices:
        return _hlx.max_pool2d_with_indices(input, *windows, ceil_mode)
    return _hlx.max_pool2d(input, *windows, ceil_mode)


def avg_pool1d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Computes the mean of each window of signals [.., L].

    >>> hlx.nn.functional.avg_pool1d(hlx.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 1.0]]
    """
    kernel, step, widths, _ = window_sizes("avg_pool1d", 1, kernel_size, stride, padding)
    image = _hlx.unsqueeze(input, -2)
    return _hlx.squeeze(_hlx.avg_pool2d(image, kernel, step, widths, ceil_mode, count_include_pad, None), -2)


def avg_pool2d(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Computes the mean of each window of images [.., H, W].

    >>> hlx.nn.functional.avg_pool2d(hlx.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 2).tolist()
    [[[1.5]]]
    """
    kernel, step, widths, _ = window_sizes("avg_pool2d", 2, kernel_size, stride, padding)
    return _hlx.avg_pool2d(input, kernel, step, widths, ceil_mode, count_include_pad, divisor_override)


def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int | None]) -> Tensor:
    """Computes the means of as many windows of signals [.., L] as the output has elements.

    >>> hlx.nn.functional.adaptive_avg_pool1d(hlx.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[2.0, 1.0]]
    """
    size = output_size if isinstance(output_size, int) else output_size[0]
    length = input.shape[-1] if size is None else size
    return _hlx.squeeze(_hlx.adaptive_avg_pool2d(_hlx.unsqueeze(input, -2), [1, length]), -2)


def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None) -> Tensor:
    """Computes the means of as many windows of images [.., H, W] as the output has elements; None leaves an extent.

    >>> hlx.nn.functional.adaptive_avg_pool2d(hlx.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 1).tolist()
    [[[1.5]]]
    """
    sizes = [output_size] * 2 if output_size is None or isinstance(output_size, int) else list(output_size)
    if len(sizes) == 1:
        sizes *= 2
    output = [own if size is None else size for size, own in zip(sizes, input.shape[-2:], strict=True)]
    return _hlx.adaptive_avg_pool2d(input, output)


def pad(input: Tensor, pad: Shape, mode: str = "constant", value: Number | None = None) -> Tensor:
    """Puts elements around a tensor: pairs of widths, the last dimension first; negative ones cut.

    `mode` is "constant" (of `value`, 0), "reflect", "replicate" or "circular".

    >>> hlx.nn.functional.pad(hlx.tensor([1.0, 2.0]), (1, 1)).tolist()
    [0.0, 1.0, 2.0, 0.0]
    """
    widths = pairs("pad", pad)
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise errors.NotImplementedError(
            f"pad: mode is {mode!r}, expected 'constant', 'reflect', 'replicate' or 'circular'"
        )
    if mode != "constant" and value is not None and value != 0:
        raise errors.ValueError(f"pad: value is {value} in mode {mode!r}, expected None")
    if mode == "circular":
        return _circular(input, widths)
    return _hlx.pad(input, widths, mode, 0 if value is None else value)


def _circular(input: Tensor, widths: list[tuple[int, int]]) -> Tensor:
    for i, (before, after) in enumerate(widths):
        dim = axis("pad", -1 - i, input.ndim)
        extent = input.shape[dim]
        if max(before, after) > extent:
            raise errors.RuntimeError(
                f"pad: widths {before} and {after} around {extent} elements, expected at most {extent}"
            )
        # Negative widths cut first.
        cut = max(-before, 0)
        extent = max(extent - cut - max(-after, 0), 0)
        input = _hlx.narrow(input, dim, cut, extent)
        left, right = max(before, 0), max(after, 0)
        parts = [_hlx.narrow(input, dim, extent - left, left)] if left else []
        parts += [input, _hlx.narrow(input, dim, 0, right)] if right else [input]
        input = _hlx.cat(parts, dim) if len(parts) > 1 else input
    return input
