"""Tensors of a rule, of random numbers, and like others.

`device` is a device or its name, by default that of `hlx.set_default_device`; `dtype` is float32 unless
the text says otherwise. `layout`, `pin_memory` and `memory_format` are accepted and mean nothing here.
"""

import builtins
from typing import Any

from hlx import _hlx, errors
from hlx._operations._arguments import extents, number, place, whole_range
from hlx._operations._register import function, method
from hlx._operations._types import BOOL, INT32, Device, Number, Shape, Tensor, dtype


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad else made


def _default_of(value: Any) -> dtype:
    # The type that PyTorch gives a number.
    if isinstance(value, builtins.bool):
        return BOOL
    return INT32 if isinstance(value, builtins.int) else _hlx.default_dtype()


@function
def zeros(
    size: int | Shape = (),
    *more: int,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of zeros.

    >>> hlx.zeros(2, 2).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    made = _hlx.zeros(place(device), extents(size, more), dtype or _hlx.default_dtype())
    return _finished(made, requires_grad)


@function
def ones(
    size: int | Shape = (),
    *more: int,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of ones.

    >>> hlx.ones((2,), dtype=hlx.int32).tolist()
    [1, 1]
    """
    made = _hlx.ones(place(device), extents(size, more), dtype or _hlx.default_dtype())
    return _finished(made, requires_grad)


@function
def empty(
    size: int | Shape = (),
    *more: int,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Makes a tensor whose elements will be overwritten; they are zeros.

    >>> hlx.empty(2, 3).shape
    hlx.Size([2, 3])
    """
    return zeros(size, *more, dtype=dtype, device=device, requires_grad=requires_grad)


@function
def full(
    size: Shape,
    fill_value: Number,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of one value, of the value's type.

    >>> hlx.full((2,), 7).tolist()
    [7, 7]
    """
    value = number("full", "fill_value", fill_value)
    made = _hlx.full(place(device), extents(size, ()), value, dtype or _default_of(value))
    return _finished(made, requires_grad)


@function
def scalar_tensor(
    s: Number,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of one number without dimensions.

    >>> hlx.scalar_tensor(2.5).item()
    2.5
    """
    return _finished(_hlx.full(place(device), [], s, dtype or _hlx.default_dtype()), requires_grad)


@function
def zeros_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Makes zeros of the shape, type and device of another tensor.

    >>> hlx.zeros_like(hlx.tensor([1, 2])).tolist()
    [0, 0]
    """
    made = _hlx.zeros(place(device or input.device), input.shape, dtype or input.dtype)
    return _finished(made, requires_grad)


@function
def ones_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Makes ones of the shape, type and device of another tensor.

    >>> hlx.ones_like(hlx.tensor([1, 2])).tolist()
    [1, 1]
    """
    made = _hlx.ones(place(device or input.device), input.shape, dtype or input.dtype)
    return _finished(made, requires_grad)


@function
def empty_like(
    input: Tensor,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Makes a tensor like another one, whose elements will be overwritten; they are zeros.

    >>> hlx.empty_like(hlx.tensor([1, 2])).dtype
    hlx.int32
    """
    return zeros_like(input, dtype=dtype, device=device, requires_grad=requires_grad)


@function
def full_like(
    input: Tensor,
    fill_value: Number,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Makes a tensor of one value with the shape, type and device of another one.

    >>> hlx.full_like(hlx.tensor([1.0, 2.0]), 7).tolist()
    [7.0, 7.0]
    """
    value = number("full_like", "fill_value", fill_value)
    made = _hlx.full(place(device or input.device), input.shape, value, dtype or input.dtype)
    return _finished(made, requires_grad)


@method
def new_zeros(
    input: Tensor,
    size: int | Shape = (),
    *more: int,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes zeros of a shape, with the type and device of this tensor.

    >>> hlx.tensor([1, 2]).new_zeros(3).tolist()
    [0, 0, 0]
    """
    made = _hlx.zeros(place(device or input.device), extents(size, more), dtype or input.dtype)
    return _finished(made, requires_grad)


@method
def new_ones(
    input: Tensor,
    size: int | Shape = (),
    *more: int,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes ones of a shape, with the type and device of this tensor.

    >>> hlx.tensor([1, 2]).new_ones(3).tolist()
    [1, 1, 1]
    """
    made = _hlx.ones(place(device or input.device), extents(size, more), dtype or input.dtype)
    return _finished(made, requires_grad)


@method
def new_empty(
    input: Tensor,
    size: int | Shape = (),
    *more: int,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of a shape with this type and device, whose elements will be overwritten; they are zeros.

    >>> hlx.tensor([1, 2]).new_empty(3).dtype
    hlx.int32
    """
    return new_zeros(input, size, *more, dtype=dtype, device=device, requires_grad=requires_grad)


@method
def new_full(
    input: Tensor,
    size: Shape,
    fill_value: Number,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a tensor of one value and a shape, with the type and device of this tensor.

    >>> hlx.tensor([1, 2]).new_full((2,), 7).tolist()
    [7, 7]
    """
    value = number("new_full", "fill_value", fill_value)
    made = _hlx.full(place(device or input.device), extents(size, ()), value, dtype or input.dtype)
    return _finished(made, requires_grad)


@method
def new_tensor(
    input: Tensor, data: Any, *, dtype: dtype | None = None, device: Device = None, requires_grad: bool = False
) -> Tensor:
    """Makes a tensor of data, with the type and device of this tensor.

    >>> hlx.tensor([1.0]).new_tensor([2, 3]).tolist()
    [2.0, 3.0]
    """
    made = _hlx.tensor(data, dtype=dtype or input.dtype, device=device or input.device)
    return _finished(made, requires_grad)


@function
def arange(
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes `start, start + step, ..` below `end`, or from 0 below the one number; whole numbers are int32.

    Element i is `start + i step`, rounded once and converted.

    >>> hlx.arange(1, 4).tolist()
    [1, 2, 3]
    """
    if end is None:
        start, end = 0, start
    first, last, by = (
        number("arange", name, value) for name, value in (("start", start), ("end", end), ("step", step))
    )
    if by == 0 or (last - first) / by < 0:
        raise errors.ValueError(f"arange: steps of {by} do not lead from {first} to {last}")
    whole = isinstance(first, builtins.int) and isinstance(last, builtins.int) and isinstance(by, builtins.int)
    kind = dtype or (INT32 if whole else _hlx.default_dtype())
    if whole and not kind.is_floating_point:
        made = _whole_range(device, int(first), int(last), int(by))
    else:
        made = _hlx.arange(place(device), first, last, by)
    return _finished(_hlx.to_dtype(made, kind), requires_grad)


def _whole_range(device: Device, start: int, end: int, step: int) -> Tensor:
    places = whole_range(place(device), -((start - end) // step))
    return _hlx.binary(_hlx.binary(places, step, "mul"), start, "add")


@function
def linspace(
    start: Number,
    end: Number,
    steps: int,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes values from one to another, both included, at equal distances.

    >>> hlx.linspace(0, 1, 3).tolist()
    [0.0, 0.5, 1.0]
    """
    if steps < 0:
        raise errors.ValueError(f"linspace: steps is {steps}, expected at least 0")
    if dtype == BOOL:
        raise errors.RuntimeError("linspace: dtype is hlx.bool, expected numbers")
    ends = [number("linspace", "start or end", value) for value in (start, end)]
    made = _hlx.linspace(place(device), *ends, steps)
    return _finished(_hlx.to_dtype(made, dtype or _hlx.default_dtype()), requires_grad)


@function
def logspace(
    start: Number,
    end: Number,
    steps: int,
    base: float = 10.0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes `base` to the powers from one to another, both included, at equal distances.

    >>> hlx.logspace(0, 2, 3, base=2).tolist()
    [1.0, 2.0, 4.0]
    """
    powers = _hlx.binary(float(base), linspace(start, end, steps, device=device), "pow")
    return _finished(_hlx.to_dtype(powers, dtype or _hlx.default_dtype()), requires_grad)


@function
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
) -> Tensor:
    """Makes a matrix with ones on its diagonal.

    >>> hlx.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = n if m is None else m
    if n < 0 or columns < 0:
        raise errors.ValueError(f"eye: n is {n} and m {columns}, expected none below 0")
    made = _hlx.eye_of(place(device), n, columns)
    return _finished(_hlx.to_dtype(made, dtype or _hlx.default_dtype()), requires_grad)
