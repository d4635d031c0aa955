"""Products of matrices and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import hlx
from hlx import Tensor, errors

from ._dtypes import operands
from ._manipulation import place, places


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices or vectors; further axes broadcast. Integers wrap in their type."""
    return hlx.matmul(*operands("matmul", x1, x2))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """A view with the last two axes exchanged."""
    if x.ndim < 2:
        raise errors.ValueError(f"matrix_transpose: the array has {x.ndim} axes, expected at least 2")
    return hlx.transpose(x, -2, -1)


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum over products along some axes of both: of the last and first ones for a number."""
    x1, x2 = operands("tensordot", x1, x2)
    if isinstance(axes, int):
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    of_x1 = places("tensordot", tuple(axes[0]), x1.ndim)
    of_x2 = places("tensordot", tuple(axes[1]), x2.ndim)
    summed = [x1.shape[i] for i in of_x1]
    if summed != [x2.shape[i] for i in of_x2]:
        raise errors.ValueError(f"tensordot: extents {summed} and {[x2.shape[i] for i in of_x2]} differ")
    rows = [i for i in range(x1.ndim) if i not in of_x1]
    cols = [i for i in range(x2.ndim) if i not in of_x2]
    row_shape, col_shape = [x1.shape[i] for i in rows], [x2.shape[i] for i in cols]
    n = math.prod(summed)
    left = hlx.permute(x1, rows + of_x1).reshape((math.prod(row_shape), n))
    right = hlx.permute(x2, of_x2 + cols).reshape((n, math.prod(col_shape)))
    return hlx.matmul(left, right).reshape(row_shape + col_shape)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The sum over products along one axis, which does not broadcast; the other axes do."""
    x1, x2 = operands("vecdot", x1, x2)
    # The axis counts from the end, in the arrays and in their joint shape.
    counted = place("vecdot", axis, min(x1.ndim, x2.ndim)) - min(x1.ndim, x2.ndim) if axis >= 0 else axis
    place("vecdot", counted, min(x1.ndim, x2.ndim))
    if x1.shape[counted] != x2.shape[counted]:
        raise errors.ValueError(f"vecdot: extents {x1.shape[counted]} and {x2.shape[counted]} differ")
    last1, last2 = hlx.movedim(x1, counted, -1), hlx.movedim(x2, counted, -1)
    return hlx.matmul(last1.unsqueeze(-2), last2.unsqueeze(-1)).squeeze(-1).squeeze(-1)
