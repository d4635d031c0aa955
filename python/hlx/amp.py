"""Mixed precision under PyTorch's names: a scaler of losses, and a context that changes nothing.

>>> w = hlx.tensor([1.0, 2.0], requires_grad=True)
>>> optimizer, scaler = hlx.optim.SGD([w], lr=0.5), hlx.amp.GradScaler()
>>> with hlx.autocast("vulkan", dtype=hlx.float16):
...     loss = (w * w).sum()
>>> scaler.scale(loss).backward()
>>> scaler.step(optimizer)
>>> scaler.update()
>>> w.detach()
tensor([0., 0.])
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Self

from hlx import _hlx, errors
from hlx._hlx import Tensor, dtype
from hlx._modes import no_grad

__all__ = ["GradScaler", "autocast"]


class autocast:
    """A context or decorator that changes nothing: operations compute in the types that their tensors have.

    It exists so that programs for PyTorch run as they are. Products of operands in 16 bits with sums in float32 are
    those of a device: `hlx.device("vulkan", arithmetic="fast")` for bfloat16, `"fast_f16"` for float16. For matrices of
    16 bits in memory convert the tensors (`x.to(hlx.float16)`), or read a language model with
    `hlx.load_model(.., dtype=hlx.bfloat16)`.

    >>> with hlx.autocast("cpu", dtype=hlx.bfloat16):
    ...     print((hlx.ones(2, 2) @ hlx.ones(2, 2)).dtype)
    hlx.float32
    """

    def __init__(
        self, device_type: str, dtype: dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise errors.TypeError(f"autocast: device_type is {device_type!r}, expected a text such as 'cpu'")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as it is."""

        @functools.wraps(function)
        def within(*arguments: Any, **keywords: Any) -> Any:
            return function(*arguments, **keywords)

        return within


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
