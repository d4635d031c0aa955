"""Copies of tensors with parts written, by places and by slices."""

from hlx import _hlx, errors
from hlx._operations._arguments import axis, count, whole_range
from hlx._operations._register import function, operation
from hlx._operations._types import INT32, Shape, Tensor
from hlx._operations.indexing import index_copy

_binary = _hlx.binary


@operation
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """Writes a tensor to one place of a dimension.

    >>> hlx.select_scatter(hlx.zeros(2, 2), hlx.ones(2), 0, 1).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    extent = input.shape[axis("select_scatter", dim, input.ndim)]
    if not -extent <= index < extent:
        raise errors.IndexError(f"select_scatter: index {index} is out of range of dimension {dim}")
    places = _hlx.tensor([index % extent], INT32, input.device)
    return index_copy(input, dim, places, _hlx.unsqueeze(src, axis("select_scatter", dim, input.ndim)))


@operation
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """Writes a tensor to a slice of a dimension.

    >>> hlx.slice_scatter(hlx.zeros(4), hlx.ones(2), start=0, step=2).tolist()
    [1.0, 0.0, 1.0, 0.0]
    """
    chosen = range(*slice(start, end, step).indices(input.shape[axis("slice_scatter", dim, input.ndim)]))
    if len(chosen) == 0:
        return _hlx.clone(input)
    return index_copy(input, dim, _hlx.tensor(list(chosen), INT32, input.device), src)


@operation
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Writes a tensor to a diagonal of two dimensions.

    >>> hlx.diagonal_scatter(hlx.zeros(2, 2), hlx.ones(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    n = input.numel()
    places = _hlx.reshape(whole_range(input.device, n), list(input.shape))
    places = _hlx.diagonal(places, offset, dim1, dim2)
    if list(places.shape) != list(src.shape):
        raise errors.RuntimeError(f"diagonal_scatter: src has shape {list(src.shape)}, expected {list(places.shape)}")
    flat = _hlx.scatter(_hlx.reshape(input, [-1]), 0, _hlx.reshape(places, [-1]), _hlx.reshape(src, [-1]))
    return _hlx.reshape(flat, list(input.shape))


@operation
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Writes elements to places of the flattened tensor, negative ones counted from the end, or adds them.

    >>> hlx.put(hlx.zeros(3), hlx.tensor([-1]), hlx.tensor([5.0])).tolist()
    [0.0, 0.0, 5.0]
    """
    n = input.numel()
    places = _hlx.reshape(_hlx.where_(_binary(index, n, "add"), _binary(index, 0, "lt"), index), [-1])
    write = _hlx.scatter_add if accumulate else _hlx.scatter
    flat = write(_hlx.reshape(input, [-1]), 0, places, _hlx.reshape(source, [-1]))
    return _hlx.reshape(flat, list(input.shape))


@function
def fill(input: Tensor, value: "Tensor | int | float | bool") -> Tensor:
    """A tensor of this shape and type with one value; the gradient of the input is 0.

    >>> hlx.fill(hlx.zeros(2), 7).tolist()
    [7.0, 7.0]
    """
    return _hlx.clone(input).fill_(value)


@function
def unravel_index(indices: Tensor, shape: int | Shape) -> tuple[Tensor, ...]:
    """Turns places of a flattened tensor into places for each dimension of a shape.

    >>> [t.tolist() for t in hlx.unravel_index(hlx.tensor([3, 5]), (2, 3))]
    [[1, 1], [0, 2]]
    """
    extents = [shape] if isinstance(shape, int) else list(shape)
    if any(extent < 0 for extent in extents) or count(extents) == 0:
        raise errors.ValueError(f"unravel_index: shape is {extents}, expected positive extents")
    columns, indices = [], _hlx.to_dtype(indices, INT32)
    for extent in reversed(extents):
        columns.append(_binary(indices, extent, "remainder"))
        indices = _binary(indices, extent, "floor_divide")
    return tuple(reversed(columns))
