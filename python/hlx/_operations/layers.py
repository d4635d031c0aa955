"""Functions of `hlx.nn.functional` that PyTorch has in its main namespace, too."""

from hlx._operations._register import function
from hlx.nn._functional.activations import (
    celu,
    cosine_similarity,
    hardshrink,
    pairwise_distance,
    prelu,
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

for _layer in (
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
    hardshrink,
    layer_norm,
    max_pool1d,
    max_pool2d,
    pairwise_distance,
    pixel_shuffle,
    pixel_unshuffle,
    prelu,
    rms_norm,
    selu,
):
    function(_layer)
