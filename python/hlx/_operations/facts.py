"""What is known of a tensor and of a type: sizes, kinds, promotion, limits."""

import builtins
import math
from typing import Any, NamedTuple, overload

from hlx import _hlx, errors
from hlx._operations._arguments import axis
from hlx._operations._register import attribute, function, method, operation
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
    Number,
    Tensor,
    dtype,
)
from hlx._size import Size


@overload
def size(input: Tensor, dim: None = None) -> Size: ...
@overload
def size(input: Tensor, dim: int) -> int: ...
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


@attribute("itemsize")
def bytes_of_element(input: Tensor) -> int:
    """The bytes of an element.

    >>> hlx.zeros(2).itemsize
    4
    """
    return input.dtype.itemsize


@attribute("nbytes")
def bytes_of_elements(input: Tensor) -> int:
    """The bytes of all elements.

    >>> hlx.zeros(2).nbytes
    8
    """
    return input.numel() * input.dtype.itemsize


@attribute("is_cpu")
def is_on_cpu(input: Tensor) -> bool:
    """Whether the tensor is on the CPU device.

    >>> hlx.zeros(2, device="cpu").is_cpu
    True
    """
    return input.device.type == "cpu"


@attribute("is_vulkan")
def is_on_vulkan(input: Tensor) -> bool:
    """Whether the tensor is on a Vulkan device.

    >>> hlx.zeros(2, device="cpu").is_vulkan
    False
    """
    return input.device.type == "vulkan"


@attribute("is_cuda", "is_sparse", "is_quantized", "is_mps")
def is_elsewhere(input: Tensor) -> bool:
    """False: there are no such tensors in HLX.

    >>> hlx.zeros(2).is_cuda
    False
    """
    return False


@method
def pin_memory(input: Tensor) -> Tensor:
    """The tensor itself: copies between devices go through pinned memory of HLX's own.

    >>> x = hlx.zeros(2)
    >>> x.pin_memory() is x
    True
    """
    return input


@method
def is_pinned(input: Tensor) -> bool:
    """False: HLX pins what it copies through, not the tensor.

    >>> hlx.zeros(2).is_pinned()
    False
    """
    return False


@method
def cuda(input: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    """Raises RuntimeError, as there is no CUDA device: `x.to("vulkan")` copies to a GPU.

    >>> try:
    ...     hlx.zeros(2).cuda()
    ... except hlx.errors.RuntimeError as error:
    ...     print(error)
    cuda: HLX has no CUDA device; use x.to("vulkan") or x.vulkan()
    """
    raise errors.RuntimeError('cuda: HLX has no CUDA device; use x.to("vulkan") or x.vulkan()')


@operation
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is other than 0; waits for the device.

    >>> hlx.is_nonzero(hlx.tensor([2]))
    True
    """
    if input.numel() != 1:
        raise errors.RuntimeError(f"is_nonzero: the tensor has shape {list(input.shape)}, expected one element")
    return bool(input.item())


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
    type = type or _hlx.default_dtype()
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
