"""Windows of images as columns, and pooling that is made of other operations."""

from collections.abc import Sequence
from typing import Literal, overload

from hlx import _hlx, errors
from hlx._operations._arguments import count, whole_range
from hlx._operations._rounding import rounded_once
from hlx._operations._types import INT32, Tensor
from hlx.autograd import Function, FunctionCtx
from hlx.nn._functional.images import Sizes, avg_pool1d, avg_pool2d, each, max_pool1d, max_pool2d, window_sizes

_unary, _binary = _hlx.unary, _hlx.binary


def _columns(input: Tensor, kernel: list[int], step: list[int], taps: list[int]) -> Tensor:
    """The windows of images [N, C, H, W] as [N, C, kernel elements, windows]."""
    samples, channels = input.shape[:2]
    for dim in (0, 1):
        width = taps[dim] * (kernel[dim] - 1) + 1
        # The windows are one dimension, their elements the last.
        input = _hlx.unfold(input, 2 + dim, width, step[dim])
        input = _hlx.slice(input, input.ndim - 1, 0, width, taps[dim])
    rows, columns = input.shape[2:4]
    input = _hlx.permute(input, [0, 1, 4, 5, 2, 3])
    return _hlx.reshape(input, [samples, channels, count(kernel), rows * columns])


def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Makes columns [N, C kernel, windows] of the windows of images [N, C, H, W], or of one image.

    >>> hlx.nn.functional.unfold(hlx.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2).tolist()
    [[1.0], [2.0], [3.0], [4.0]]
    """
    if input.ndim == 3:
        return _hlx.squeeze(unfold(_hlx.unsqueeze(input, 0), kernel_size, dilation, padding, stride), 0)
    kernel, taps = each("unfold", "kernel_size", kernel_size, 2), each("unfold", "dilation", dilation, 2)
    widths, step = each("unfold", "padding", padding, 2), each("unfold", "stride", stride, 2)
    input = _hlx.pad(input, [(widths[1], widths[1]), (widths[0], widths[0])], "constant", 0.0)
    columns = _columns(input, kernel, step, taps)
    samples, channels, size, windows = columns.shape
    return _hlx.reshape(columns, [samples, channels * size, windows])


@rounded_once
def fold(
    input: Tensor,
    output_size: Sizes,
    kernel_size: Sizes,
    dilation: Sizes = 1,
    padding: Sizes = 0,
    stride: Sizes = 1,
) -> Tensor:
    """Adds columns [N, C kernel, windows] to images [N, C, H, W]: the gradient of `unfold`.

    >>> hlx.nn.functional.fold(hlx.ones(1, 2, 2), (1, 3), (1, 2)).tolist()
    [[[[1.0, 2.0, 1.0]]]]
    """
    if input.ndim == 2:
        return _hlx.squeeze(fold(_hlx.unsqueeze(input, 0), output_size, kernel_size, dilation, padding, stride), 0)
    kernel, taps = each("fold", "kernel_size", kernel_size, 2), each("fold", "dilation", dilation, 2)
    widths, step = each("fold", "padding", padding, 2), each("fold", "stride", stride, 2)
    height, width = each("fold", "output_size", output_size, 2)
    padded = [height + 2 * widths[0], width + 2 * widths[1]]
    places = whole_range(input.device, count(padded))
    places = _columns(_hlx.reshape(places, [1, 1, *padded]), kernel, step, taps)
    samples, channels = input.shape[0], input.shape[1] // count(kernel)
    expected = [samples, channels * count(kernel), places.shape[3]]
    if list(input.shape) != expected:
        raise errors.RuntimeError(f"fold: the input has shape {list(input.shape)}, expected {expected}")
    flat = _hlx.reshape(input, [samples, channels, places.numel()])
    index = _hlx.expand(_hlx.reshape(places, [1, 1, places.numel()]), list(flat.shape))
    images = _hlx.scatter_add(_hlx.zeros(input.device, [samples, channels, count(padded)], input.dtype), 2, index, flat)
    images = _hlx.reshape(images, [samples, channels, *padded])
    images = _hlx.narrow(images, 2, widths[0], height)
    return _hlx.narrow(images, 3, widths[1], width)


class _Unpool(Function):
    """Elements at places of zeros; as in PyTorch each has the gradient of its place, also where several share it."""

    @staticmethod
    def forward(ctx: FunctionCtx, flat: Tensor, places: Tensor, size: int) -> Tensor:
        ctx.save_for_backward(places)
        zeros = _hlx.zeros(flat.device, [*flat.shape[:-1], size], flat.dtype)
        return _hlx.scatter(zeros, -1, places, flat)

    @staticmethod
    def backward(ctx: FunctionCtx, dy: Tensor) -> tuple[Tensor, None, None]:
        (places,) = ctx.saved_tensors
        assert places is not None
        return _hlx.gather(dy, -1, places), None, None


def _unpooled(input: Tensor, indices: Tensor, output: list[int]) -> Tensor:
    n = len(output)
    leading = list(input.shape[:-n])
    flat, places = (_hlx.reshape(x, [*leading, count(input.shape[-n:])]) for x in (input, indices))
    return _hlx.reshape(_Unpool.apply(flat, places, count(output)), [*leading, *output])


def _unpooled_size(input: Tensor, windows: list[list[int]], output_size: Sequence[int] | None, n: int) -> list[int]:
    if output_size is not None:
        return list(output_size)[-n:]
    kernel, step, widths, _ = (each[-n:] for each in windows)
    extents = input.shape[-n:]
    return [(extents[i] - 1) * step[i] - 2 * widths[i] + kernel[i] for i in range(n)]


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts the results of `max_pool1d` back to their places, with zeros elsewhere.

    >>> hlx.nn.functional.max_unpool1d(hlx.tensor([[3.0]]), hlx.tensor([[1]]), 2).tolist()
    [[0.0, 3.0]]
    """
    windows = window_sizes("max_unpool1d", 1, kernel_size, stride, padding)
    return _unpooled(input, indices, _unpooled_size(input, windows, output_size, 1))


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    output_size: Sequence[int] | None = None,
) -> Tensor:
    """Puts the results of `max_pool2d` back to their places, with zeros elsewhere.

    >>> hlx.nn.functional.max_unpool2d(hlx.tensor([[[3.0]]]), hlx.tensor([[[2]]]), 2).tolist()
    [[[0.0, 0.0], [3.0, 0.0]]]
    """
    windows = window_sizes("max_unpool2d", 2, kernel_size, stride, padding)
    return _unpooled(input, indices, _unpooled_size(input, windows, output_size, 2))


