"""Elements by index and by mask.

Indices are integers of 32 bits and not negative, except where the text says so. A device finds an index
out of range: the next call that waits for it raises the error.
"""

from collections.abc import Sequence
from typing import Literal, overload

from hlx import _hlx, errors
from hlx._operations._arguments import axis, whole_range
from hlx._operations._register import operation
from hlx._operations._types import INT32, Number, Operand, Tensor
from hlx._operations.movement import broadcast_tensors

_binary = _hlx.binary


@operation
def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """Takes the elements at places along a dimension: `out[i][j] = input[index[i][j]][j]` for `dim` 0.

    >>> hlx.gather(hlx.tensor([[1, 2], [3, 4]]), 1, hlx.tensor([[1], [0]])).tolist()
    [[2], [3]]
    """
    if index.numel() == 0 and input.ndim != index.ndim:
        # PyTorch takes an index of no places for any input.
        nothing = _hlx.narrow(_hlx.reshape(input, [-1]), 0, 0, 0)
        return _hlx.reshape(nothing, list(index.shape))
    return _hlx.gather(input, dim, index)


def _source(input: Tensor, index: Tensor, source: Operand) -> Tensor:
    # A number goes to all places.
    if isinstance(source, Tensor):
        return source
    value = _hlx.full(input.device, [], source, input.dtype)
    return _hlx.expand(value, list(index.shape))


@operation
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Operand | None = None,
    *,
    value: Number | None = None,
    reduce: str | None = None,
) -> Tensor:
    """Writes elements, or one value, to places along a dimension: the inverse of `gather`.

    Of several writes to one place the last one wins. `reduce` is "add" or "multiply".

    >>> hlx.scatter(hlx.zeros(3), 0, hlx.tensor([2]), hlx.tensor([5.0])).tolist()
    [0.0, 0.0, 5.0]
    """
    given = src if value is None else value
    if given is None:
        raise errors.TypeError("scatter: src and value are missing, expected one of them")
    source = _source(input, index, given)
    if reduce is None:
        return _hlx.scatter(input, dim, index, source)
    if reduce == "add":
        return _hlx.scatter_add(input, dim, index, source)
    if reduce != "multiply":
        raise errors.ValueError(f"scatter: reduce is {reduce!r}, expected None, 'add' or 'multiply'")
    from hlx._operations.grouping import scatter_reduce

    return scatter_reduce(input, dim, index, source, "prod")


@operation
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """Adds elements at places along a dimension, in the order of the index.

    >>> hlx.scatter_add(hlx.zeros(3), 0, hlx.tensor([2, 2]), hlx.tensor([5.0, 1.0])).tolist()
    [0.0, 0.0, 6.0]
    """
    return _hlx.scatter_add(input, dim, index, src)


