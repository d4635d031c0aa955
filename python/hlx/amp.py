"""Mixed precision under PyTorch's names: products of operands in 16 bits, and a scaler of losses.

>>> w = hlx.tensor([1.0, 2.0], requires_grad=True)
>>> optimizer, scaler = hlx.optim.SGD([w], lr=0.5), hlx.amp.GradScaler()
>>> with hlx.autocast("cpu", dtype=hlx.float16):
...     loss = w @ w
>>> scaler.scale(loss).backward()
>>> scaler.step(optimizer)
>>> scaler.update()
>>> w.detach()
tensor([0., 0.])
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from typing import Any, Self

from hlx import _hlx, errors
from hlx._hlx import Tensor, dtype
from hlx._modes import no_grad

__all__ = [
    "GradScaler",
    "autocast",
    "clear_autocast_cache",
    "get_autocast_dtype",
    "is_autocast_available",
    "is_autocast_cache_enabled",
    "is_autocast_enabled",
    "set_autocast_cache_enabled",
    "set_autocast_dtype",
    "set_autocast_enabled",
]


class _Modes(threading.local):
    """A thread's modes, by kind of device."""

    def __init__(self) -> None:
        self.enabled = {"cpu": False, "vulkan": False}
        self.types = {"cpu": dtype("bfloat16"), "vulkan": dtype("float16")}
        self.caches = True


_modes = _Modes()
#: PyTorch's names of GPUs, which are Vulkan's here.
_GPUS = ("vulkan", "cuda", "hip", "mps", "xpu")


def _kind(operation: str, device_type: object) -> str:
    """The kind of device that a name stands for: `cpu` or `vulkan`."""
    if not isinstance(device_type, str):
        raise errors.TypeError(f"{operation}: device_type is {device_type!r}, expected a text such as 'cpu'")
    name = device_type.split(":")[0]
    if name != "cpu" and name not in _GPUS:
        raise errors.RuntimeError(f"{operation}: device_type is {device_type!r}, expected 'cpu' or 'vulkan'")
    return "cpu" if name == "cpu" else "vulkan"


def _set(kind: str, enabled: bool, of: dtype) -> None:
    """Sets a mode, for operations too."""
    _hlx.set_autocast(kind == "cpu", of if enabled else None)
    _modes.enabled[kind], _modes.types[kind] = enabled, of


