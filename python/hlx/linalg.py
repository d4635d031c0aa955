"""Linear algebra, as `torch.linalg`: norms and products; no decompositions."""

import builtins
from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._operations import products as _products
from hlx._operations._arguments import axis, converted, dimensions
from hlx._operations._rounding import rounded_once
from hlx._operations._types import BOOL, INT32, Dims, Number, Tensor, dtype

__all__ = [
    "cross", "diagonal", "matmul", "matrix_norm", "matrix_power", "multi_dot", "norm", "outer", "vander", "vecdot",
    "vector_norm",
]  # fmt: skip


def vector_norm(
    x: Tensor, ord: Number = 2, dim: Dims = None, keepdim: bool = False, *, dtype: dtype | None = None
) -> Tensor:
    """Computes the p-norm of the elements: infinity is the largest magnitude, 0 counts those other than 0.

    >>> hlx.linalg.vector_norm(hlx.tensor([3.0, 4.0])).item()
    5.0
    """
    return _hlx.norm(converted(x, dtype), float(ord), dimensions(dim), keepdim)


@rounded_once
def matrix_norm(
    A: Tensor,
    ord: Number | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
) -> Tensor:
    """Computes a norm of matrices: "fro" the root of the squares' sum, 1 and -1 of columns' sums, +-inf of rows'.

    >>> hlx.linalg.matrix_norm(hlx.tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    x = converted(A, dtype)
    if len(dim) != 2:
        raise errors.RuntimeError(f"linalg.matrix_norm: dim is {list(dim)}, expected two dimensions")
    if ord == "fro":
        return _hlx.norm(x, 2.0, list(dim), keepdim)
    if isinstance(ord, str) or builtins.abs(ord) not in (1, float("inf")):
        raise errors.ValueError(f"linalg.matrix_norm: ord is {ord!r}, expected 'fro', 1, -1, inf or -inf")
    rows, columns = (axis("linalg.matrix_norm", each, x.ndim) for each in dim)
    summed, left = (rows, columns) if builtins.abs(ord) == 1 else (columns, rows)
    sums = _hlx.sum_dim(_hlx.unary(x, "abs"), [summed], True)
    extreme = (_hlx.amax if ord > 0 else _hlx.amin)(sums, [left], True)
    if keepdim:
        return extreme
    for each in sorted((rows, columns), reverse=True):
        extreme = _hlx.squeeze(extreme, each)
    return extreme


def norm(
    A: Tensor,
    ord: Number | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: dtype | None = None,
) -> Tensor:
    """Computes a vector's or a matrix's norm: of all elements without `ord`, of matrices over two dimensions.

    >>> hlx.linalg.norm(hlx.tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    named = dimensions(dim)
    if dim is None and A.ndim == 2:
        named = [-2, -1]
    if len(named) == 2:
        return matrix_norm(A, ord, named, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise errors.RuntimeError(f"linalg.norm: ord is {ord!r} of a tensor {list(A.shape)}, expected a matrix")
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


@rounded_once
def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums the products along a dimension.

    >>> hlx.linalg.vecdot(hlx.tensor([1.0, 2.0]), hlx.tensor([3.0, 4.0])).item()
    11.0
    """
    return _hlx.sum_dim(_hlx.binary(x, y, "mul"), [dim], False)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Multiplies matrices, as `hlx.matmul`.

    >>> hlx.linalg.matmul(hlx.ones(1, 2), hlx.ones(2, 1)).tolist()
    [[2.0]]
    """
    return _hlx.matmul(input, other)


def outer(x: Tensor, y: Tensor) -> Tensor:
    """Multiplies every element of a vector by every one of another.

    >>> hlx.linalg.outer(hlx.tensor([1.0, 2.0]), hlx.tensor([3.0])).tolist()
    [[3.0], [6.0]]
    """
    return _hlx.outer(x, y)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Computes the cross product of vectors of 3 elements along a dimension.

    >>> hlx.linalg.cross(hlx.tensor([1.0, 0.0, 0.0]), hlx.tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    return _products.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Takes a diagonal of two dimensions, as the last dimension.

    >>> hlx.linalg.diagonal(hlx.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return _hlx.diagonal(A, offset, dim1, dim2)


@rounded_once
def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Multiplies matrices from the left to the right; the first and the last may be vectors.

    >>> hlx.linalg.multi_dot([hlx.ones(1, 2), hlx.ones(2, 3), hlx.ones(3, 1)]).tolist()
    [[6.0]]
    """
    if len(tensors) < 2:
        raise errors.RuntimeError(f"linalg.multi_dot: there are {len(tensors)} tensors, expected at least two")
    product = tensors[0]
    for tensor in tensors[1:]:
        product = _hlx.matmul(product, tensor)
    return product


@rounded_once
def matrix_power(A: Tensor, n: int) -> Tensor:
    """Multiplies square matrices n times by themselves; no inverses.

    >>> hlx.linalg.matrix_power(hlx.tensor([[1.0, 1.0], [0.0, 1.0]]), 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    if A.ndim < 2 or A.shape[-1] != A.shape[-2] or n < 0:
        raise errors.RuntimeError(
            f"linalg.matrix_power: A has shape {list(A.shape)} and n is {n}, expected a square matrix and n >= 0"
        )
    if n == 0:
        one = _hlx.to_dtype(_hlx.eye_of(A.device, A.shape[-1], A.shape[-1]), A.dtype)
        one = _hlx.expand(one, list(A.shape))
        # The gradient is 0.
        return _hlx.where_(one, _hlx.ones(A.device, [], BOOL), A) if A.requires_grad else one
    half = A if n == 1 else matrix_power(A, n // 2)
    if n == 1:
        return half
    square = _hlx.matmul(half, half)
    return _hlx.matmul(square, A) if n % 2 else square


@rounded_once
def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Makes the rows of the powers from 0 to N - 1 of each element.

    >>> hlx.linalg.vander(hlx.tensor([2.0, 3.0])).tolist()
    [[1.0, 2.0], [1.0, 3.0]]
    """
    x = _hlx.reshape(x, [1]) if x.ndim == 0 else x
    x = x if x.dtype.is_floating_point else _hlx.to_dtype(x, INT32)
    n = x.shape[-1] if N is None else N
    columns = [_hlx.ones(x.device, [*x.shape, 1], x.dtype)]
    for _ in range(n - 1):
        columns.append(_hlx.binary(columns[-1], _hlx.unsqueeze(x, -1), "mul"))
    return _hlx.cat(columns[:n], -1)
