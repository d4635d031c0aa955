"""Conversions between types and devices, copies, and what is known of a tensor or a type."""

import builtins
import math
from typing import Any, NamedTuple

from hlx import _hlx, errors
from hlx._operations._arguments import axis
from hlx._operations._register import function, method, operation
from hlx._operations._types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT32,
    Device,
    Number,
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
    """Copies to a Vulkan device, or returns the tensor if it is there."""
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


@method
def size(input: Tensor, dim: int | None = None) -> Any:
    """The shape, or one extent.

    >>> hlx.zeros(2, 3).size(1)
    3
    """
    return input.shape if dim is None else input.shape[axis("size", dim, input.ndim)]


@method("dim", "ndimension")
def rank(input: Tensor) -> int:
    """The number of dimensions.

    >>> hlx.zeros(2, 3).dim()
    2
    """
    return input.ndim


@function
def numel(input: Tensor) -> int:
    """The number of elements.

    >>> hlx.numel(hlx.zeros(2, 3))
    6
    """
    return input.numel()


@method("nelement")
def n_elements(input: Tensor) -> int:
    """The number of elements.

    >>> hlx.zeros(2, 3).nelement()
    6
    """
    return input.numel()


@method
def element_size(input: Tensor) -> int:
    """The bytes of an element.

    >>> hlx.zeros(2).element_size()
    4
    """
    return input.dtype.itemsize


@operation
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floats.

    >>> hlx.is_floating_point(hlx.tensor([1]))
    False
    """
    return input.dtype.is_floating_point


@operation
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex: never.

    >>> hlx.is_complex(hlx.tensor([1.0]))
    False
    """
    return False


@operation
def is_signed(input: Tensor) -> bool:
    """Whether the type of the elements has negative numbers.

    >>> hlx.tensor([1]).is_signed()
    True
    """
    return input.dtype.is_signed


@operation
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape.

    >>> hlx.is_same_size(hlx.zeros(2), hlx.ones(2))
    True
    """
    return input.shape == other.shape


@function
def is_tensor(obj: Any) -> bool:
    """Whether something is a tensor.

    >>> hlx.is_tensor([1.0])
    False
    """
    return isinstance(obj, Tensor)


_KINDS = {BOOL: 0, INT8: 1, UINT8: 1, INT16: 1, INT32: 1, UINT32: 1, INT64: 1, FLOAT16: 2, BFLOAT16: 2, FLOAT32: 2}


def _kind(type: dtype) -> int:
    if type not in _KINDS:
        raise errors.TypeError(f"hlx has no {type}; use hlx.float32")
    return _KINDS[type]


@function
def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The type in which operands of two types are computed.

    >>> hlx.promote_types(hlx.float16, hlx.int32)
    hlx.float16
    """
    one, two = _kind(type1), _kind(type2)
    if one != two:
        return type1 if one > two else type2
    if type1 == type2:
        return type1
    if one == 2:
        return FLOAT32
    return UINT32 if {type1, type2} == {UINT8, UINT32} else INT32


@function
def result_type(tensor1: Tensor | Number, tensor2: Tensor | Number) -> dtype:
    """The type of an operation's result: numbers, and tensors without dimensions, decide the kind alone.

    >>> hlx.result_type(hlx.tensor([1], dtype=hlx.int8), 2)
    hlx.int8
    """
    types = []
    for operand in (tensor1, tensor2):
        if isinstance(operand, Tensor):
            types.append((operand.dtype, 1 if operand.ndim == 0 else 2))
        elif isinstance(operand, builtins.bool):
            types.append((BOOL, 0))
        else:
            types.append((INT32 if isinstance(operand, builtins.int) else FLOAT32, 0))
    (one, rank_one), (two, rank_two) = types
    if _kind(one) == _kind(two) and rank_one != rank_two:
        return one if rank_one > rank_two else two
    return promote_types(one, two)


@function
def can_cast(from_: dtype, to: dtype) -> bool:
    """Whether values of a type may be stored in another one: no float in an integer, no number in a bool.

    >>> hlx.can_cast(hlx.float32, hlx.int32)
    False
    """
    return _kind(from_) <= _kind(to)


class _FloatLimits(NamedTuple):
    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str


class _IntegerLimits(NamedTuple):
    bits: int
    max: int
    min: int
    dtype: str


@function
def finfo(type: dtype | None = None) -> _FloatLimits:
    """The limits of a float type: bits, eps, max, min, tiny, smallest_normal, resolution.

    >>> hlx.finfo(hlx.float32).bits
    32
    """
    type = type or FLOAT32
    # Digits of the significand, and the largest and the smallest exponent.
    digits = {FLOAT32: (24, 128, -126, 1e-6), FLOAT16: (11, 16, -14, 1e-3), BFLOAT16: (8, 128, -126, 1e-2)}
    if type not in digits:
        raise errors.TypeError(f"finfo: the type is {type}, expected a float type")
    significand, largest, smallest, resolution = digits[type]
    top = math.ldexp(2 - 2.0 ** (1 - significand), largest - 1)
    normal = math.ldexp(1.0, smallest)
    name = str(type).removeprefix("hlx.")
    return _FloatLimits(type.itemsize * 8, 2.0 ** (1 - significand), top, -top, normal, normal, resolution, name)


@function
def iinfo(type: dtype) -> _IntegerLimits:
    """The limits of an integer type: bits, max, min.

    >>> hlx.iinfo(hlx.int8).max
    127
    """
    if type == BOOL or type.is_floating_point:
        raise errors.TypeError(f"iinfo: the type is {type}, expected an integer type")
    bits = type.itemsize * 8
    low = -(2 ** (bits - 1)) if type.is_signed else 0
    return _IntegerLimits(bits, low + 2**bits - 1, low, str(type).removeprefix("hlx."))


@function
def get_default_dtype() -> dtype:
    """The type of new floats where none is named: float32.

    >>> hlx.get_default_dtype()
    hlx.float32
    """
    return FLOAT32


@function
def set_default_dtype(d: dtype) -> None:
    """Accepts float32 and refuses every other type.

    >>> hlx.set_default_dtype(hlx.float32)
    """
    if d != FLOAT32:
        raise errors.ValueError(f"set_default_dtype: the type is {d}, expected hlx.float32")
