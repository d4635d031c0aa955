"""Parts of tensors, repeated and moved elements, and shapes with more dimensions."""

import itertools
from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._operations._arguments import axis, count, dimensions, expect_rank, extents
from hlx._operations._register import function, method, operation
from hlx._operations._types import Dims, Number, Shape, Tensor


@operation("split", "unsafe_split")
def split(tensor: Tensor, split_size_or_sections: int | Shape, dim: int = 0) -> tuple[Tensor, ...]:
    """Cuts a dimension into pieces of one size, the last may be smaller, or of the sizes of a list.

    >>> [part.tolist() for part in hlx.split(hlx.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    if isinstance(split_size_or_sections, int):
        return tuple(_hlx.split(tensor, split_size_or_sections, dim))
    return split_with_sizes(tensor, split_size_or_sections, dim)


@operation
def split_with_sizes(input: Tensor, split_sizes: Shape, dim: int = 0) -> tuple[Tensor, ...]:
    """Cuts a dimension into pieces of the sizes of a list, which add up to its extent.

    >>> [part.tolist() for part in hlx.split_with_sizes(hlx.tensor([1, 2, 3]), [1, 2])]
    [[1], [2, 3]]
    """
    extent = input.shape[axis("split", dim, input.ndim)]
    if sum(split_sizes) != extent or min(split_sizes, default=0) < 0:
        raise errors.RuntimeError(
            f"split: sizes {list(split_sizes)} do not add up to {extent}, the extent of dimension {dim}"
        )
    parts, start = [], 0
    for size in split_sizes:
        parts.append(_hlx.narrow(input, dim, start, size))
        start += size
    return tuple(parts)


@operation("chunk", "unsafe_chunk")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Cuts a dimension into at most so many pieces of one size; the last may be smaller.

    >>> [part.tolist() for part in hlx.chunk(hlx.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    if chunks < 1:
        raise errors.RuntimeError(f"chunk: chunks is {chunks}, expected at least 1")
    return tuple(_hlx.chunk(input, chunks, dim))


@operation
def tensor_split(
    input: Tensor,
    indices_or_sections: int | Shape | Tensor | None = None,
    dim: int = 0,
    *,
    indices: Shape | None = None,
    sections: int | None = None,
) -> tuple[Tensor, ...]:
    """Cuts a dimension into so many pieces, the first ones larger by one, or before the places of a list.

    >>> [part.tolist() for part in hlx.tensor_split(hlx.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    where = indices_or_sections if indices_or_sections is not None else indices if sections is None else sections
    where = where.tolist() if isinstance(where, Tensor) else where
    if where is None:
        raise errors.TypeError("tensor_split: indices_or_sections is missing")
    dim = axis("tensor_split", dim, input.ndim)
    extent = input.shape[dim]
    if isinstance(where, int):
        if where < 1:
            raise errors.RuntimeError(f"tensor_split: sections is {where}, expected at least 1")
        size, more = divmod(extent, where)
        edges = [i * size + min(i, more) for i in range(where + 1)]
    else:
        edges = [0, *(min(max(i + extent if i < 0 else i, 0), extent) for i in where), extent]
    pieces = itertools.pairwise(edges)
    return tuple(_hlx.narrow(input, dim, start, max(end - start, 0)) for start, end in pieces)


def _split_at(
    operation: str, input: Tensor, indices_or_sections: int | Shape, dim: int, least: int
) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise errors.RuntimeError(
            f"{operation}: the input has shape {list(input.shape)}, expected at least {least} dimensions"
        )
    if isinstance(indices_or_sections, int) and input.shape[dim] % indices_or_sections:
        raise errors.RuntimeError(
            f"{operation}: {indices_or_sections} sections do not divide the {input.shape[dim]} of dimension {dim}"
        )
    return tensor_split(input, indices_or_sections, dim)


@operation
def hsplit(input: Tensor, indices_or_sections: int | Shape) -> tuple[Tensor, ...]:
    """Cuts the second dimension, or the only one, into equal pieces or before places.

    >>> [part.tolist() for part in hlx.hsplit(hlx.tensor([1, 2, 3, 4]), 2)]
    [[1, 2], [3, 4]]
    """
    return _split_at("hsplit", input, indices_or_sections, 0 if input.ndim == 1 else 1, 1)


@operation
def vsplit(input: Tensor, indices_or_sections: int | Shape) -> tuple[Tensor, ...]:
    """Cuts the first of at least two dimensions into equal pieces or before places.

    >>> [part.tolist() for part in hlx.vsplit(hlx.tensor([[1, 2], [3, 4]]), 2)]
    [[[1, 2]], [[3, 4]]]
    """
    return _split_at("vsplit", input, indices_or_sections, 0, 2)


@operation
def dsplit(input: Tensor, indices_or_sections: int | Shape) -> tuple[Tensor, ...]:
    """Cuts the third of at least three dimensions into equal pieces or before places.

    >>> [tuple(part.shape) for part in hlx.dsplit(hlx.zeros(1, 2, 4), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return _split_at("dsplit", input, indices_or_sections, 2, 3)


@operation
def roll(input: Tensor, shifts: int | Shape, dims: Dims = None) -> Tensor:
    """Shifts elements along dimensions, the last ones to the front; without dimensions those of the flattened tensor.

    >>> hlx.roll(hlx.tensor([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    named = dimensions(dims)
    if named:
        return _hlx.roll(input, dimensions(shifts), named)
    flat = _hlx.roll(_hlx.reshape(input, [-1]), dimensions(shifts), [0])
    return _hlx.reshape(flat, list(input.shape))


@method
def repeat(input: Tensor, repeats: int | Shape = (), *more: int) -> Tensor:
    """Repeats the tensor along each dimension; counts before the first make new ones.

    >>> hlx.tensor([1, 2]).repeat(2, 2).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    return _hlx.repeat(input, extents(repeats, more))


@operation
def tile(input: Tensor, dims: int | Shape = (), *more: int) -> Tensor:
    """Repeats the tensor along its last dimensions.

    >>> hlx.tile(hlx.tensor([[1], [2]]), (2,)).tolist()
    [[1, 1], [2, 2]]
    """
    counts = extents(dims, more)
    return _hlx.repeat(input, [1] * (input.ndim - len(counts)) + counts)


@operation
def repeat_interleave(
    input: Tensor, repeats: int | Tensor, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeats each element along a dimension; a tensor of counts is waited for.

    >>> hlx.repeat_interleave(hlx.tensor([1, 2]), 2).tolist()
    [1, 1, 2, 2]
    """
    if dim is None:
        input, dim = _hlx.reshape(input, [-1]), 0
    if isinstance(repeats, Tensor):
        return _hlx.repeat_interleave_by(input, repeats, dim)
    return _hlx.repeat_interleave(input, repeats, dim)


@function
def constant_pad_nd(input: Tensor, pad: Shape, value: Number = 0) -> Tensor:
    """Puts a value around a tensor: pairs of widths, the last dimension first; negative ones cut.

    >>> hlx.constant_pad_nd(hlx.tensor([1, 2]), (1, 0)).tolist()
    [0, 1, 2]
    """
    return _hlx.pad(input, pairs("constant_pad_nd", pad), "constant", value)


def pairs(operation: str, pad: Shape) -> list[tuple[int, int]]:
    """The widths of a padding by pairs, one for each dimension."""
    if len(pad) % 2:
        raise errors.RuntimeError(f"{operation}: pad is {list(pad)}, expected an even number of widths")
    return list(zip(pad[::2], pad[1::2], strict=True))


def listed(tensors: tuple[Tensor | Sequence[Tensor], ...]) -> list[Tensor]:
    """Tensors that are given one by one, or as one sequence."""
    if len(tensors) == 1 and not isinstance(tensors[0], Tensor):
        return list(tensors[0])
    return [tensor for tensor in tensors if isinstance(tensor, Tensor)]


def grown(tensor: Tensor, rank: int) -> Tensor:
    """A tensor with at least 1, 2 or 3 dimensions, as `atleast_1d`, `atleast_2d` and `atleast_3d` give it."""
    if tensor.ndim >= rank:
        return tensor
    if rank == 1:
        return _hlx.reshape(tensor, [1])
    if rank == 2:
        return _hlx.reshape(tensor, [1, tensor.numel()])
    return _hlx.unsqueeze(tensor, -1) if tensor.ndim == 2 else _hlx.reshape(tensor, [1, tensor.numel(), 1])


def _all_grown(tensors: tuple[Tensor | Sequence[Tensor], ...], rank: int) -> Tensor | tuple[Tensor, ...]:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        return grown(tensors[0], rank)
    return tuple(grown(tensor, rank) for tensor in listed(tensors))


@function
def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Gives tensors without dimensions one.

    >>> hlx.atleast_1d(hlx.tensor(1)).shape
    hlx.Size([1])
    """
    return _all_grown(tensors, 1)


@function
def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Gives tensors at least two dimensions, new ones before the others.

    >>> hlx.atleast_2d(hlx.tensor([1, 2])).shape
    hlx.Size([1, 2])
    """
    return _all_grown(tensors, 2)


@function
def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Gives tensors at least three dimensions: a vector is the middle one, a matrix the first two.

    >>> hlx.atleast_3d(hlx.tensor([1, 2])).shape
    hlx.Size([1, 2, 1])
    """
    return _all_grown(tensors, 3)


@function
def meshgrid(*tensors: Tensor, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Makes grids of coordinates of vectors; with "xy" the first two dimensions are exchanged.

    >>> [grid.tolist() for grid in hlx.meshgrid(hlx.tensor([1, 2]), hlx.tensor([3, 4]))]
    [[[1, 1], [2, 2]], [[3, 4], [3, 4]]]
    """
    vectors = listed(tensors)
    if indexing not in ("ij", "xy"):
        raise errors.RuntimeError(f"meshgrid: indexing is {indexing!r}, expected 'ij' or 'xy'")
    for vector in vectors:
        expect_rank("meshgrid", "a tensor", vector, 0, 1)
    swapped = indexing == "xy" and len(vectors) > 1
    order = [1, 0, *range(2, len(vectors))] if swapped else list(range(len(vectors)))
    shape = [count(vectors[i].shape) for i in order]
    grids = []
    for place, vector in enumerate(vectors):
        own = [-1 if i == place else 1 for i in order]
        grids.append(_hlx.expand(_hlx.reshape(vector, own), shape))
    return tuple(grids)


@function
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Makes the rows of all combinations of the elements of vectors.

    >>> hlx.cartesian_prod(hlx.tensor([1, 2]), hlx.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    if len(tensors) == 1:
        return tensors[0]
    return _hlx.stack([_hlx.reshape(grid, [-1]) for grid in meshgrid(*tensors)], 1)