@operation
def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Takes places of a dimension.

    >>> hlx.index_select(hlx.tensor([[1, 2], [3, 4]]), 1, hlx.tensor([1, 1])).tolist()
    [[2, 2], [4, 4]]
    """
    return _hlx.index_select(input, dim, index)


@operation
def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Number = 1) -> Tensor:
    """Adds `alpha source` at places of a dimension, in the order of the index.

    >>> hlx.index_add(hlx.zeros(3), 0, hlx.tensor([0, 0]), hlx.tensor([1.0, 2.0])).tolist()
    [3.0, 0.0, 0.0]
    """
    if alpha != 1:
        source = _hlx.to_dtype(_binary(source, alpha, "mul"), input.dtype)
    return _hlx.index_add(input, dim, index, source)


def _written_along(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    # The index of a dimension for every element of the source.
    if input.ndim == 0:
        return _hlx.scatter(input, dim, index, source)
    dim = axis("index_copy", dim, input.ndim)
    shape = list(input.shape)
    shape[dim] = index.numel()
    places = _hlx.reshape(index, [-1 if i == dim else 1 for i in range(input.ndim)])
    return _hlx.scatter(input, dim, _hlx.expand(places, shape), _hlx.expand(source, shape))


@operation
def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """Writes slices to places of a dimension; of several writes to one place the last one wins.

    >>> hlx.index_copy(hlx.zeros(3), 0, hlx.tensor([2]), hlx.tensor([5.0])).tolist()
    [0.0, 0.0, 5.0]
    """
    return _written_along(input, dim, index, source)


@operation
def index_fill(input: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """Writes a value to places of a dimension.

    >>> hlx.index_fill(hlx.zeros(3), 0, hlx.tensor([1]), 7).tolist()
    [0.0, 7.0, 0.0]
    """
    source = value if isinstance(value, Tensor) else _hlx.full(input.device, [], value, input.dtype)
    return _written_along(input, dim, index, source)


@operation
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """Writes values, broadcast, at `input[indices]`, or adds them to what is there if `accumulate` is set.

    >>> hlx.index_put(hlx.zeros(3), (hlx.tensor([0, 0]),), hlx.tensor([1.0, 2.0]), accumulate=True).tolist()
    [3.0, 0.0, 0.0]
    """
    return _hlx.index_put(input, list(indices), values, accumulate)


@operation
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """Takes the elements at places along a dimension, negative ones counted from the end; the others broadcast.

    >>> x = hlx.tensor([[1, 5], [4, 2]])
    >>> hlx.take_along_dim(x, x.argmax(1, keepdim=True), 1).tolist()
    [[5], [4]]
    """
    return _hlx.take_along_dim(input, indices, dim)


@operation
def take(input: Tensor, index: Tensor) -> Tensor:
    """Takes elements of the flattened tensor, negative places counted from the end.

    >>> hlx.take(hlx.tensor([[1, 2], [3, 4]]), hlx.tensor([0, -1])).tolist()
    [1, 4]
    """
    flat = _hlx.take_along_dim(_hlx.reshape(input, [-1]), _hlx.reshape(index, [-1]), 0)
    return _hlx.reshape(flat, list(index.shape))


@operation
def masked_fill(input: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """Takes a value where the mask holds, else the input's element. The value may be a tensor without dimensions.

    >>> hlx.masked_fill(hlx.tensor([1.0, 2.0]), hlx.tensor([True, False]), 0).tolist()
    [0.0, 2.0]
    """
    if isinstance(value, int) and abs(value) > 2**24 and not input.dtype.is_floating_point:
        # No f32 holds it.
        return _hlx.where_(value, mask, input)
    if not isinstance(value, Tensor):
        return _hlx.masked_fill(input, mask, value)
    if value.ndim:
        raise errors.RuntimeError(f"masked_fill: value has shape {list(value.shape)}, expected no dimensions")
    return _hlx.where_(_hlx.to_dtype(value, input.dtype), mask, input)


@operation
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Takes the elements where the mask holds, as a vector; waits for the mask.

    >>> hlx.masked_select(hlx.tensor([1, 2, 3]), hlx.tensor([True, False, True])).tolist()
    [1, 3]
    """
    return _hlx.masked_select(input, mask)


@operation
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Writes the first elements of a source, in order, where the mask holds.

    >>> hlx.masked_scatter(hlx.zeros(3), hlx.tensor([True, False, True]), hlx.tensor([1.0, 2.0])).tolist()
    [1.0, 0.0, 2.0]
    """
    input, mask = broadcast_tensors(input, mask)
    order = _hlx.cumsum(_hlx.to_dtype(_hlx.reshape(mask, [-1]), INT32), 0)
    places = _hlx.clamp_min(_binary(order, 1, "sub"), 0)
    n = source.numel()
    if n < int(order[-1].item() if order.numel() else 0):
        raise errors.RuntimeError(f"masked_scatter: the source has {n} elements, the mask holds at more places")
    if n == 0:
        return input.clone()
    values = _hlx.index_select(_hlx.reshape(source, [-1]), 0, places)
    return _hlx.where_(_hlx.reshape(values, list(input.shape)), mask, input)


def _places(input: Tensor) -> tuple[Tensor, list[int]]:
    # The places of the elements other than 0 in the flattened tensor.
    shape = list(input.shape) or [1]
    mask = _hlx.reshape(_binary(input, 0, "ne"), [-1])
    return _hlx.masked_select(whole_range(input.device, mask.shape[0]), mask), shape


@overload
def nonzero(input: Tensor, *, as_tuple: Literal[False] = False) -> Tensor: ...
@overload
def nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]: ...
@operation
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Tensor | tuple[Tensor, ...]:
    """Finds the elements other than 0: a row of places for each, or a vector for each dimension; waits for them.

    >>> hlx.nonzero(hlx.tensor([[0, 1], [2, 0]])).tolist()
    [[0, 1], [1, 0]]
    """
    places, shape = _places(input)
    columns = []
    for extent in reversed(shape):
        columns.append(_binary(places, max(extent, 1), "remainder"))
        places = _binary(places, max(extent, 1), "floor_divide")
    columns.reverse()
    if as_tuple:
        return tuple(columns)
    if input.ndim == 0:
        return _hlx.zeros(input.device, [columns[0].shape[0], 0], INT32)
    return _hlx.stack(columns, 1)


@operation
def argwhere(input: Tensor) -> Tensor:
    """Finds the elements other than 0: a row of places for each; waits for them.

    >>> hlx.argwhere(hlx.tensor([0, 1])).tolist()
    [[1]]
    """
    return nonzero(input)
