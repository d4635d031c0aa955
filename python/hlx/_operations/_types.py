"""The types that the signatures of operations name, and the types of elements."""

from collections.abc import Sequence
from typing import TypeAlias

from hlx._hlx import Tensor, device, dtype

Number: TypeAlias = int | float | bool
Operand: TypeAlias = Tensor | int | float | bool
Shape: TypeAlias = Sequence[int]
Dims: TypeAlias = int | Sequence[int] | None
Device: TypeAlias = device | str | None

FLOAT32, FLOAT16, BFLOAT16 = dtype("float32"), dtype("float16"), dtype("bfloat16")
INT32, UINT32, INT8, UINT8, BOOL = dtype("int32"), dtype("uint32"), dtype("int8"), dtype("uint8"), dtype("bool")
INT16, INT64, FLOAT64 = dtype("int16"), dtype("int64"), dtype("float64")

__all__ = ["Device", "Dims", "Number", "Operand", "Shape", "Tensor", "device", "dtype"]
