"""Diagonals and triangles of matrices, and counts of whole numbers."""

from typing import Any

from hlx import _hlx, errors
from hlx._operations._arguments import axis, whole_range
from hlx._operations._register import function, operation
from hlx._operations._types import FLOAT32, INT32, Device, Tensor, dtype

_binary = _hlx.binary


@operation
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Leaves the elements on and below a diagonal of matrices, and zeros above.

    >>> hlx.tril(hlx.ones(2, 2)).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return _hlx.tril(input, diagonal)


@operation
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Leaves the elements on and above a diagonal of matrices, and zeros below.

    >>> hlx.triu(hlx.ones(2, 2)).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return _hlx.triu(input, diagonal)


@operation
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Puts the last dimension on a diagonal of two dimensions of zeros.

    >>> hlx.diag_embed(hlx.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    rank = input.ndim + 1
    first, second = axis("diag_embed", dim1, rank), axis("diag_embed", dim2, rank)
    if first == second:
        raise errors.RuntimeError(f"diag_embed: dim1 and dim2 are both {dim1}, expected two dimensions")
    n = input.shape[-1]
    # Element i is at row i and column i + offset, or at row i - offset and column i.
    side = n + abs(offset)
    start = offset if offset > 0 else -offset * side
    step = side + 1
    flat = _hlx.zeros(input.device, [*input.shape[:-1], side * side], input.dtype)
    places = _binary(_binary(whole_range(input.device, n), step, "mul"), start, "add")
    flat = _hlx.scatter(flat, -1, _hlx.expand(places, list(input.shape)), input)
    matrix = _hlx.reshape(flat, [*input.shape[:-1], side, side])
    order = [dim for dim in range(rank) if dim not in (first, second)]
    moved = list(range(rank))
    for place, dim in enumerate(order):
        moved[dim] = place
    moved[first], moved[second] = rank - 2, rank - 1
    return _hlx.permute(matrix, moved)


@operation
def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Makes a matrix with a vector on a diagonal, or takes the diagonal of a matrix.

    >>> hlx.diag(hlx.tensor([1, 2])).tolist()
    [[1, 0], [0, 2]]
    """
    if input.ndim not in (1, 2):
        raise errors.RuntimeError(f"diag: the input has shape {list(input.shape)}, expected 1 or 2 dimensions")
    return diag_embed(input, diagonal) if input.ndim == 1 else _hlx.diagonal(input, diagonal, 0, 1)


@operation
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Makes a matrix with the flattened elements on a diagonal.

    >>> hlx.diagflat(hlx.tensor([[1], [2]])).tolist()
    [[1, 0], [0, 2]]
    """
    return diag_embed(_hlx.reshape(input, [-1]), offset)


@function
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype = INT32, device: Device = None, layout: Any = None
) -> Tensor:
    """Makes the places of the elements on and below a diagonal, rows above columns.

    >>> hlx.tril_indices(2, 2).tolist()
    [[0, 1, 1], [0, 0, 1]]
    """
    places = [(i, j) for i in range(row) for j in range(col) if j - i <= offset]
    return _hlx.tensor([[i for i, _ in places], [j for _, j in places]], dtype, device)


@function
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype = INT32, device: Device = None, layout: Any = None
) -> Tensor:
    """Makes the places of the elements on and above a diagonal, rows above columns.

    >>> hlx.triu_indices(2, 2).tolist()
    [[0, 0, 1], [0, 1, 1]]
    """
    places = [(i, j) for i in range(row) for j in range(col) if j - i >= offset]
    return _hlx.tensor([[i for i, _ in places], [j for _, j in places]], dtype, device)


@operation
def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """Counts each whole number, or adds its weights; waits for the largest one.

    >>> hlx.bincount(hlx.tensor([0, 2, 2])).tolist()
    [1, 0, 2]
    """
    if input.ndim != 1 or input.dtype.is_floating_point:
        raise errors.RuntimeError(
            f"bincount: the input is {input.dtype} {list(input.shape)}, expected a vector of integers"
        )
    n = int(_hlx.amax(input, [], False).item()) + 1 if input.numel() else 0
    everyone = _hlx.ones(input.device, list(input.shape), INT32)
    ones = everyone if weights is None else _hlx.to_dtype(weights, FLOAT32)
    counts = _hlx.zeros(input.device, [max(n, minlength)], ones.dtype)
    return _hlx.index_add(counts, 0, _hlx.to_dtype(input, INT32), ones)
