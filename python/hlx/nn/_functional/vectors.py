"""Lengths, angles and distances of vectors, and ids as rows."""

from hlx import _hlx, errors
from hlx._operations._arguments import whole_range
from hlx._operations._rounding import rounded_once
from hlx._operations._types import INT32, Dims, Tensor
from hlx._operations.movement import broadcast_tensors

_unary, _binary = _hlx.unary, _hlx.binary


@rounded_once
def normalize(input: Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12) -> Tensor:
    """Divides by the p-norm along a dimension, at least by `eps`.

    >>> hlx.nn.functional.normalize(hlx.tensor([[0.0, 2.0]])).tolist()
    [[0.0, 1.0]]
    """
    named = [dim] if isinstance(dim, int) else list(dim or [])
    length = _hlx.clamp_min(_hlx.norm(input, float(p), named, True), eps)
    return _binary(input, length, "div")


@rounded_once
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """Computes the cosine of the angle between vectors along a dimension; norms are at least `eps`.

    >>> hlx.nn.functional.cosine_similarity(hlx.tensor([[1.0, 0.0]]), hlx.tensor([[2.0, 0.0]])).tolist()
    [1.0]
    """
    x1, x2 = broadcast_tensors(x1, x2)
    lengths = [_hlx.clamp_min(_hlx.norm(x, 2.0, [dim], True), eps) for x in (x1, x2)]
    unit = [_binary(x, length, "div") for x, length in zip((x1, x2), lengths, strict=True)]
    return _hlx.sum_dim(_binary(*unit, "mul"), [dim], False)


@rounded_once
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Computes the p-norm of `x1 - x2 + eps` along the last dimension.

    >>> hlx.nn.functional.pairwise_distance(hlx.tensor([[3.0, 4.0]]), hlx.zeros(1, 2), eps=0).tolist()
    [5.0]
    """
    difference = _binary(_binary(x1, x2, "sub"), eps, "add")
    return _hlx.norm(difference, float(p), [-1], keepdim)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Makes a row for each id, 1 at its place and 0 elsewhere; -1 classes are counted, which waits for the device.

    >>> hlx.nn.functional.one_hot(hlx.tensor([0, 2])).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if tensor.dtype.is_floating_point:
        raise errors.RuntimeError(f"one_hot: the tensor has elements of {tensor.dtype}, expected integers")
    if num_classes == -1:
        if tensor.numel() == 0:
            raise errors.RuntimeError("one_hot: the tensor has no elements, expected num_classes")
        num_classes = int(_hlx.amax(tensor, [], False).item()) + 1
    classes = whole_range(tensor.device, num_classes)
    return _hlx.to_dtype(_binary(_hlx.unsqueeze(tensor, -1), classes, "eq"), INT32)
