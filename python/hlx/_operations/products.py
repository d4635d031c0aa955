"""Products of vectors and matrices."""

from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._operations._arguments import axis, expect_rank
from hlx._operations._register import function, operation
from hlx._operations._rounding import rounded_once
from hlx._operations._types import BOOL, FLOAT32, Number, Tensor

_binary = _hlx.binary


@operation
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Multiplies matrices [.., M, K] and [.., K, N], whose other dimensions broadcast; a vector is a row or a column.

    >>> hlx.matmul(hlx.tensor([[1.0, 2.0]]), hlx.tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    return _hlx.matmul(input, other)


@operation
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Multiplies a matrix [M, K] by one [K, N].

    >>> hlx.mm(hlx.tensor([[1.0, 2.0]]), hlx.tensor([[3.0], [4.0]])).tolist()
    [[11.0]]
    """
    expect_rank("mm", "the input", input, 2)
    expect_rank("mm", "mat2", mat2, 2)
    return _hlx.matmul(input, mat2)


@operation
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Multiplies matrices [B, M, K] by as many [B, K, N].

    >>> hlx.bmm(hlx.ones(1, 1, 2), hlx.ones(1, 2, 1)).tolist()
    [[[2.0]]]
    """
    expect_rank("bmm", "the input", input, 3)
    expect_rank("bmm", "mat2", mat2, 3)
    if input.shape[0] != mat2.shape[0]:
        raise errors.RuntimeError(f"bmm: mat2 has shape {list(mat2.shape)}, expected {input.shape[0]} matrices")
    return _hlx.matmul(input, mat2)


@operation
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Multiplies a matrix [M, K] by a vector [K].

    >>> hlx.mv(hlx.tensor([[1.0, 2.0]]), hlx.tensor([3.0, 4.0])).tolist()
    [11.0]
    """
    expect_rank("mv", "the input", input, 2)
    expect_rank("mv", "vec", vec, 1)
    return _hlx.matmul(input, vec)


@operation("dot", "vdot")
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Multiplies two vectors.

    >>> hlx.dot(hlx.tensor([1.0, 2.0]), hlx.tensor([3.0, 4.0])).item()
    11.0
    """
    expect_rank("dot", "the input", input, 1)
    expect_rank("dot", "tensor", tensor, 1)
    return _hlx.matmul(input, tensor)


@operation
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sums the products over both last dimensions.

    >>> hlx.inner(hlx.tensor([1.0, 2.0]), hlx.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [11.0, 2.0]
    """
    if input.ndim == 0 or other.ndim == 0:
        return _binary(input, other, "mul")
    if other.ndim == 1:
        return _hlx.matmul(input, other)
    if input.ndim <= 2 and other.ndim == 2:
        return _hlx.matmul(input, _hlx.transpose(other, 0, 1))
    return tensordot(input, other, ([-1], [-1]))


@operation("outer", "ger")
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Multiplies every element of a vector by every one of another.

    >>> hlx.outer(hlx.tensor([1.0, 2.0]), hlx.tensor([3.0, 4.0])).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    return _hlx.outer(input, vec2)


def _wide(input: Tensor) -> Tensor:
    # Sums with factors of 16-bit operands are computed in f32 and rounded once.
    return _hlx.to_dtype(input, FLOAT32) if input.dtype.is_floating_point else input


def _sum_of(input: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """beta input + alpha product, in the input's type; a beta of 0 leaves its NaN out."""
    if not product.dtype.is_floating_point:
        # Of factors beside integers the whole part counts.
        scaled = _binary(product, int(alpha), "mul")
        return _hlx.to_dtype(_binary(scaled, _binary(input, int(beta), "mul"), "add"), input.dtype)
    if alpha != 1:
        product = _binary(product, float(alpha), "mul")
    if beta == 0:
        everywhere = _hlx.ones(input.device, [], BOOL)
        input = _hlx.masked_fill(input, everywhere, 0.0)
    return _hlx.to_dtype(_hlx.add_scaled(product, _wide(input), float(beta)), input.dtype)


@operation
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Computes `beta input + alpha mat1 mat2`; f16 and bf16 are rounded once.

    >>> hlx.addmm(hlx.tensor([[1.0]]), hlx.ones(1, 2), hlx.ones(2, 1)).tolist()
    [[3.0]]
    """
    expect_rank("addmm", "mat1", mat1, 2)
    expect_rank("addmm", "mat2", mat2, 2)
    return _sum_of(input, _hlx.matmul(_wide(mat1), _wide(mat2)), beta, alpha)


@operation
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Computes `beta input + alpha mat vec`; f16 and bf16 are rounded once.

    >>> hlx.addmv(hlx.tensor([1.0]), hlx.ones(1, 2), hlx.ones(2)).tolist()
    [3.0]
    """
    expect_rank("addmv", "mat", mat, 2)
    expect_rank("addmv", "vec", vec, 1)
    return _sum_of(input, _hlx.matmul(_wide(mat), _wide(vec)), beta, alpha)


@operation
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Computes `beta input + alpha outer(vec1, vec2)`; f16 and bf16 are rounded once.

    >>> hlx.addr(hlx.tensor([[1.0]]), hlx.tensor([2.0]), hlx.tensor([3.0])).tolist()
    [[7.0]]
    """
    return _sum_of(input, _hlx.outer(_wide(vec1), _wide(vec2)), beta, alpha)


@operation
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Computes `beta input + alpha batch1 batch2` of batches of matrices; f16 and bf16 are rounded once.

    >>> hlx.baddbmm(hlx.tensor([[[1.0]]]), hlx.ones(1, 1, 2), hlx.ones(1, 2, 1)).tolist()
    [[[3.0]]]
    """
    expect_rank("baddbmm", "batch1", batch1, 3)
    expect_rank("baddbmm", "batch2", batch2, 3)
    return _sum_of(input, _hlx.matmul(_wide(batch1), _wide(batch2)), beta, alpha)


@operation
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """Computes `beta input + alpha` times the sum of the products of a batch; f16 and bf16 are rounded once.

    >>> hlx.addbmm(hlx.tensor([[1.0]]), hlx.ones(2, 1, 2), hlx.ones(2, 2, 1)).tolist()
    [[5.0]]
    """
    expect_rank("addbmm", "batch1", batch1, 3)
    expect_rank("addbmm", "batch2", batch2, 3)
    product = _hlx.sum_dim(_hlx.matmul(_wide(batch1), _wide(batch2)), [0], False)
    return _sum_of(input, product, beta, alpha)


@function
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Sums products by Einstein's convention, such as "ij,jk->ik".

    >>> hlx.einsum("i,i->", hlx.tensor([1.0, 2.0]), hlx.tensor([3.0, 4.0])).item()
    11.0
    """
    if not isinstance(equation, str):
        raise errors.ValueError("einsum: the equation is no text; the form by lists of indices is not there")
    if len(operands) == 1 and not isinstance(operands[0], Tensor):
        operands = tuple(operands[0])
    return _hlx.einsum(equation, list(operands))


@function
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums products over the last dimensions of one and the first of the other, or over pairs of dimensions.

    >>> hlx.tensordot(hlx.ones(2, 3), hlx.ones(3, 4), dims=1).shape
    hlx.Size([2, 4])
    """
    if isinstance(dims, int):
        firsts, seconds = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        firsts = [axis("tensordot", dim, a.ndim) for dim in dims[0]]
        seconds = [axis("tensordot", dim, b.ndim) for dim in dims[1]]
    # A dimension of extent 1 beside a longer one is repeated, which is a sum over the other.
    for one, two in zip(firsts, seconds, strict=True):
        if a.shape[one] == 1 != b.shape[two]:
            b = _hlx.to_dtype(_hlx.sum_dim(b, [two], True), b.dtype)
        elif b.shape[two] == 1 != a.shape[one]:
            a = _hlx.to_dtype(_hlx.sum_dim(a, [one], True), a.dtype)
    sizes = [[x.shape[dim] for dim in named] for x, named in ((a, firsts), (b, seconds))]
    if sizes[0] != sizes[1]:
        raise errors.RuntimeError(f"tensordot: dimensions of extents {sizes[0]} and {sizes[1]}, expected equal ones")
    rest = [[dim for dim in range(x.ndim) if dim not in named] for x, named in ((a, firsts), (b, seconds))]
    n = 1
    for size in sizes[0]:
        n *= size
    shapes = [[x.shape[dim] for dim in left] for x, left in ((a, rest[0]), (b, rest[1]))]
    counts = [1, 1]
    for side in (0, 1):
        for extent in shapes[side]:
            counts[side] *= extent
    one = _hlx.reshape(_hlx.permute(a, rest[0] + firsts), [counts[0], n])
    two = _hlx.reshape(_hlx.permute(b, seconds + rest[1]), [n, counts[1]])
    return _hlx.reshape(_hlx.matmul(one, two), shapes[0] + shapes[1])


@operation
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Computes Kronecker's product: every element of one times all of the other, in blocks.

    >>> hlx.kron(hlx.tensor([1, 10]), hlx.tensor([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    rank = max(input.ndim, other.ndim)
    one, two = ([1] * (rank - x.ndim) + list(x.shape) for x in (input, other))
    spread = [extent for size in one for extent in (size, 1)], [extent for size in two for extent in (1, size)]
    blocks = _binary(_hlx.reshape(input, spread[0]), _hlx.reshape(other, spread[1]), "mul")
    return _hlx.reshape(blocks, [a * b for a, b in zip(one, two, strict=True)])


@operation
@rounded_once
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Computes the cross product of vectors of 3 elements along a dimension, by default the first of extent 3.

    >>> hlx.cross(hlx.tensor([1.0, 0.0, 0.0]), hlx.tensor([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    if dim is None:
        threes = [i for i, extent in enumerate(input.shape) if extent == 3]
        if not threes:
            raise errors.RuntimeError(
                f"cross: the input has shape {list(input.shape)}, expected a dimension of extent 3"
            )
        dim = threes[0]
    if any(x.shape[axis("cross", dim, x.ndim)] != 3 for x in (input, other)):
        raise errors.RuntimeError(
            f"cross: dimension {dim} of {list(input.shape)} and {list(other.shape)}, expected extents of 3"
        )
    # The next and the one after the next.
    a, b = _hlx.roll(input, [-1], [dim]), _hlx.roll(other, [-2], [dim])
    c, d = _hlx.roll(input, [-2], [dim]), _hlx.roll(other, [-1], [dim])
    return _binary(_binary(a, b, "mul"), _binary(c, d, "mul"), "sub")


@function
@rounded_once
def chain_matmul(*matrices: Tensor) -> Tensor:
    """Multiplies matrices from the left to the right.

    >>> hlx.chain_matmul(hlx.ones(1, 2), hlx.ones(2, 3), hlx.ones(3, 1)).tolist()
    [[6.0]]
    """
    product = matrices[0]
    for matrix in matrices[1:]:
        product = mm(product, matrix)
    return product


@function
@rounded_once
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Tensor:
    """Computes the p-norms of the differences of all rows [.., P, M] and [.., R, M], as [.., P, R].

    Never by products of matrices, whatever `compute_mode` says.

    >>> hlx.cdist(hlx.tensor([[0.0, 0.0]]), hlx.tensor([[3.0, 4.0]])).tolist()
    [[5.0]]
    """
    differences = _binary(_hlx.unsqueeze(x1, -2), _hlx.unsqueeze(x2, -3), "sub")
    return _hlx.norm(differences, float(p), [-1], False)
