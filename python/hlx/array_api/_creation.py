"""Arrays from values, rules and other libraries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import hlx
from hlx import Tensor, errors

from ._dtypes import DEFAULT_INTEGER, DEFAULT_REAL, Dtype, Number, astype

Device = hlx.device | None


def _sizes(shape: int | Sequence[int]) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _dtype_of(*values: Number) -> Dtype:
    """The default type that holds Python numbers."""
    if all(isinstance(value, bool) for value in values):
        return hlx.bool
    return DEFAULT_REAL if any(isinstance(value, float) for value in values) else DEFAULT_INTEGER


def arange(
    start: int | float,
    /,
    stop: int | float | None = None,
    step: int | float = 1,
    *,
    dtype: Dtype | None = None,
    device: Device = None,
) -> Tensor:
    """Returns start, start + step, ... below stop."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = _dtype_of(start, stop, step)
    # A step away from the end gives an empty array, where PyTorch raises an error.
    if (stop - start) * step <= 0:
        return hlx.zeros((0,), dtype=dtype, device=device)
    return hlx.arange(start, stop, step, dtype=dtype, device=device)


def asarray(obj: Any, /, *, dtype: Dtype | None = None, device: Device = None, copy: bool | None = None) -> Tensor:
    """Returns an array of numbers, nested sequences, arrays, or an object with the buffer protocol.

    With `copy=False` an array that would have to be copied is an error.
    """
    if isinstance(obj, Tensor):
        same = (dtype is None or dtype == obj.dtype) and (device is None or hlx.device(device) == obj.device)
        if copy is False and not same:
            raise errors.ValueError("asarray: copy is False, but another type or device needs a copy")
        return astype(obj, obj.dtype if dtype is None else dtype, copy=bool(copy), device=device)
    if copy is False:
        if hasattr(obj, "__dlpack__"):
            return from_dlpack(obj, device=device, copy=False)
        raise errors.ValueError(f"asarray: copy is False, but {type(obj).__name__} has no memory to share")
    return hlx.tensor(obj, dtype=dtype, device=device)


def empty(shape: int | tuple[int, ...], *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array of zeros: HLX returns no memory that nothing has written."""
    return zeros(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array of zeros with the shape of another one."""
    return zeros_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Dtype | None = None, device: Device = None
) -> Tensor:
    """Returns a matrix with ones on its k-th diagonal."""
    n_cols = n_rows if n_cols is None else n_cols
    rows = hlx.arange(n_rows, dtype=hlx.int32, device=device).reshape(n_rows, 1)
    cols = hlx.arange(n_cols, dtype=hlx.int32, device=device)
    # A diagonal outside of the matrix may be further away than int32 reaches.
    k = max(-n_rows, min(k, n_cols))
    return hlx.eq(cols - rows, k).to(DEFAULT_REAL if dtype is None else dtype)


def from_dlpack(x: object, /, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """Returns an array that shares the memory of another library's array where it can."""
    return hlx.from_dlpack(x, device=device, copy=copy)


def full(
    shape: int | tuple[int, ...], fill_value: Number, *, dtype: Dtype | None = None, device: Device = None
) -> Tensor:
    """Returns an array in which every element is `fill_value`."""
    dtype = _dtype_of(fill_value) if dtype is None else dtype
    return hlx.tensor(fill_value, dtype=dtype, device=device).expand(_sizes(shape)).clone()


def full_like(x: Tensor, /, fill_value: Number, *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array with the shape of another one in which every element is `fill_value`."""
    return full(tuple(x.shape), fill_value, dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def linspace(
    start: int | float,
    stop: int | float,
    /,
    num: int,
    *,
    dtype: Dtype | None = None,
    device: Device = None,
    endpoint: bool = True,
) -> Tensor:
    """Returns `num` evenly spaced numbers from start to stop; without `endpoint` stop is left out."""
    dtype = DEFAULT_REAL if dtype is None else dtype
    values = hlx.linspace(start, stop, num if endpoint else num + 1, device=device)
    return astype(values if endpoint else values[:num], dtype, copy=False)


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid, one array per axis."""
    if indexing not in ("xy", "ij"):
        raise errors.ValueError(f"meshgrid: indexing is {indexing!r}, expected 'xy' or 'ij'")
    n = len(arrays)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else list(range(n))
    shape = [math.prod(arrays[i].shape) for i in order]
    grids: list[Tensor] = []
    for i, x in enumerate(arrays):
        place = order.index(i)
        aligned = x.reshape([shape[place] if axis == place else 1 for axis in range(n)])
        grids.append(aligned.expand(shape).clone())
    return tuple(grids)


def ones(shape: int | tuple[int, ...], *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array of ones."""
    return hlx.ones(_sizes(shape), dtype=DEFAULT_REAL if dtype is None else dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array of ones with the shape of another one."""
    return ones(tuple(x.shape), dtype=x.dtype if dtype is None else dtype, device=device or x.device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the elements on and below the k-th diagonal of each matrix, zeros elsewhere."""
    return hlx.tril(x, k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Returns the elements on and above the k-th diagonal of each matrix, zeros elsewhere."""
    return hlx.triu(x, k)


def zeros(shape: int | tuple[int, ...], *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array of zeros."""
    return hlx.zeros(_sizes(shape), dtype=DEFAULT_REAL if dtype is None else dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: Dtype | None = None, device: Device = None) -> Tensor:
    """Returns an array of zeros with the shape of another one."""
    return zeros(tuple(x.shape), dtype=x.dtype if dtype is None else dtype, device=device or x.device)
