"""Functions of `hlx.nn.functional` that PyTorch has in its main namespace, too, some with other arguments."""

from collections.abc import Callable

from hlx._operations._register import function, operation
from hlx._operations._types import Tensor
from hlx.nn._functional import norms
from hlx.nn._functional.activations import (
    celu,
    hardshrink,
    prelu,
    rrelu,
    selu,
)
from hlx.nn._functional.images import (
    adaptive_avg_pool1d,
    avg_pool1d,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
    max_pool1d,
    max_pool2d,
)
from hlx.nn._functional.norms import bilinear, group_norm, layer_norm, rms_norm
from hlx.nn._functional.resizing import channel_shuffle, pixel_shuffle, pixel_unshuffle
from hlx.nn._functional.vectors import cosine_similarity, pairwise_distance

#: Functions of the package alone, and those that are methods too.
_FUNCTIONS: list[Callable[..., Tensor | tuple[Tensor, Tensor]]] = [
    adaptive_avg_pool1d,
    avg_pool1d,
    bilinear,
    celu,
    channel_shuffle,
    conv1d,
    conv2d,
    conv_transpose1d,
    conv_transpose2d,
    cosine_similarity,
    group_norm,
    layer_norm,
    max_pool1d,
    max_pool2d,
    pairwise_distance,
    pixel_shuffle,
    pixel_unshuffle,
    rms_norm,
    rrelu,
    selu,
]
_METHODS: list[Callable[..., Tensor]] = [hardshrink, prelu]

for _layer in _FUNCTIONS:
    function(_layer)
for _both in _METHODS:
    operation(_both)


@function
def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zeroes elements with probability p and scales the others by 1 / (1 - p), if `train` is set.

    >>> hlx.dropout(hlx.ones(2), 0.5, False).tolist()
    [1.0, 1.0]
    """
    return norms.dropout(input, p, train)


@function
def embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Takes rows of a table [V, C] by their ids; the row `padding_idx`, if it is not negative, gets no gradient.

    >>> hlx.embedding(hlx.tensor([[1.0], [2.0]]), hlx.tensor([1, 0])).tolist()
    [[2.0], [1.0]]
    """
    padding = None if padding_idx < 0 else padding_idx
    return norms.embedding(indices, weight, padding, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


@function
def batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Normalises each channel of [N, C, ..], as `hlx.nn.functional.batch_norm`.

    >>> hlx.batch_norm(hlx.ones(2, 1), None, None, hlx.zeros(1), hlx.ones(1), False, 0.1, 0.0, False).tolist()
    [[1.0], [1.0]]
    """
    return norms.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@function
def instance_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool,
) -> Tensor:
    """Normalises each channel of each sample of [N, C, ..], as `hlx.nn.functional.instance_norm`.

    >>> hlx.instance_norm(hlx.ones(1, 1, 2), None, None, None, None, True, 0.1, 1e-5, False).tolist()
    [[[0.0, 0.0]]]
    """
    return norms.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