class autocast:
    """Computes products with operands in 16 bits and sums in float32, as `torch.autocast`; a context or a decorator.

    Within it linear layers, `matmul`, `bmm` and `einsum`, convolutions, attention and experts on devices of this type
    round their operands to `dtype` and sum in float32: the arithmetics `fast` (bfloat16) and `fast_f16` (float16),
    whatever arithmetic the device was opened with. Everything else (norms, softmax, losses, optimizers) computes as
    outside. Unlike PyTorch's, results are float32: only operands are rounded, and no tensor changes its type. A
    backward pass computes each operation as its forward pass did, wherever `backward()` is called.

    Contexts nest, `enabled=False` within one computes in the arithmetic of the device again, and other threads know
    nothing of it. `dtype` is by default that of `get_autocast_dtype`: float16 on GPUs, bfloat16 on the CPU, as in
    PyTorch. PyTorch's names of GPUs ("cuda") stand for "vulkan". A GPU without matrices of the type raises RuntimeError
    at the first product. `cache_enabled` changes no result.

    >>> x = hlx.tensor([[1.0, 1.001953125]])
    >>> with hlx.autocast("cpu", dtype=hlx.bfloat16):
    ...     print((x @ x.T).item(), (x @ x.T).dtype)
    2.0 hlx.float32
    """

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device: str = _kind("autocast", device_type)
        self.fast_dtype: _hlx.dtype = _modes.types[self.device] if dtype is None else dtype
        if enabled and str(self.fast_dtype) not in ("hlx.float16", "hlx.bfloat16"):
            raise errors.ValueError(f"autocast: dtype is {self.fast_dtype}, expected float16 or bfloat16")
        self._enabled, self._caches = bool(enabled), cache_enabled
        self._before: list[tuple[bool, _hlx.dtype, bool]] = []

    def __enter__(self) -> Self:
        kind = self.device
        self._before.append((_modes.enabled[kind], _modes.types[kind], _modes.caches))
        # Where it is off its type is of no account.
        _set(kind, self._enabled, self.fast_dtype if self._enabled else _modes.types[kind])
        if self._caches is not None:
            _modes.caches = self._caches
        return self

    def __exit__(self, *exception: object) -> None:
        enabled, of, _modes.caches = self._before.pop()
        _set(self.device, enabled, of)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function within the context."""

        @functools.wraps(function)
        def within(*arguments: Any, **keywords: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self._enabled, self._caches):
                return function(*arguments, **keywords)

        return within


def is_autocast_enabled(device_type: str = "vulkan") -> bool:
    """Whether this thread is within an `autocast` for devices of this type.

    >>> with hlx.autocast("cpu"):
    ...     print(hlx.is_autocast_enabled("cpu"), hlx.is_autocast_enabled())
    True False
    """
    return _modes.enabled[_kind("is_autocast_enabled", device_type)]


def set_autocast_enabled(device_type: str, enabled: bool) -> None:
    """Switches `autocast` on or off for this thread, as a context does.

    >>> hlx.set_autocast_enabled("cpu", True)
    >>> hlx.is_autocast_enabled("cpu")
    True
    >>> hlx.set_autocast_enabled("cpu", False)
    """
    kind = _kind("set_autocast_enabled", device_type)
    _set(kind, bool(enabled), _modes.types[kind])


def get_autocast_dtype(device_type: str) -> dtype:
    """The type of operands within `autocast`: that of the innermost one, or that of one without a type.

    >>> hlx.get_autocast_dtype("cpu")
    hlx.bfloat16
    """
    return _modes.types[_kind("get_autocast_dtype", device_type)]


def set_autocast_dtype(device_type: str, dtype: dtype) -> None:
    """Sets the type of operands within `autocast`, for this thread: float16 or bfloat16.

    >>> hlx.set_autocast_dtype("cpu", hlx.float16)
    >>> hlx.get_autocast_dtype("cpu")
    hlx.float16
    >>> hlx.set_autocast_dtype("cpu", hlx.bfloat16)
    """
    if str(dtype) not in ("hlx.float16", "hlx.bfloat16"):
        raise errors.ValueError(f"set_autocast_dtype: dtype is {dtype}, expected float16 or bfloat16")
    kind = _kind("set_autocast_dtype", device_type)
    _set(kind, _modes.enabled[kind], dtype)


def is_autocast_cache_enabled() -> bool:
    """What `cache_enabled` says on this thread; it changes no result, and no copies of weights are held.

    >>> hlx.is_autocast_cache_enabled()
    True
    """
    return _modes.caches


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Sets what `is_autocast_cache_enabled` says.

    >>> hlx.set_autocast_cache_enabled(True)
    """
    _modes.caches = bool(enabled)


