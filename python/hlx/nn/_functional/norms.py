"""Normalisation, dropout, embedding and linear maps."""

from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._operations._arguments import extents
from hlx._operations._rounding import rounded_once
from hlx._operations._types import FLOAT32, INT32, UINT32, Shape, Tensor

_binary = _hlx.binary


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `input weight^T + bias` of rows [.., K] with a weight [N, K], or one row [K].

    >>> hlx.nn.functional.linear(hlx.tensor([1.0, 2.0]), hlx.tensor([[3.0, 4.0]])).tolist()
    [11.0]
    """
    return _hlx.linear(input, weight, bias)


@rounded_once
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Computes `input1 weight[n] input2 + bias` of rows [.., J] and [.., K] with a weight [N, J, K].

    >>> hlx.nn.functional.bilinear(hlx.tensor([[2.0]]), hlx.tensor([[3.0]]), hlx.tensor([[[1.0]]])).tolist()
    [[6.0]]
    """
    outputs, first, second = weight.shape
    columns = _hlx.reshape(_hlx.permute(weight, [1, 0, 2]), [first, outputs * second])
    rows = _hlx.matmul(input1, columns)
    rows = _hlx.reshape(rows, [*input1.shape[:-1], outputs, second])
    result = _hlx.squeeze(_hlx.matmul(rows, _hlx.unsqueeze(input2, -1)), -1)
    return result if bias is None else _binary(result, bias, "add")


