"""Values from and to Python, NumPy, PyTorch and files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hlx import _hlx, errors
from hlx._hlx import Tensor, device, dtype

if TYPE_CHECKING:
    import numpy

Device = device | str | None


def _finished(made: Tensor, requires_grad: bool) -> Tensor:
    return made.requires_grad_() if requires_grad else made


def tensor(
    data: Any,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Makes a tensor of a copy of the data: numbers, nested sequences, arrays or another tensor.

    Python's floats make float32, its integers int32, truth values bool; arrays have their own type, but integers
    of 16 and 64 bits become int32 with a check, and float64 is refused unless a `dtype` is named. Raises
    ValueError for sequences of unequal lengths or an integer that does not fit.

    >>> hlx.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    >>> hlx.tensor([1.5, 2.0], dtype=hlx.float16).dtype
    hlx.float16
    """
    return _finished(_hlx.tensor(data, dtype, device), requires_grad)


def as_tensor(data: Any, dtype: dtype | None = None, device: Device = None) -> Tensor:
    """The tensor itself where the data is one of the type and device named, else a new tensor.

    >>> x = hlx.ones(2)
    >>> hlx.as_tensor(x) is x
    True
    """
    if not isinstance(data, Tensor):
        on_cpu = (_hlx.get_default_device() if device is None else _hlx.device(device)).type == "cpu"
        if dtype is None and on_cpu and type(data).__module__ == "numpy" and type(data).__name__ == "ndarray":
            return from_numpy(data)
        return _hlx.tensor(data, dtype, device)
    moved = data if device is None else _hlx.to(data, device)
    return moved if dtype is None else _hlx.to_dtype(moved, dtype)