def clear_autocast_cache() -> None:
    """Does nothing: no copies of weights are held.

    >>> hlx.clear_autocast_cache()
    """


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` knows devices of this type, as `torch.amp.is_autocast_available`.

    >>> hlx.amp.is_autocast_available("vulkan"), hlx.amp.is_autocast_available("tpu")
    (True, False)
    """
    return isinstance(device_type, str) and device_type in ("cpu", *_GPUS)


class GradScaler:
    """Multiplies losses by a factor, so that small gradients are not lost in 16 bits, and divides the gradients by it.

    A step whose gradients are not finite is left out, and the factor is multiplied by `backoff_factor`; after
    `growth_interval` steps in a row with finite ones it is multiplied by `growth_factor`. Factors that are powers of
    two change no bit of a gradient that has no over- or underflow. With `enabled=False` it does nothing, and `step` is
    the optimizer's. `step` waits for the device.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if not isinstance(device, str):
            raise errors.TypeError(f"GradScaler: device is {device!r}, expected a text; the scaler works on any device")
        for name, value, fits in (
            ("init_scale", init_scale, init_scale > 0 and math.isfinite(init_scale)),
            ("growth_factor", growth_factor, growth_factor > 1),
            ("backoff_factor", backoff_factor, 0 < backoff_factor < 1),
            ("growth_interval", growth_interval, growth_interval >= 1),
        ):
            if not fits:
                raise errors.ValueError(f"GradScaler: {name} is {value}, expected {_EXPECTED[name]}")
        self._enabled, self._scale = bool(enabled), float(init_scale)
        self._growth_factor, self._backoff_factor = float(growth_factor), float(backoff_factor)
        self._growth_interval, self._good_steps = int(growth_interval), 0
        #: Since the last update, by optimizer: whether its gradients are finite. The optimizers that have stepped.
        self._finite: dict[int, bool] = {}
        self._stepped: set[int] = set()

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self._enabled

    def get_scale(self) -> float:
        """The factor; 1 if it is not enabled."""
        return self._scale if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """A loss times the factor, or each of a list or tuple."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, list | tuple):
            return type(outputs)([self.scale(output) for output in outputs])
        raise errors.TypeError(f"scale: found {type(outputs).__name__}, expected tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divides the gradients of an optimizer's parameters by the factor, such as before they are clipped.

        Raises RuntimeError where that was done since the last `update`.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._finite:
            raise errors.RuntimeError("unscale_: the gradients of this optimizer are unscaled since the last update()")
        if id(optimizer) in self._stepped:
            raise errors.RuntimeError("unscale_: the optimizer has stepped since the last update()")
        sums = []
        with no_grad():
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        parameter.grad.mul_(1.0 / self._scale)
                        # 0 times a number that is not finite is NaN.
                        sums.append((parameter.grad * 0.0).sum().reshape(1).to(parameter.device))
            if not sums:
                raise errors.RuntimeError("unscale_: no parameter of the optimizer has a gradient")
            self._finite[id(optimizer)] = all(
                math.isfinite(total) for group in _by_device(sums) for total in _hlx.cat(group, 0).tolist()
            )

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Calls the optimizer's `step` with gradients divided by the factor, unless one of them is not finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs or args:
            raise errors.NotImplementedError("step: a closure is given, which GradScaler does not take")
        if id(optimizer) in self._stepped:
            raise errors.RuntimeError("step: the optimizer has stepped since the last update()")
        if id(optimizer) not in self._finite:
            self.unscale_(optimizer)
        self._stepped.add(id(optimizer))
        return optimizer.step(**kwargs) if self._finite[id(optimizer)] else None

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Changes the factor by what the steps since the last update have found, or to `new_scale`."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._finite:
            raise errors.RuntimeError("update: no gradient was unscaled since the last update()")
        elif not all(self._finite.values()):
            self._scale *= self._backoff_factor
            self._good_steps = 0
        else:
            self._good_steps += 1
            if self._good_steps == self._growth_interval:
                grown = self._scale * self._growth_factor
                self._scale = grown if grown <= _LARGEST else self._scale
                self._good_steps = 0
        self._finite.clear()
        self._stepped.clear()

    def get_growth_factor(self) -> float:
        """What the factor is multiplied by after `growth_interval` good steps."""
        return self._growth_factor

    def get_backoff_factor(self) -> float:
        """What the factor is multiplied by after a step that was left out."""
        return self._backoff_factor

    def get_growth_interval(self) -> int:
        """The good steps in a row after which the factor grows."""
        return self._growth_interval

    def state_dict(self) -> dict[str, Any]:
        """The numbers, under PyTorch's names; empty if it is not enabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._good_steps,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned. Raises KeyError for a name that is missing."""
        if not self._enabled:
            return
        for name in ("scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"):
            if name not in state_dict:
                raise errors.KeyError(f"load_state_dict: {name} is missing")
        self._scale, self._growth_factor = float(state_dict["scale"]), float(state_dict["growth_factor"])
        self._backoff_factor = float(state_dict["backoff_factor"])
        self._growth_interval, self._good_steps = state_dict["growth_interval"], state_dict["_growth_tracker"]


_EXPECTED = {
    "init_scale": "a positive number",
    "growth_factor": "more than 1",
    "backoff_factor": "more than 0 and less than 1",
    "growth_interval": "at least 1",
}
#: Beyond it a scaled gradient of 1 is infinite.
_LARGEST = 2.0**127


def _by_device(tensors: list[Tensor]) -> list[list[Tensor]]:
    """The tensors in one list per device."""
    groups: dict[str, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(str(tensor.device), []).append(tensor)
    return list(groups.values())
