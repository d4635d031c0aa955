"""Joins of tensors."""

from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._operations._register import function
from hlx._operations._types import Tensor
from hlx._operations.parts import grown


def _tensors(operation: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    listed = list(tensors)
    if not listed:
        raise errors.RuntimeError(f"{operation}: there are no tensors, expected at least one")
    return listed


@function("cat", "concat")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors along a dimension.

    >>> hlx.cat([hlx.tensor([1, 2]), hlx.tensor([3])]).tolist()
    [1, 2, 3]
    """
    return _hlx.cat(_tensors("cat", tensors), dim)


@function
def concatenate(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Joins tensors along a dimension, as `cat`.

    >>> hlx.concatenate([hlx.tensor([1, 2]), hlx.tensor([3])]).tolist()
    [1, 2, 3]
    """
    return _hlx.cat(_tensors("concatenate", tensors), axis)


@function
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors of one shape along a new dimension.

    >>> hlx.stack([hlx.tensor([1, 2]), hlx.tensor([3, 4])], dim=1).tolist()
    [[1, 3], [2, 4]]
    """
    return _hlx.stack(_tensors("stack", tensors), dim)


@function
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors along their second dimension, vectors along their only one.

    >>> hlx.hstack([hlx.tensor([1, 2]), hlx.tensor([3])]).tolist()
    [1, 2, 3]
    """
    parts = [grown(tensor, 1) for tensor in _tensors("hstack", tensors)]
    return _hlx.cat(parts, 0 if parts[0].ndim == 1 else 1)


@function("vstack", "row_stack")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors along their first dimension; vectors are rows.

    >>> hlx.vstack([hlx.tensor([1, 2]), hlx.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return _hlx.cat([grown(tensor, 2) for tensor in _tensors("vstack", tensors)], 0)


@function
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors along their third dimension.

    >>> hlx.dstack([hlx.tensor([1, 2]), hlx.tensor([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    return _hlx.cat([grown(tensor, 3) for tensor in _tensors("dstack", tensors)], 2)


@function
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins tensors along their second dimension; vectors are columns.

    >>> hlx.column_stack([hlx.tensor([1, 2]), hlx.tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    columns = [
        _hlx.reshape(tensor, [-1, 1]) if tensor.ndim < 2 else tensor for tensor in _tensors("column_stack", tensors)
    ]
    return _hlx.cat(columns, 1)


@function
def block_diag(*tensors: Tensor) -> Tensor:
    """Puts matrices along the diagonal of a matrix of zeros.

    >>> hlx.block_diag(hlx.tensor([[1]]), hlx.tensor([[2, 3]])).tolist()
    [[1, 0, 0], [0, 2, 3]]
    """
    matrices = [grown(tensor, 2) for tensor in _tensors("block_diag", tensors)]
    columns, start, rows = sum(matrix.shape[1] for matrix in matrices), 0, []
    for matrix in matrices:
        width = matrix.shape[1]
        rows.append(_hlx.pad(matrix, [(start, columns - start - width)], "constant", 0))
        start += width
    return _hlx.cat(rows, 0)
