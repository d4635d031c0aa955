"""Reads the forms in which PyTorch takes arguments: shapes, dimensions, numbers in the place of tensors."""

import builtins
from collections.abc import Sequence
from typing import Any

from hlx import _hlx, errors
from hlx._operations._types import INT32, Device, Dims, Number, Operand, Shape, Tensor, device, dtype


def extents(first: int | Shape, more: tuple[int, ...]) -> list[int]:
    """The numbers of a shape that is given as one sequence or as arguments one by one."""
    if isinstance(first, int):
        return [first, *more]
    return list(first)


def dimensions(dim: Dims) -> list[int]:
    """Dimensions as a list; an empty one stands for all."""
    if dim is None:
        return []
    return [dim] if isinstance(dim, int) else list(dim)


def required(operation: str, dim: int | None, axis: int | None) -> int:
    """The dimension that is named as `dim`, or as `axis`, which is NumPy's word."""
    named = dim if axis is None else axis
    if named is None:
        raise errors.TypeError(f"{operation}: dim is missing")
    return named


def axis(operation: str, dim: int, rank: int) -> int:
    """A dimension counted from the start; a tensor without dimensions has one to name, as in PyTorch."""
    count = rank or 1
    if not -count <= dim < count:
        raise errors.IndexError(f"{operation}: dimension {dim} is out of range, expected {-count} to {count - 1}")
    return dim % count


def axes(operation: str, dim: Dims, rank: int) -> list[int]:
    """Dimensions counted from the start, each named once; all of them if none is named."""
    named = [axis(operation, each, rank) for each in dimensions(dim)]
    if len(builtins.set(named)) != len(named):
        raise errors.RuntimeError(f"{operation}: dimensions {dimensions(dim)} name one twice")
    return named or list(range(rank))


def tensor_of(value: Operand, like: Tensor | None = None) -> Tensor:
    """A number as a tensor without dimensions, on the device of another one."""
    if isinstance(value, Tensor):
        return value
    return _hlx.tensor(value, device=None if like is None else like.device)


def left_tensor(input: Operand, other: Operand) -> Tensor:
    """The left operand as a tensor, on the device of the right one if that is a tensor."""
    if isinstance(input, Tensor):
        return input
    return tensor_of(input, other if isinstance(other, Tensor) else None)


def binary(name: str, input: Operand, other: Operand) -> Tensor:
    """Computes a binary operation; of two numbers too."""
    if isinstance(input, Tensor) or isinstance(other, Tensor):
        return _hlx.binary(input, other, name)
    return _hlx.binary(tensor_of(input), other, name)


def converted(input: Tensor, dtype: dtype | None) -> Tensor:
    """The elements in a type, if one is named."""
    return input if dtype is None else _hlx.to_dtype(input, dtype)


def expect_rank(operation: str, name: str, input: Tensor, *ranks: int) -> None:
    """Raises an error unless a tensor has one of the numbers of dimensions."""
    if input.ndim not in ranks:
        expected = " or ".join(str(rank) for rank in ranks)
        raise errors.RuntimeError(f"{operation}: {name} has shape {list(input.shape)}, expected {expected} dimensions")


def index_of(indices: Any, like: Tensor) -> Tensor:
    """An index tensor, made of a list of numbers if it is none yet."""
    return indices if isinstance(indices, Tensor) else _hlx.tensor(indices, device=like.device)


def count(shape: Sequence[int]) -> int:
    """The elements of a shape."""
    n = 1
    for extent in shape:
        n *= extent
    return n


def is_number(value: Any) -> builtins.bool:
    """Whether an argument is a Python number."""
    return isinstance(value, (builtins.int, builtins.float))


def number(operation: str, name: str, value: Any) -> Number:
    """A number that may be given as a tensor of one element."""
    if isinstance(value, Tensor):
        found: Number = value.item()
        return found
    if not isinstance(value, builtins.int | builtins.float):
        raise errors.TypeError(f"{operation}: {name} is {type(value).__name__}, expected a number")
    return value


def place(named: Device) -> device:
    """A device by its name; None is the default."""
    if isinstance(named, device):
        return named
    return _hlx.get_default_device() if named is None else device(named)


def whole_range(device: device, n: int) -> Tensor:
    """The whole numbers from 0 to n - 1, as int32."""
    if n <= 2**24:
        # f32 holds them.
        return _hlx.to_dtype(_hlx.arange(device, 0, n, 1), INT32)
    return _hlx.binary(_hlx.cumsum(_hlx.ones(device, [n], INT32), 0), 1, "sub")
