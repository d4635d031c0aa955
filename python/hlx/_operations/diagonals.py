"""Diagonals and triangles of matrices, and the different elements of a tensor."""

from typing import Any, Literal, overload

from hlx import _hlx, errors
from hlx._operations._arguments import axis
from hlx._operations._register import function, operation
from hlx._operations._types import BOOL, FLOAT32, INT32, Device, Tensor, dtype

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
    places = _hlx.to_dtype(_hlx.arange(input.device, start, start + n * step, step), INT32)
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


@overload
def unique(
    input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False
) -> Tensor: ...
@overload
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: None = None
) -> Tensor | tuple[Tensor, ...]: ...
@operation
def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: None = None
) -> Tensor | tuple[Tensor, ...]:
    """Takes the different elements in order, on demand with the place of each element among them, and counts.

    Waits for the device; along a dimension it is refused.

    >>> hlx.unique(hlx.tensor([3, 1, 3])).tolist()
    [1, 3]
    """
    if dim is not None:
        raise errors.ValueError(f"unique: dim is {dim}, expected None")
    values, places = _hlx.sort(_hlx.reshape(input, [-1]), 0, False)
    return _runs(values, places, list(input.shape), return_inverse, return_counts)


@overload
def unique_consecutive(
    input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False
) -> Tensor: ...
@overload
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: None = None
) -> Tensor | tuple[Tensor, ...]: ...
@operation
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: None = None
) -> Tensor | tuple[Tensor, ...]:
    """Takes the first of each row of equal elements, on demand with the place of each element, and counts.

    >>> hlx.unique_consecutive(hlx.tensor([1, 1, 2, 1])).tolist()
    [1, 2, 1]
    """
    if dim is not None:
        raise errors.ValueError(f"unique_consecutive: dim is {dim}, expected None")
    values = _hlx.reshape(input, [-1])
    return _runs(values, None, list(input.shape), return_inverse, return_counts)


def _runs(
    values: Tensor, places: Tensor | None, shape: list[int], return_inverse: bool, return_counts: bool
) -> Tensor | tuple[Tensor, ...]:
    n = values.shape[0]
    first = _hlx.ones(values.device, [min(n, 1)], BOOL)
    if n > 1:
        differs = _binary(_hlx.narrow(values, 0, 1, n - 1), _hlx.narrow(values, 0, 0, n - 1), "ne")
        first = _hlx.cat([first, differs], 0)
    results = [_hlx.masked_select(values, first)]
    number = _binary(_hlx.cumsum(_hlx.to_dtype(first, INT32), 0), 1, "sub")
    if return_inverse:
        inverse = number if places is None else _hlx.scatter(number, 0, places, number)
        results.append(_hlx.reshape(inverse, shape))
    if return_counts:
        ones = _hlx.ones(values.device, [n], INT32)
        counts = _hlx.zeros(values.device, [results[0].shape[0]], INT32)
        results.append(_hlx.index_add(counts, 0, number, ones) if n else counts)
    return results[0] if len(results) == 1 else tuple(results)