def _adaptive_places(extent: int, output: int) -> tuple[list[int], int]:
    """The places of the windows of a side, each as long as the longest; what is missing repeats the last."""
    starts = [i * extent // output for i in range(output)]
    ends = [-(-(i + 1) * extent // output) for i in range(output)]
    longest = max((end - start for start, end in zip(starts, ends, strict=True)), default=1)
    places = [min(start + k, end - 1) for start, end in zip(starts, ends, strict=True) for k in range(longest)]
    return places, longest


def _adaptive_max(input: Tensor, output: list[int]) -> tuple[Tensor, Tensor]:
    height, width = input.shape[-2:]
    (rows, high), (columns, wide) = _adaptive_places(height, output[0]), _adaptive_places(width, output[1])
    index = [_hlx.tensor(places, INT32, input.device) for places in (rows, columns)]
    windows = _hlx.index_select(_hlx.index_select(input, -2, index[0]), -1, index[1])
    leading = list(input.shape[:-2])
    at = len(leading)
    windows = _hlx.reshape(windows, [*leading, output[0], high, output[1], wide])
    windows = _hlx.permute(windows, [*range(at), at, at + 2, at + 1, at + 3])
    values, places = _hlx.max_dim(_hlx.reshape(windows, [*leading, *output, high * wide]), -1, False)
    # The place in the window as one in the plane.
    starts = [_hlx.tensor(each[::step], INT32, input.device) for each, step in ((rows, high), (columns, wide))]
    row = _binary(_binary(places, wide, "floor_divide"), _hlx.unsqueeze(starts[0], 1), "add")
    column = _binary(_binary(places, wide, "remainder"), starts[1], "add")
    return values, _binary(_binary(row, width, "mul"), column, "add")


@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None], return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None], return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool1d(
    input: Tensor, output_size: int | Sequence[int | None], return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Takes the largest elements of as many windows of signals [.., L] as the output has elements.

    >>> hlx.nn.functional.adaptive_max_pool1d(hlx.tensor([[1.0, 3.0, 2.0, 0.0]]), 2).tolist()
    [[3.0, 2.0]]
    """
    size = output_size if isinstance(output_size, int) else output_size[0]
    length = input.shape[-1] if size is None else size
    values, places = (_hlx.squeeze(x, -2) for x in _adaptive_max(_hlx.unsqueeze(input, -2), [1, length]))
    return (values, places) if return_indices else values


@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False
) -> Tensor: ...
@overload
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]
) -> tuple[Tensor, Tensor]: ...
def adaptive_max_pool2d(
    input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: bool = False
) -> Tensor | tuple[Tensor, Tensor]:
    """Takes the largest elements of as many windows of images [.., H, W] as the output has; None leaves an extent.

    >>> hlx.nn.functional.adaptive_max_pool2d(hlx.tensor([[[1.0, 3.0], [2.0, 0.0]]]), 1).tolist()
    [[[3.0]]]
    """
    sizes = [output_size] * 2 if output_size is None or isinstance(output_size, int) else list(output_size)
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    output = [own if size is None else size for size, own in zip(sizes, input.shape[-2:], strict=True)]
    values, places = _adaptive_max(input, output)
    return (values, places) if return_indices else values


@rounded_once
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divides by `(k + alpha mean(x^2))^beta`, the mean over `size` neighbouring channels of [N, C, ..].

    >>> hlx.nn.functional.local_response_norm(hlx.ones(1, 1, 2), 1, alpha=0.0).tolist()
    [[[1.0, 1.0]]]
    """
    if input.ndim < 3:
        raise errors.ValueError(f"local_response_norm: the input has shape {list(input.shape)}, expected [N, C, ..]")
    if input.numel() == 0:
        return input
    squares = _unary(input, "square")
    widths = [(0, 0)] * (input.ndim - 2) + [(size // 2, (size - 1) // 2)]
    windows = _hlx.unfold(_hlx.pad(squares, widths, "constant", 0.0), 1, size, 1)
    mean = _hlx.mean_dim(windows, [-1], False)
    return _binary(input, _binary(_binary(_binary(mean, alpha, "mul"), k, "add"), beta, "pow"), "div")


def _lp_pool(norm_type: float, mean: Tensor, elements: int) -> Tensor:
    # The root of the windows' sums, whose sign stays.
    sign = _unary(mean, "sign")
    total = _binary(_binary(sign, _unary(_unary(mean, "abs"), "relu"), "mul"), float(elements), "mul")
    return _binary(total, 1.0 / norm_type, "pow")


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Computes `(sum of x^p)^(1 / p)` of each window of signals [.., L].

    >>> hlx.nn.functional.lp_pool1d(hlx.tensor([[3.0, 4.0]]), 2, 2).tolist()
    [[5.0]]
    """
    mean = avg_pool1d(_binary(input, float(norm_type), "pow"), kernel_size, stride, 0, ceil_mode)
    return _lp_pool(norm_type, mean, kernel_size)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """Computes `(sum of x^p)^(1 / p)` of each window of images [.., H, W].

    >>> hlx.nn.functional.lp_pool2d(hlx.tensor([[[3.0, 4.0]]]), 2, (1, 2)).tolist()
    [[[5.0]]]
    """
    mean = avg_pool2d(_binary(input, float(norm_type), "pow"), kernel_size, stride, 0, ceil_mode)
    return _lp_pool(norm_type, mean, count(each("lp_pool2d", "kernel_size", kernel_size, 2)))


def max_pool1d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Takes the largest element of each window of signals [.., L], with its place.

    >>> hlx.nn.functional.max_pool1d_with_indices(hlx.tensor([[1.0, 3.0]]), 2)[1].tolist()
    [[1]]
    """
    return max_pool1d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)


def max_pool2d_with_indices(
    input: Tensor,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> tuple[Tensor, Tensor]:
    """Takes the largest element of each window of images [.., H, W], with its place in the image.

    >>> hlx.nn.functional.max_pool2d_with_indices(hlx.tensor([[[1.0], [3.0]]]), (2, 1))[1].tolist()
    [[[1]]]
    """
    return max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)