def asarray(
    obj: Any,
    *,
    dtype: dtype | None = None,
    device: Device = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """As `as_tensor`; `copy=True` copies a tensor, too, and `copy=False` refuses what needs a copy.

    >>> hlx.asarray([1.0, 2.0])
    tensor([1., 2.])
    """
    if copy:
        return _finished(_hlx.tensor(obj, dtype, device), requires_grad)
    made = as_tensor(obj, dtype, device)
    if copy is False and made is not obj:
        raise errors.ValueError("asarray: copy=False is given, and the data needs a copy")
    return _finished(made, requires_grad)


def from_numpy(ndarray: numpy.ndarray) -> Tensor:
    """A tensor of a NumPy array, on the CPU, which shares the array's memory.

    It is copied where HLX cannot share it: elements that are not in row-major order, 16- and 64-bit integers,
    subnormal floats, a number of small elements that does not fill its last 4 bytes, and arrays that are read-only.

    >>> import numpy
    >>> a = numpy.arange(4, dtype=numpy.int32)
    >>> x = hlx.from_numpy(a)
    >>> a[0] = 7
    >>> x
    tensor([7, 1, 2, 3])
    """
    if ndarray.flags.writeable:
        return _hlx.from_dlpack(ndarray)
    return _hlx.tensor(ndarray, None, "cpu")


def numpy_of(self: Tensor, *, force: bool = False) -> numpy.ndarray:
    """The tensor as a NumPy array, which shares the memory of a tensor on the CPU.

    Raises TypeError for bfloat16, which NumPy has not, RuntimeError for a tensor that requires a gradient, and
    TypeError for a tensor of a GPU; `force=True` detaches and copies to the CPU.

    >>> hlx.ones(2).numpy().tolist()
    [1.0, 1.0]
    """
    import numpy

    source = self
    if force:
        source = _hlx.to(_hlx.detach(self), "cpu")
    if source.requires_grad:
        raise errors.RuntimeError("numpy: the tensor requires a gradient; use x.detach().numpy()")
    if source.device.type != "cpu":
        raise errors.TypeError("numpy: the tensor is on a GPU; use x.cpu().numpy()")
    if source.dtype == dtype("bfloat16"):
        raise errors.TypeError("numpy: NumPy has no bfloat16; use x.float().numpy()")
    return numpy.asarray(memoryview(source))


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
    """The tensor for NumPy's functions; a tensor of a GPU is copied to the CPU."""

    on_cpu = self.device.type == "cpu"
    if copy is False and not on_cpu:
        raise errors.ValueError("__array__: a tensor of a GPU needs a copy, and copy=False is given")
    array = numpy_of(self if on_cpu else _hlx.to(self, "cpu"))
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise errors.ValueError("__array__: another type needs a copy, and copy=False is given")
        return array.astype(dtype)
    return array.copy() if copy and on_cpu else array


def from_torch(tensor: Any, *, device: Device = None) -> Tensor:
    """A tensor of a copy of a PyTorch tensor, from any of its devices.

    >>> import torch
    >>> hlx.from_torch(torch.ones(2))
    tensor([1., 1.])
    """
    made = _hlx.tensor(tensor.detach().cpu(), None, device)
    return made.requires_grad_() if tensor.requires_grad else made


def to_torch(self: Tensor) -> Any:
    """The tensor as a PyTorch tensor on the CPU, which shares the memory of a tensor on the CPU.

    >>> import torch
    >>> hlx.ones(2).torch()
    tensor([1., 1.])
    """
    import torch

    source = _hlx.to(_hlx.detach(self), "cpu")
    return torch.from_dlpack(source).requires_grad_(self.requires_grad)


def save_file(tensors: Mapping[str, Tensor], filename: str | os.PathLike[str]) -> None:
    """Writes named tensors to a safetensors file.

    >>> hlx.save_file({"w": hlx.ones(2)}, "w.safetensors")
    >>> hlx.load_file("w.safetensors")
    {'w': tensor([1., 1.])}
    """
    data = _hlx.to_safetensors(dict(tensors))
    path = os.fspath(filename)
    # A reader never sees half a file.
    partial = f"{path}.{os.getpid()}.part"
    try:
        with open(partial, "wb") as file:
            file.write(data)
        os.replace(partial, path)
    except OSError as error:
        if os.path.exists(partial):
            os.unlink(partial)
        raise type(error)(error.errno, error.strerror, path) from None


def load_file(filename: str | os.PathLike[str], device: Device = None) -> dict[str, Tensor]:
    """Reads the tensors of a safetensors file, such as PyTorch's, by name.

    Integers of 64 bits become int32 with a check, float64 is rounded to float32.

    >>> hlx.save_file({"b": hlx.zeros(1)}, "b.safetensors")
    >>> list(hlx.load_file("b.safetensors"))
    ['b']
    """
    with open(filename, "rb") as file:
        data = file.read()
    try:
        return _hlx.from_safetensors(data, device)
    except errors.ValueError as error:
        raise errors.ValueError(f"{os.fspath(filename)}: {error}") from None


def rebuilt(data: bytes, device: str, requires_grad: bool) -> Tensor:
    """A tensor from its pickle: on the CPU where its device is not on this machine."""
    made = _hlx.from_safetensors(data, "cpu")["tensor"]
    if device != "cpu":
        try:
            made = _hlx.to(made, device)
        except errors.RuntimeError:
            pass
    return made.requires_grad_() if requires_grad else made


def generator_of(state: tuple[int, int, int]) -> _hlx.Generator:
    """A generator from its pickle."""
    made = _hlx.Generator()
    made.set_state(state)
    return made


def __reduce_ex__(self: Tensor, protocol: Any) -> Any:
    """What pickle stores: the values, the device and whether a gradient is required."""
    if self.grad_fn is not None:
        raise errors.RuntimeError("pickle: the tensor is the result of an operation on the tape; use x.detach()")
    data = _hlx.to_safetensors({"tensor": _hlx.detach(self)})
    return rebuilt, (data, str(self.device), self.requires_grad)


def __deepcopy__(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """A copy of the values; of leaves alone, as the copy has no history."""
    if self.grad_fn is not None:
        raise errors.RuntimeError("deepcopy: the tensor is the result of an operation on the tape; use x.detach()")
    made = _hlx.clone(_hlx.detach(self))
    if self.requires_grad:
        made.requires_grad_()
        if self.grad is not None:
            made.grad = _hlx.clone(_hlx.detach(self.grad))
    memo[id(self)] = made
    return made


METHODS = {
    "numpy": numpy_of,
    "torch": to_torch,
    "__array__": __array__,
    "__reduce_ex__": __reduce_ex__,
    "__deepcopy__": __deepcopy__,
}