def _affine(
    input: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    # A gain of 1 or a bias of 0 in the place of one that is missing beside the other.
    if weight is None and bias is None:
        return None
    dtype = (bias if weight is None else weight).dtype  # type: ignore[union-attr]
    gain = _hlx.ones(input.device, list(shape), dtype) if weight is None else weight
    return gain, _hlx.zeros(input.device, list(shape), dtype) if bias is None else bias


def _expect_ending(operation: str, input: Tensor, normalized_shape: Shape) -> list[int]:
    shape = extents(normalized_shape, ())
    if not shape or list(input.shape[max(input.ndim - len(shape), 0) :]) != shape:
        raise errors.RuntimeError(
            f"{operation}: the input has shape {list(input.shape)}, expected one that ends in normalized_shape {shape}"
        )
    return shape


def layer_norm(
    input: Tensor,
    normalized_shape: Shape,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Computes `(x - mean) / sqrt(variance + eps) weight + bias` over the last dimensions, those of `normalized_shape`.

    >>> hlx.nn.functional.layer_norm(hlx.tensor([1.0, 1.0]), (2,)).tolist()
    [0.0, 0.0]
    """
    shape = _expect_ending("layer_norm", input, normalized_shape)
    if weight is None and bias is None:
        dtype = FLOAT32 if input.dtype.is_floating_point else input.dtype
        gain, offset = _hlx.ones(input.device, shape, dtype), _hlx.zeros(input.device, shape, dtype)
    else:
        gain, offset = _affine(input, shape, weight, bias)  # type: ignore[misc]
    return _hlx.layer_norm(input, gain, offset, eps)


def rms_norm(input: Tensor, normalized_shape: Shape, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Computes `x / sqrt(mean(x^2) + eps) weight` over the last dimensions; eps is 2^-23 by default.

    >>> hlx.nn.functional.rms_norm(hlx.tensor([2.0, -2.0]), (2,), eps=0).tolist()
    [1.0, -1.0]
    """
    shape = _expect_ending("rms_norm", input, normalized_shape)
    return _hlx.rms_norm(input, shape, weight, 2.0**-23 if eps is None else eps)


def group_norm(
    input: Tensor,
    num_groups: int,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each group of channels of [N, C, ..] by its mean and variance; gain and bias are by channel.

    >>> hlx.nn.functional.group_norm(hlx.ones(1, 2, 2), 1).tolist()
    [[[0.0, 0.0], [0.0, 0.0]]]
    """
    return _hlx.group_norm(input, num_groups, _affine(input, input.shape[1:2], weight, bias), eps)


def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of each sample of [N, C, ..] by its mean and variance, or by running values.

    With `use_input_stats` the running values move toward the mean of the samples'.

    >>> hlx.nn.functional.instance_norm(hlx.ones(1, 1, 2)).tolist()
    [[[0.0, 0.0]]]
    """
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if running_mean is not None and running_var is not None:
        _follow_samples(_hlx.detach(input), (running_mean, running_var), momentum)
    return group_norm(input, input.shape[1], weight, bias, eps)


def _follow_samples(input: Tensor, running: tuple[Tensor, Tensor], momentum: float) -> None:
    inner = list(range(2, input.ndim))
    wide = _hlx.to_dtype(input, FLOAT32)
    statistics = _hlx.mean_dim(wide, inner, False), _hlx.var(wide, inner, 1.0, False)
    for value, found in zip(running, statistics, strict=True):
        moved = _binary(_hlx.mean_dim(found, [0], False), momentum, "mul")
        _hlx.copy_(value, _binary(_binary(value, 1 - momentum, "mul"), moved, "add"))


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises each channel of [N, C, ..]: in training by the batch, which moves the running values; else by them.

    >>> hlx.nn.functional.batch_norm(hlx.ones(2, 1), hlx.zeros(1), hlx.ones(1), eps=0).tolist()
    [[1.0], [1.0]]
    """
    if input.numel() == 0:
        return _hlx.clone(input)
    affine = _affine(input, input.shape[1:2], weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise errors.RuntimeError("batch_norm: running_mean or running_var is None without training, expected both")
        return _hlx.batch_norm_by(input, running_mean, running_var, affine, eps)
    if running_mean is None and running_var is None:
        return _hlx.batch_norm(input, affine, None, momentum, eps)
    if running_mean is None or running_var is None:
        raise errors.RuntimeError("batch_norm: one of running_mean and running_var is None, expected both or neither")
    kept = [running_mean, running_var]
    # Running values of 16 bits are moved in f32.
    wide = [_hlx.to_dtype(value, FLOAT32) for value in kept]
    result = _hlx.batch_norm(input, affine, [*wide, _hlx.zeros(input.device, [1], UINT32)], momentum, eps)
    for value, moved in zip(kept, wide, strict=True):
        if moved is not value:
            _hlx.copy_(value, moved)
    return result


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability p and scales the others by 1 / (1 - p); without training returns the input.

    >>> hlx.nn.functional.dropout(hlx.ones(2), training=False).tolist()
    [1.0, 1.0]
    """
    _expect_probability("dropout", p)
    if not training or p == 0:
        return input
    if inplace:
        return _hlx.in_place(input, "dropout_", lambda x: dropout(x, p))
    if p == 1 or input.dtype != FLOAT32:
        return _dropped(input, p, list(input.shape))
    flat = _hlx.reshape(input, [1]) if input.ndim == 0 else input
    return _hlx.reshape(_hlx.dropout(flat, p, _hlx.next_seed()), list(input.shape))


def _expect_probability(operation: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise errors.ValueError(f"{operation}: p is {p}, expected 0 to 1")


def _dropped(input: Tensor, p: float, shape: list[int]) -> Tensor:
    """Multiplies by factors of a shape that broadcasts: 0 with probability p, else 1 / (1 - p)."""
    stays = _hlx.bernoulli(input.device, 1 - p, shape, _hlx.next_seed())
    factor = _binary(_hlx.to_dtype(stays, FLOAT32), 0.0 if p == 1 else 1 / (1 - p), "mul")
    return _hlx.to_dtype(_binary(input, factor, "mul"), input.dtype)


def _dropout_of_channels(operation: str, input: Tensor, p: float, training: bool, inplace: bool) -> Tensor:
    _expect_probability(operation, p)
    if not training or p == 0:
        return input
    shape = [*input.shape[:2], *[1] * (input.ndim - 2)]
    if inplace:
        return _hlx.in_place(input, f"{operation}_", lambda x: _dropped(x, p, shape))
    return _dropped(input, p, shape)


def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of signals [N, C, L] with probability p and scales the others.

    >>> hlx.nn.functional.dropout1d(hlx.ones(1, 1, 2), training=False).tolist()
    [[[1.0, 1.0]]]
    """
    return _dropout_of_channels("dropout1d", input, p, training, inplace)


def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of images [N, C, H, W] with probability p and scales the others.

    >>> hlx.nn.functional.dropout2d(hlx.ones(1, 1, 1, 2), training=False).tolist()
    [[[[1.0, 1.0]]]]
    """
    return _dropout_of_channels("dropout2d", input, p, training, inplace)


def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes whole channels of volumes [N, C, D, H, W] with probability p and scales the others.

    >>> hlx.nn.functional.dropout3d(hlx.ones(1, 1, 1, 1, 2), training=False).tolist()
    [[[[[1.0, 1.0]]]]]
    """
    return _dropout_of_channels("dropout3d", input, p, training, inplace)


#: Where SELU ends on the left.
_SELU_BOUND = -1.7580993408473766


def _alpha_dropped(operation: str, input: Tensor, p: float, shape: list[int], training: bool, inplace: bool) -> Tensor:
    _expect_probability(operation, p)
    if not training or p == 0:
        return input
    scale = 0.0 if p == 1 else ((1 - p) * (1 + p * _SELU_BOUND**2)) ** -0.5
    stays = _hlx.bernoulli(input.device, 1 - p, shape, _hlx.next_seed())

    def compute(x: Tensor) -> Tensor:
        chosen = _hlx.where_(x, stays, _SELU_BOUND)
        moved = _binary(_binary(chosen, scale, "mul"), -scale * _SELU_BOUND * p, "add")
        return _hlx.to_dtype(moved, x.dtype)

    return _hlx.in_place(input, f"{operation}_", compute) if inplace else compute(input)


def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Sets elements to SELU's bound with probability p, and keeps mean 0 and variance 1.

    >>> hlx.nn.functional.alpha_dropout(hlx.ones(2)).tolist()
    [1.0, 1.0]
    """
    return _alpha_dropped("alpha_dropout", input, p, list(input.shape), training, inplace)


def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Sets whole channels of [N, C, ..] to SELU's bound with probability p, and keeps mean 0 and variance 1.

    >>> hlx.nn.functional.feature_alpha_dropout(hlx.ones(1, 2, 1)).tolist()
    [[[1.0], [1.0]]]
    """
    shape = [*input.shape[:2], *[1] * (input.ndim - 2)]
    return _alpha_dropped("feature_alpha_dropout", input, p, shape, training, inplace)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Takes rows of a table [V, C] by their ids; the row `padding_idx` gets no gradient.

    `max_norm` first scales the rows that are taken and whose norm of order `norm_type` is above it, in place;
    `scale_grad_by_freq` divides a row's gradient by how often it is taken. `sparse` means nothing here.

    >>> hlx.nn.functional.embedding(hlx.tensor([1, 0]), hlx.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise errors.RuntimeError(f"embedding: padding_idx is {padding_idx}, expected {-rows} to {rows - 1}")
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    if padding_idx is None:
        result = _hlx.embedding(input, weight)
    else:
        result = _hlx.embedding_padded(input, weight, padding_idx % rows)
    if scale_grad_by_freq and result.requires_grad:
        counts = _hlx.to_dtype(_times_taken(input, rows), FLOAT32)
        taken = _hlx.unsqueeze(_hlx.reshape(_hlx.index_select(counts, 0, _flat_ids(input)), list(input.shape)), -1)
        result.register_hook(lambda gradient: _binary(gradient, taken, "div"))
    return result


def _flat_ids(ids: Tensor) -> Tensor:
    return _hlx.to_dtype(_hlx.reshape(ids, [-1]), INT32)


def _times_taken(ids: Tensor, rows: int) -> Tensor:
    counts = _hlx.zeros(ids.device, [rows], INT32)
    return _hlx.index_add(counts, 0, _flat_ids(ids), _hlx.ones(ids.device, [ids.numel()], INT32))


def limit_rows(weight: Tensor, ids: Tensor, max_norm: float, norm_type: float) -> None:
    """Scales the rows that are taken and whose norm is above a limit down to it, in place and off the tape."""
    table = _hlx.detach(weight)
    norms = _hlx.norm(table, float(norm_type), [1], True)
    scaled = _binary(norms, max_norm, "gt")
    scaled = _binary(scaled, _hlx.unsqueeze(_times_taken(ids, table.shape[0]), 1), "logical_and")
    factor = _hlx.where_(_binary(max_norm, _binary(norms, 1e-7, "add"), "div"), scaled, 1.0)
    enabled = _hlx.set_grad_enabled(False)
    try:
        _hlx.copy_(weight, _binary(table, factor, "mul"))
    finally:
        _hlx.set_grad_enabled(enabled)
