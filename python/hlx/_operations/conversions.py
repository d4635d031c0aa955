"""Conversions between types and devices, and copies."""

import builtins
from typing import Any, overload

from hlx import _hlx, errors
from hlx._operations._register import method, operation
from hlx._operations._types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    INT8,
    INT32,
    UINT8,
    Device,
    Tensor,
    device,
    dtype,
)


def _target(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Device, dtype | None]:
    """The device and the type that the arguments of `to` name, in any of its forms."""
    place, kind = keywords.get("device"), keywords.get("dtype")
    for argument in arguments:
        if isinstance(argument, Tensor):
            place, kind = argument.device, argument.dtype
        elif isinstance(argument, dtype):
            kind = argument
        elif isinstance(argument, device | str):
            place = argument
        elif argument is not None and not isinstance(argument, builtins.bool):
            raise errors.TypeError(
                f"to: an argument is {type(argument).__name__}, expected a type, a device or a tensor"
            )
    return place, kind


@method
def to(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
    """Converts to a type, a device, both, or those of another tensor; the tensor itself if nothing changes.

    `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(other)`; `copy=True` copies in any case, `non_blocking`
    means nothing. Floats become integers toward zero, saturated, NaN 0; anything becomes bool by whether it is
    other than 0.

    >>> hlx.tensor([1.9, -1.9]).to(hlx.int32).tolist()
    [1, -1]
    """
    known = {"device", "dtype", "non_blocking", "copy", "memory_format", "other"}
    for name in keywords:
        if name not in known:
            raise errors.TypeError(f"to: there is no argument {name!r}")
    if "other" in keywords:
        arguments = (*arguments, keywords["other"])
    flags = [argument for argument in arguments if isinstance(argument, builtins.bool)]
    copy = keywords.get("copy", flags[1] if len(flags) > 1 else False)
    place, kind = _target(arguments, keywords)
    result = input
    if place is not None and device(place) != input.device:
        result = _hlx.to(result, place)
    if kind is not None:
        result = _hlx.to_dtype(result, kind)
    return clone(input) if copy and result is input else result


@method
def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Converts to the type of another tensor.

    >>> hlx.tensor([1]).type_as(hlx.tensor([0.5])).tolist()
    [1.0]
    """
    return _hlx.to_dtype(input, other.dtype)


@overload
def type_of(input: Tensor, dtype: None = None) -> str: ...
@overload
def type_of(input: Tensor, dtype: dtype) -> Tensor: ...
@method("type")
def type_of(input: Tensor, dtype: dtype | None = None) -> "Tensor | str":
    """Converts to a type; without one, the name of the type.

    >>> hlx.tensor([1]).type(hlx.float32).tolist()
    [1.0]
    """
    return str(input.dtype) if dtype is None else _hlx.to_dtype(input, dtype)


@method("float")
def to_float(input: Tensor) -> Tensor:
    """Converts to float32.

    >>> hlx.tensor([1, 2]).float().tolist()
    [1.0, 2.0]
    """
    return _hlx.to_dtype(input, FLOAT32)


@method("half")
def to_half(input: Tensor) -> Tensor:
    """Converts to float16.

    >>> hlx.tensor([0.5]).half().dtype
    hlx.float16
    """
    return _hlx.to_dtype(input, FLOAT16)


@method("bfloat16")
def to_bfloat16(input: Tensor) -> Tensor:
    """Converts to bfloat16.

    >>> hlx.tensor([0.5]).bfloat16().dtype
    hlx.bfloat16
    """
    return _hlx.to_dtype(input, BFLOAT16)


@method("int", "long", "short")
def to_int(input: Tensor) -> Tensor:
    """Converts to int32, to which int64 and int16 are narrowed.

    >>> hlx.tensor([1.9]).int().tolist()
    [1]
    """
    return _hlx.to_dtype(input, INT32)


@method("char")
def to_char(input: Tensor) -> Tensor:
    """Converts to int8.

    >>> hlx.tensor([1.9]).char().dtype
    hlx.int8
    """
    return _hlx.to_dtype(input, INT8)


@method("byte")
def to_byte(input: Tensor) -> Tensor:
    """Converts to uint8.

    >>> hlx.tensor([1.9]).byte().dtype
    hlx.uint8
    """
    return _hlx.to_dtype(input, UINT8)


@method("bool")
def to_bool(input: Tensor) -> Tensor:
    """Tells of each element whether it is other than 0.

    >>> hlx.tensor([0.0, 0.5]).bool().tolist()
    [False, True]
    """
    return _hlx.to_dtype(input, BOOL)


@method
def double(input: Tensor) -> Tensor:
    """Raises an error: HLX has no float64.

    >>> hlx.tensor([1.0]).double()
    Traceback (most recent call last):
    hlx.errors.TypeError: double: HLX has no float64; use dtype=hlx.float32
    """
    raise errors.TypeError("double: HLX has no float64; use dtype=hlx.float32")


@method
def cpu(input: Tensor) -> Tensor:
    """Copies to the CPU device, or returns the tensor if it is there.

    >>> hlx.tensor([1.0]).cpu().tolist()
    [1.0]
    """
    return to(input, "cpu")


@method
def vulkan(input: Tensor, index: int | None = None) -> Tensor:
    """Copies to a Vulkan device, or returns the tensor if it is there.

    >>> x = hlx.tensor([1.0])
    >>> (x.vulkan() if hlx.vulkan.is_available() else x).tolist()
    [1.0]
    """
    return to(input, "vulkan" if index is None else f"vulkan:{index}")


@operation
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Copies the elements; the gradient goes to the input.

    >>> x = hlx.tensor([1, 2])
    >>> hlx.clone(x).fill_(0).tolist(), x.tolist()
    ([0, 0], [1, 2])
    """
    return _hlx.clone(input)


@method
def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """Returns the tensor if its elements are in row-major order, else a copy in which they are.

    >>> hlx.tensor([[1, 2], [3, 4]]).T.contiguous().is_contiguous()
    True
    """
    return _hlx.contiguous(input)


@operation
def detach(input: Tensor) -> Tensor:
    """The same memory off the tape: no gradient passes.

    >>> hlx.ones(2, requires_grad=True).detach().requires_grad
    False
    """
    return _hlx.detach(input)
