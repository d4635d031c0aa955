"""Views: other shapes and orders of the same elements. They copy nothing, unless their text says so."""

import builtins

from hlx import _hlx, errors
from hlx._operations._arguments import axes, axis, dimensions, expect_rank, extents
from hlx._operations._register import attribute, function, method, operation
from hlx._operations._types import Dims, Shape, Tensor


@operation
def reshape(input: Tensor, shape: int | Shape, *more: int) -> Tensor:
    """Gives the elements another shape; one extent may be -1. Copies if no strides describe the new shape.

    >>> hlx.reshape(hlx.tensor([1, 2, 3, 4]), (2, -1)).tolist()
    [[1, 2], [3, 4]]
    """
    return _hlx.reshape(input, extents(shape, more))


@method
def view(input: Tensor, shape: int | Shape, *more: int) -> Tensor:
    """Gives the elements another shape without a copy; an error if no strides describe it.

    >>> hlx.tensor([1, 2, 3, 4]).view(2, 2).tolist()
    [[1, 2], [3, 4]]
    """
    if isinstance(shape, _hlx.dtype):
        raise errors.TypeError(f"view: shape is {shape}, expected numbers; a view of other types is not there")
    return _hlx.view(input, extents(shape, more))


@method
def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Gives the elements the shape of another tensor.

    >>> hlx.tensor([1, 2]).reshape_as(hlx.zeros(2, 1)).shape
    hlx.Size([2, 1])
    """
    return _hlx.reshape(input, list(other.shape))


@method
def view_as(input: Tensor, other: Tensor) -> Tensor:
    """Gives the elements the shape of another tensor, without a copy.

    >>> hlx.tensor([1, 2]).view_as(hlx.zeros(2, 1)).shape
    hlx.Size([2, 1])
    """
    return _hlx.view(input, list(other.shape))


@operation
def ravel(input: Tensor) -> Tensor:
    """Flattens to one dimension; copies if the elements are not in this order.

    >>> hlx.ravel(hlx.tensor([[1, 2], [3, 4]])).tolist()
    [1, 2, 3, 4]
    """
    return _hlx.contiguous(_hlx.reshape(input, [-1]))


@operation
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Joins the dimensions from one to another.

    >>> hlx.flatten(hlx.zeros(2, 3, 4), 1).shape
    hlx.Size([2, 12])
    """
    return _hlx.flatten(input, start_dim, end_dim)


@operation
def unflatten(input: Tensor, dim: int, sizes: Shape) -> Tensor:
    """Cuts a dimension into several; one extent may be -1.

    >>> hlx.unflatten(hlx.zeros(2, 12), 1, (3, -1)).shape
    hlx.Size([2, 3, 4])
    """
    return _hlx.unflatten(input, dim, [sizes] if isinstance(sizes, int) else list(sizes))


@operation
def permute(input: Tensor, dims: int | Shape = (), *more: int) -> Tensor:
    """Puts the dimensions in another order.

    >>> hlx.permute(hlx.zeros(2, 3, 4), (2, 0, 1)).shape
    hlx.Size([4, 2, 3])
    """
    return _hlx.permute(input, extents(dims, more))


