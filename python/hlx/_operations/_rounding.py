"""Operations of 16 bits that are made of others: computed in f32 and rounded once, like HLX's own."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from hlx import _hlx
from hlx._operations._types import BFLOAT16, FLOAT16, FLOAT32, Tensor, dtype

Function = TypeVar("Function", bound=Callable[..., Any])


def _tensors(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, list | tuple):
        return [tensor for value in values for tensor in _tensors(value)]
    return []


def _widened(value: Any) -> Any:
    if isinstance(value, Tensor):
        return _hlx.to_dtype(value, FLOAT32) if value.dtype in (FLOAT16, BFLOAT16) else value
    if isinstance(value, list | tuple):
        return [_widened(item) for item in value]
    return value


def _rounded(value: Any, kind: dtype) -> Any:
    if isinstance(value, Tensor):
        return _hlx.to_dtype(value, kind) if value.dtype == FLOAT32 else value
    if isinstance(value, tuple):
        rounded = [_rounded(item, kind) for item in value]
        return type(value)(*rounded) if hasattr(value, "_fields") else tuple(rounded)
    return value


def _joint(tensors: list[Tensor]) -> dtype:
    """The type of the floats among operands: tensors without dimensions count if there are no others."""
    floats = [tensor for tensor in tensors if tensor.dtype.is_floating_point]
    deciding = [tensor.dtype for tensor in floats if tensor.ndim] or [tensor.dtype for tensor in floats]
    return deciding[0] if all(kind == deciding[0] for kind in deciding) else FLOAT32


def rounded_once(function: Function) -> Function:
    """Widens operands of 16 bits, and rounds the results to the type that they have together."""

    @functools.wraps(function)
    def computed(*arguments: Any, **keywords: Any) -> Any:
        tensors = _tensors([*arguments, *keywords.values()])
        if not any(tensor.dtype in (FLOAT16, BFLOAT16) for tensor in tensors):
            return function(*arguments, **keywords)
        named = {name: _widened(value) for name, value in keywords.items()}
        return _rounded(function(*_widened(arguments), **named), _joint(tensors))

    return computed  # type: ignore[return-value]
