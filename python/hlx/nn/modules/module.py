"""`Module`, the base of all layers and models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from hlx import _hlx, errors
from hlx._hlx import Tensor, device, dtype
from hlx._modes import no_grad
from hlx._operations._types import FLOAT32
from hlx.nn.modules._calls import Called

__all__ = ["Module"]


class Module(Called):
    """The base of layers and models: a class of your own makes its layers in `__init__` and calls them in `forward`.

    Parameters, buffers and modules that are assigned to attributes are registered under the attributes' names.

    >>> class Net(hlx.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = hlx.nn.Linear(4, 8)
    ...         self.out = hlx.nn.Linear(8, 2, bias=False)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> net = Net()
    >>> net(hlx.ones(3, 4)).shape
    hlx.Size([3, 2])
    >>> list(net.state_dict())
    ['hidden.weight', 'hidden.bias', 'out.weight']
    """

    training: bool

    def __init__(self) -> None:
        super().__init__()
        self.training = True

    def train(self, mode: bool = True) -> Self:
        """Sets this module and all below it to training: dropout drops, and batch norm uses the batch."""
        if not isinstance(mode, bool):
            raise errors.ValueError(f"train: mode is {mode!r}, expected True or False")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """The same as `train(False)`."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets for all parameters whether they require a gradient."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or fills them with zeros."""
        for parameter in self.parameters():
            if parameter.grad is not None:
                parameter.grad = (
                    None if set_to_none else _hlx.zeros(parameter.device, list(parameter.shape), parameter.grad.dtype)
                )

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Calls a function with every module below, and then with this one."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def digest(self) -> str:
        """The SHA-256 over parameters and saved buffers, in the order of their names, as `hlx digest` states it.

        >>> model = hlx.nn.Linear(2, 2)
        >>> copied = hlx.nn.Linear(2, 2)
        >>> copied.load_state_dict(model.state_dict())
        <All keys matched successfully>
        >>> copied.digest() == model.digest()
        True
        """
        named: dict[str, Tensor] = dict(self.named_parameters())
        for prefix, module in self.named_modules():
            for name, buffer in module._buffers.items():
                if buffer is not None and name not in module._non_persistent_buffers_set:
                    named[f"{prefix}.{name}" if prefix else name] = buffer
        return _hlx.state_digest(named)

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        for module in self.children():
            module._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is not None:
                    _replace(parameter, fn)
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
        return self

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, converts those of floats to a type, or both, in place.

        `to(device)`, `to(dtype)`, `to(device, dtype)`, `to(tensor)`, and the keywords `device` and `dtype`.
        """
        place, kind = _destination(args, dict(kwargs))

        def moved(tensor: Tensor) -> Tensor:
            there = tensor if place is None else _hlx.to(tensor, place)
            return there if kind is None or not there.dtype.is_floating_point else _hlx.to_dtype(there, kind)

        return self._apply(moved)

    def cpu(self) -> Self:
        """Moves parameters and buffers to the CPU device."""
        return self.to("cpu")

    def vulkan(self, index: int | None = None) -> Self:
        """Moves parameters and buffers to a Vulkan device."""
        return self.to("vulkan" if index is None else f"vulkan:{index}")

    def type(self, dst_type: dtype) -> Self:
        """Converts all parameters and buffers to a type."""
        return self._apply(lambda tensor: _hlx.to_dtype(tensor, dst_type))

    def float(self) -> Self:
        """Converts parameters and buffers of floats to float32."""
        return self.to(dtype("float32"))

    def half(self) -> Self:
        """Converts parameters and buffers of floats to float16."""
        return self.to(dtype("float16"))

    def bfloat16(self) -> Self:
        """Converts parameters and buffers of floats to bfloat16."""
        return self.to(dtype("bfloat16"))

    def double(self) -> Self:
        """Is refused: HLX computes in float32."""
        return self.to(dtype("float64"))

    def share_memory(self) -> Self:
        """Is refused: processes do not share HLX's memory."""
        raise errors.NotImplementedError(
            f"share_memory of {type(self).__name__}: processes do not share memory; send the state_dict"
        )

    def extra_repr(self) -> str:
        """What stands in the parentheses of the module's representation."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = extra.split("\n") if extra else []
        below = [f"({name}): {_indented(repr(module))}" for name, module in self._modules.items()]
        if not below and len(lines) <= 1:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}(\n  " + "\n  ".join([*lines, *below]) + "\n)"


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def _replace(parameter: Tensor, fn: Callable[[Tensor], Tensor]) -> None:
    """Puts a function of a parameter in its place, and its gradient beside it; the object stays.

    The gradient of a parameter that becomes one of 16 bits is removed: the tape takes none of these.
    """
    requires_grad, gradient = parameter.requires_grad, parameter.grad
    held = _hlx.detach(parameter)
    made = fn(held)
    if made is held:
        return
    if gradient is not None:
        parameter.grad = None
    _hlx.become(parameter, made)
    if requires_grad:
        parameter.requires_grad_()
    if gradient is not None and made.dtype == FLOAT32:
        parameter.grad = _hlx.to_dtype(_hlx.to(_hlx.detach(gradient), made.device), FLOAT32)


def _destination(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[device | None, dtype | None]:
    place, kind = kwargs.pop("device", None), kwargs.pop("dtype", None)
    for ignored in ("non_blocking", "memory_format"):
        kwargs.pop(ignored, None)
    if kwargs:
        raise errors.TypeError(f"to: {next(iter(kwargs))} is no argument, expected a device, a dtype or a tensor")
    for value in args:
        if isinstance(value, dtype):
            kind = value
        elif isinstance(value, Tensor):
            place, kind = value.device, value.dtype
        elif isinstance(value, str | device):
            place = value
        elif value is not None and not isinstance(value, bool):
            raise errors.TypeError(f"to: found {type(value).__name__}, expected a device, a dtype or a tensor")
    if kind is not None and not kind.is_floating_point:
        raise errors.TypeError(f"to: dtype is {kind}, expected a type of floats")
    return (None if place is None else device(place)), kind