@operation("transpose", "swapaxes", "swapdims")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchanges two dimensions.

    >>> hlx.transpose(hlx.tensor([[1, 2], [3, 4]]), 0, 1).tolist()
    [[1, 3], [2, 4]]
    """
    return _hlx.transpose(input, dim0, dim1)


@operation
def t(input: Tensor) -> Tensor:
    """Transposes a matrix; a tensor of fewer dimensions stays.

    >>> hlx.t(hlx.zeros(2, 3)).shape
    hlx.Size([3, 2])
    """
    expect_rank("t", "the input", input, 0, 1, 2)
    return _hlx.transpose(input, 0, 1) if input.ndim == 2 else input


@attribute("T")
def reversed_dimensions(input: Tensor) -> Tensor:
    """The tensor with its dimensions in reverse order.

    >>> hlx.zeros(2, 3, 4).T.shape
    hlx.Size([4, 3, 2])
    """
    return _hlx.permute(input, list(range(input.ndim))[::-1])


@attribute("mT", "mH")
def matrix_transposed(input: Tensor) -> Tensor:
    """The tensor with its last two dimensions exchanged.

    >>> hlx.zeros(2, 3, 4).mT.shape
    hlx.Size([2, 4, 3])
    """
    if input.ndim < 2:
        raise errors.RuntimeError(f"mT: the tensor has shape {list(input.shape)}, expected at least two dimensions")
    return _hlx.transpose(input, -2, -1)


@attribute("H")
def matrix_adjoint(input: Tensor) -> Tensor:
    """The transposed matrix.

    >>> hlx.zeros(2, 3).H.shape
    hlx.Size([3, 2])
    """
    expect_rank("H", "the tensor", input, 0, 2)
    return _hlx.transpose(input, 0, 1) if input.ndim else input


@operation
def adjoint(input: Tensor) -> Tensor:
    """Exchanges the last two dimensions.

    >>> hlx.adjoint(hlx.zeros(2, 3, 4)).shape
    hlx.Size([2, 4, 3])
    """
    return matrix_transposed(input)


@operation("movedim", "moveaxis")
def movedim(input: Tensor, source: int | Shape, destination: int | Shape) -> Tensor:
    """Moves dimensions to other places; the others keep their order.

    >>> hlx.movedim(hlx.zeros(2, 3, 4), 0, -1).shape
    hlx.Size([3, 4, 2])
    """
    rank = input.ndim
    sources = [axis("movedim", each, rank) for each in dimensions(source)]
    places = [axis("movedim", each, rank) for each in dimensions(destination)]
    if len(sources) != len(places) or len({*sources}) != len(sources) or len({*places}) != len(places):
        raise errors.RuntimeError(f"movedim: source {source} and destination {destination} are not as many dimensions")
    rest = iter([dim for dim in range(rank) if dim not in sources])
    order = [sources[places.index(dim)] if dim in places else next(rest) for dim in range(rank)]
    return _hlx.permute(input, order)


@operation
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """Inserts a dimension of extent 1.

    >>> hlx.unsqueeze(hlx.tensor([1, 2]), -1).tolist()
    [[1], [2]]
    """
    return _hlx.unsqueeze(input, dim)


@operation
def squeeze(input: Tensor, dim: Dims = None) -> Tensor:
    """Drops dimensions of extent 1: all of them, one, or several.

    >>> hlx.squeeze(hlx.zeros(1, 2, 1)).shape
    hlx.Size([2])
    """
    if isinstance(dim, builtins.int):
        dim = axis("squeeze", dim, input.ndim)
        return _hlx.squeeze(input, dim) if input.ndim else input
    rank = input.ndim
    named = range(rank) if dim is None else [axis("squeeze", each, rank) for each in dim]
    if rank == 0:
        return input
    for each in sorted(named, reverse=True):
        if input.shape[each] == 1:
            input = _hlx.squeeze(input, each)
    return input


@method
def expand(input: Tensor, size: int | Shape = (), *more: int) -> Tensor:
    """Repeats dimensions of extent 1, and new ones before the first; -1 leaves an extent.

    >>> hlx.tensor([[1], [2]]).expand(-1, 2).tolist()
    [[1, 1], [2, 2]]
    """
    return _hlx.expand(input, extents(size, more))


@method
def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Broadcasts to the shape of another tensor.

    >>> hlx.tensor([1, 2]).expand_as(hlx.zeros(2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return _hlx.expand(input, list(other.shape))


@operation
def broadcast_to(input: Tensor, size: int | Shape, *more: int) -> Tensor:
    """Broadcasts to a shape.

    >>> hlx.broadcast_to(hlx.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2], [1, 2]]
    """
    return _hlx.expand(input, extents(size, more))


@function
def broadcast_shapes(*shapes: int | Shape) -> tuple[int, ...]:
    """Computes the shape to which several broadcast.

    >>> hlx.broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    listed = [[shape] if isinstance(shape, int) else list(shape) for shape in shapes]
    rank = max((len(shape) for shape in listed), default=0)
    joint = [1] * rank
    for shape in listed:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extent not in (1, joint[i]) and joint[i] != 1:
                raise errors.RuntimeError(f"broadcast_shapes: {listed} do not broadcast")
            joint[i] = extent if joint[i] == 1 else joint[i]
    return tuple(joint)


