"""Shapes, joins, and elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence

import hlx
from hlx import Tensor, errors

from ._dtypes import result_type

Axes = int | tuple[int, ...]


def place(op: str, axis: int, n: int) -> int:
    """An axis from 0 to n - 1; negative ones count from the end."""
    if not -n <= axis < n:
        raise errors.IndexError(f"{op}: axis is {axis}, expected one from {-n} to {n - 1}")
    return axis % n


def places(op: str, axes: Axes, n: int) -> list[int]:
    """Different axes from 0 to n - 1."""
    found = [place(op, axis, n) for axis in ((axes,) if isinstance(axes, int) else axes)]
    if len(set(found)) < len(found):
        raise errors.ValueError(f"{op}: axis is {axes}, which names one axis twice")
    return found


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape to which arrays of some shapes broadcast."""
    joint: list[int] = []
    for i in range(1, max((len(shape) for shape in shapes), default=0) + 1):
        extents = {shape[-i] for shape in shapes if len(shape) >= i} - {1}
        if len(extents) > 1:
            raise errors.ValueError(f"broadcast_shapes: {', '.join(map(str, shapes))} do not broadcast")
        joint.insert(0, extents.pop() if extents else 1)
    return tuple(joint)


def broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """Returns a view of x with another shape."""
    if broadcast_shapes(tuple(x.shape), tuple(shape)) != tuple(shape):
        raise errors.ValueError(f"broadcast_to: {tuple(x.shape)} does not broadcast to {tuple(shape)}")
    return x.expand(tuple(shape))


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Returns views of arrays with their joint shape."""
    shape = broadcast_shapes(*(tuple(x.shape) for x in arrays))
    return tuple(x.expand(shape) for x in arrays)


def _in_joint_type(arrays: Sequence[Tensor]) -> list[Tensor]:
    dtype = result_type(*arrays)
    return [x.to(dtype) for x in arrays]


def concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Joins arrays along an axis, or flattened if axis is None."""
    joint = _in_joint_type(arrays)
    if axis is None:
        return hlx.cat([x.reshape(-1) for x in joint])
    return hlx.cat(joint, dim=place("concat", axis, joint[0].ndim))


def expand_dims(x: Tensor, /, axis: Axes) -> Tensor:
    """Returns a view with axes of extent 1 at the given places of the result."""
    n_new = 1 if isinstance(axis, int) else len(axis)
    for i in sorted(places("expand_dims", axis, x.ndim + n_new)):
        x = x.unsqueeze(i)
    return x


def flip(x: Tensor, /, *, axis: Axes | None = None) -> Tensor:
    """Reverses the order along axes, by default along all."""
    return hlx.flip(x, list(range(x.ndim)) if axis is None else places("flip", axis, x.ndim))


def moveaxis(x: Tensor, source: Axes, destination: Axes, /) -> Tensor:
    """Returns a view with some axes at other places."""
    return hlx.movedim(x, places("moveaxis", source, x.ndim), places("moveaxis", destination, x.ndim))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """Returns a view with the axes in another order."""
    return hlx.permute(x, places("permute_dims", tuple(axes), x.ndim))


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Repeats each element along an axis, or of the flattened array if axis is None.

    An array of counts must be read, so the call waits for its device.
    """
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = place("repeat", axis, x.ndim)
    if isinstance(repeats, Tensor):
        repeats = repeats.to(hlx.int32).expand((x.shape[axis],))
    return hlx.repeat_interleave(x, repeats, dim=axis)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Gives the elements another shape; with `copy=False` a shape that needs a copy is an error."""
    if copy is False:
        return x.view(tuple(shape))
    reshaped = x.reshape(tuple(shape))
    return reshaped.clone() if copy else reshaped


def roll(x: Tensor, /, shift: Axes, *, axis: Axes | None = None) -> Tensor:
    """Moves elements along axes, those past the end to the start; the flattened array if axis is None."""
    if axis is None:
        if not isinstance(shift, int):
            raise errors.ValueError("roll: shift is a tuple, but axis is None")
        return hlx.roll(x.reshape(-1), [shift], [0]).reshape(tuple(x.shape))
    axes = [place("roll", one, x.ndim) for one in ((axis,) if isinstance(axis, int) else axis)]
    shifts = [shift] * len(axes) if isinstance(shift, int) else list(shift)
    if len(shifts) != len(axes):
        raise errors.ValueError(f"roll: shift has {len(shifts)} numbers, expected {len(axes)}")
    return hlx.roll(x, shifts, axes)


def squeeze(x: Tensor, /, axis: Axes) -> Tensor:
    """Returns a view without axes of extent 1; another extent is an error, unlike in PyTorch."""
    axes = places("squeeze", axis, x.ndim)
    for i in axes:
        if x.shape[i] != 1:
            raise errors.ValueError(f"squeeze: axis {i} has extent {x.shape[i]}, expected 1")
    return x.reshape([extent for i, extent in enumerate(x.shape) if i not in axes])


def stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Joins arrays along a new axis."""
    joint = _in_joint_type(arrays)
    return hlx.stack(joint, dim=place("stack", axis, joint[0].ndim + 1))


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Repeats the whole array along its axes; the shorter of shape and repetitions has ones before it."""
    missing = x.ndim - len(repetitions)
    return hlx.tile(x, (1,) * missing + tuple(repetitions))


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the parts of the array along an axis, without it."""
    return tuple(hlx.unbind(x, place("unstack", axis, x.ndim)))


def _from_the_start(indices: Tensor, extent: int) -> Tensor:
    """Indices of which negative ones count from the end."""
    indices = indices.to(hlx.int32)
    return hlx.where(indices < 0, indices + extent, indices)


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Returns the elements at indices along an axis, which may be left out of an array of one axis."""
    if axis is None:
        if x.ndim != 1:
            raise errors.ValueError(f"take: axis is None, but the array has {x.ndim} axes")
        axis = 0
    axis = place("take", axis, x.ndim)
    flat = _from_the_start(indices.reshape(-1), x.shape[axis])
    taken = hlx.index_select(x, axis, flat)
    return taken.reshape((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Returns the elements that an array of indices names along an axis; all other axes broadcast."""
    axis = place("take_along_axis", axis, x.ndim)
    return hlx.take_along_dim(x, _from_the_start(indices, x.shape[axis]), axis)


def n_elements(x: Tensor) -> int:
    """The number of elements: `x.size` is PyTorch's method."""
    return math.prod(x.shape)
