"""The standard's data types that HLX has, their kinds, and the type of a result."""

from __future__ import annotations

from typing import NamedTuple

import hlx
from hlx import Tensor, errors

Dtype = hlx.dtype
Number = int | float | bool
Operand = Tensor | Number

BOOL = {"bool": hlx.bool}
SIGNED = {"int8": hlx.int8, "int32": hlx.int32}
UNSIGNED = {"uint8": hlx.uint8, "uint32": hlx.uint32}
REAL = {"float32": hlx.float32}
#: The kinds of the standard; those of complex numbers are empty.
KINDS = {
    "bool": BOOL,
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": SIGNED | UNSIGNED,
    "real floating": REAL,
    "complex floating": {},
    "numeric": SIGNED | UNSIGNED | REAL,
}
#: HLX's types beyond the standard; they are of the kind "real floating" for `isdtype`.
HALVES = (hlx.float16, hlx.bfloat16)

DEFAULT_REAL = hlx.float32
DEFAULT_INTEGER = hlx.int32


class finfo_object(NamedTuple):
    """What `finfo` returns."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Dtype


class iinfo_object(NamedTuple):
    """What `iinfo` returns."""

    bits: int
    max: int
    min: int
    dtype: Dtype


def is_real(dtype: Dtype) -> bool:
    return dtype in REAL.values() or dtype in HALVES


def is_unsigned(dtype: Dtype) -> bool:
    return dtype in UNSIGNED.values()


def is_integral(dtype: Dtype) -> bool:
    return dtype in KINDS["integral"].values()


def _kind(dtype: Dtype) -> int:
    return 2 if is_real(dtype) else 1 if is_integral(dtype) else 0


def _joined(a: Dtype, b: Dtype) -> Dtype:
    """The type of a result of two types.

    The standard leaves pairs of different kinds open; here floats win over integers and integers over
    bool, as in PyTorch. Its result for int8 and uint8 (int16) and for signed types and uint32 (int64)
    does not exist in HLX, which computes in int32.
    """
    if a == b:
        return a
    if _kind(a) != _kind(b):
        return a if _kind(a) > _kind(b) else b
    if is_real(a):
        return hlx.float32
    return hlx.uint32 if is_unsigned(a) and is_unsigned(b) else hlx.int32


def _with_number(dtype: Dtype, number: Number) -> Dtype:
    """The type of a result of an array and a Python number, which only decides the kind."""
    if isinstance(number, float) and not is_real(dtype):
        return DEFAULT_REAL
    if isinstance(number, int) and not isinstance(number, bool) and dtype == hlx.bool:
        return DEFAULT_INTEGER
    return dtype


def result_type(*arrays_and_dtypes: Tensor | Number | Dtype) -> Dtype:
    """Returns the type of a result of arrays, types and Python numbers.

    An array without dimensions counts in full, unlike in `hlx.result_type`. An array or a type is needed.
    """
    found: Dtype | None = None
    numbers: list[Number] = []
    for item in arrays_and_dtypes:
        if isinstance(item, (bool, int, float)):
            numbers.append(item)
            continue
        dtype = item.dtype if isinstance(item, Tensor) else item
        if not isinstance(dtype, Dtype):
            raise errors.TypeError(f"result_type: {type(item).__name__} is no array, data type or number")
        found = dtype if found is None else _joined(found, dtype)
    if found is None:
        raise errors.ValueError("result_type: expected at least one array or data type")
    for number in numbers:
        found = _with_number(found, number)
    return found


def as_array(value: Operand, dtype: Dtype, device: hlx.device) -> Tensor:
    """An operand as a tensor of a type; a number becomes a tensor without dimensions."""
    if isinstance(value, Tensor):
        return value if value.dtype == dtype else value.to(dtype)
    return hlx.tensor(value, dtype=dtype, device=device)


def operands(op: str, x1: Operand, x2: Operand) -> tuple[Tensor, Tensor]:
    """Two operands in their joint type; one of them must be an array."""
    for value in (x1, x2):
        if not isinstance(value, (Tensor, bool, int, float)):
            raise errors.TypeError(f"{op}: an operand is of type {type(value).__name__}, expected an array or a number")
    arrays = [x for x in (x1, x2) if isinstance(x, Tensor)]
    if not arrays:
        raise errors.TypeError(f"{op}: both operands are numbers, expected at least one array")
    dtype = result_type(x1, x2)
    return as_array(x1, dtype, arrays[0].device), as_array(x2, dtype, arrays[0].device)


def astype(x: Tensor, dtype: Dtype, /, *, copy: bool = True, device: hlx.device | None = None) -> Tensor:
    """Converts an array. With `copy=False` an array that has the type already is returned itself."""
    moved = x if device is None else x.to(device)
    if moved.dtype != dtype:
        return moved.to(dtype)
    return moved.clone() if copy and moved is x else moved


def can_cast(from_: Dtype | Tensor, to: Dtype, /) -> bool:
    """Tells whether the promotion rules lead from one type to another."""
    dtype = from_.dtype if isinstance(from_, Tensor) else from_
    if _kind(dtype) != _kind(to):
        return False
    # int32 does not hold uint32, although results of both are int32.
    return dtype == to or (dtype != hlx.uint32 and _joined(dtype, to) == to)


def finfo(type: Dtype | Tensor, /) -> finfo_object:
    """Returns the limits of a floating-point type."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    limits = hlx.finfo(dtype)
    return finfo_object(limits.bits, limits.eps, limits.max, limits.min, limits.tiny, dtype)


def iinfo(type: Dtype | Tensor, /) -> iinfo_object:
    """Returns the limits of an integer type."""
    dtype = type.dtype if isinstance(type, Tensor) else type
    limits = hlx.iinfo(dtype)
    return iinfo_object(limits.bits, limits.max, limits.min, dtype)


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Tells whether a type is of a kind, another type, or one of several."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if not isinstance(kind, str):
        return bool(dtype == kind)
    if kind not in KINDS:
        raise errors.ValueError(f"isdtype: no kind {kind!r}, expected one of {', '.join(KINDS)}")
    return dtype in KINDS[kind].values() or (kind in ("real floating", "numeric") and dtype in HALVES)