@function
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Broadcasts tensors to their joint shape.

    >>> [tuple(t.shape) for t in hlx.broadcast_tensors(hlx.zeros(2, 1), hlx.zeros(3))]
    [(2, 3), (2, 3)]
    """
    shape = list(broadcast_shapes(*(tensor.shape for tensor in tensors)))
    return tuple(_hlx.expand(tensor, shape) for tensor in tensors)


@operation
def narrow(input: Tensor, dim: int, start: int | Tensor, length: int) -> Tensor:
    """Takes `length` elements of a dimension from `start` on, which may be counted from the end.

    >>> hlx.narrow(hlx.tensor([1, 2, 3, 4]), 0, 1, 2).tolist()
    [2, 3]
    """
    start = int(start.item()) if isinstance(start, Tensor) else start
    extent = input.shape[axis("narrow", dim, input.ndim)] if input.ndim else 0
    if not -extent <= start <= extent or length < 0:
        raise errors.IndexError(f"narrow: start {start} and length {length} are out of range of dimension {dim}")
    return _hlx.narrow(input, dim, start + extent if start < 0 else start, length)


@operation
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """Takes one place of a dimension, which may be counted from the end; the dimension is dropped.

    >>> hlx.select(hlx.tensor([[1, 2], [3, 4]]), 1, -1).tolist()
    [2, 4]
    """
    if input.ndim == 0:
        raise errors.IndexError("select: the input has shape [], expected at least one dimension")
    extent = input.shape[axis("select", dim, input.ndim)]
    if not -extent <= index < extent:
        raise errors.IndexError(
            f"select: index {index} is out of range of dimension {dim}, which has {extent} elements"
        )
    return _hlx.select(input, dim, index % extent)


@operation
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Takes a diagonal of two dimensions, as the last dimension.

    >>> hlx.diagonal(hlx.tensor([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    return _hlx.diagonal(input, offset, dim1, dim2)


@operation
def flip(input: Tensor, dims: int | Shape, *more: int) -> Tensor:
    """Reverses dimensions.

    >>> hlx.flip(hlx.tensor([1, 2, 3]), (0,)).tolist()
    [3, 2, 1]
    """
    named = extents(dims, more)
    return _hlx.flip(input, axes("flip", named, input.ndim) if named else [])


@operation
def fliplr(input: Tensor) -> Tensor:
    """Reverses the second dimension.

    >>> hlx.fliplr(hlx.tensor([[1, 2]])).tolist()
    [[2, 1]]
    """
    if input.ndim < 2:
        raise errors.RuntimeError(f"fliplr: the input has shape {list(input.shape)}, expected at least two dimensions")
    return _hlx.flip(input, [1])


@operation
def flipud(input: Tensor) -> Tensor:
    """Reverses the first dimension.

    >>> hlx.flipud(hlx.tensor([1, 2])).tolist()
    [2, 1]
    """
    if input.ndim < 1:
        raise errors.RuntimeError("flipud: the input has shape [], expected at least one dimension")
    return _hlx.flip(input, [0])


@operation
def rot90(input: Tensor, k: int = 1, dims: Shape = (0, 1)) -> Tensor:
    """Rotates the plane of two dimensions by k quarters, from the first toward the second.

    >>> hlx.rot90(hlx.tensor([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
    if len(dims) != 2:
        raise errors.RuntimeError(f"rot90: dims are {list(dims)}, expected two")
    first, second = axes("rot90", dims, input.ndim)
    if k % 4 == 0:
        return input.clone()
    if k % 4 == 2:
        return _hlx.flip(input, [first, second])
    turned = _hlx.flip(input, [second if k % 4 == 1 else first])
    return _hlx.transpose(turned, first, second)


@method
def unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Takes windows of `size` elements, `step` apart, of a dimension; a window's elements are the last dimension.

    >>> hlx.tensor([1, 2, 3, 4]).unfold(0, 2, 1).tolist()
    [[1, 2], [2, 3], [3, 4]]
    """
    windows = _hlx.unfold(input, dimension, size, step)
    if size != 0:
        return windows
    # A view of no elements, whose gradient is zeros.
    none = _hlx.narrow(_hlx.reshape(input, [input.numel()]), 0, 0, 0)
    return _hlx.reshape(none, list(windows.shape))


@operation
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """Takes a dimension apart.

    >>> [row.tolist() for row in hlx.unbind(hlx.tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    if input.ndim == 0:
        raise errors.RuntimeError("unbind: the input has shape [], expected at least one dimension")
    extent = input.shape[axis("unbind", dim, input.ndim)]
    return tuple(_hlx.select(input, dim, i) for i in range(extent))
