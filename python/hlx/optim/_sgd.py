"""Gradient descent, with or without momentum."""

from __future__ import annotations

from typing import ClassVar

from hlx import errors
from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters


class SGD(NativeOptimizer):
    """Gradient descent, as `torch.optim.SGD`: `m = momentum m + (1 - dampening) d`, `p -= lr m`.

    `d` is `g + weight_decay p`. The first step has `m = d`; `nesterov` steps along `d + momentum m`. `maximize` and
    `differentiable` are refused, `foreach` and `fused` have no effect.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.SGD([w], lr=0.5, momentum=0.5)
    >>> for _ in range(2):
    ...     optimizer.zero_grad()
    ...     w.sum().backward()
    ...     optimizer.step()
    >>> w.detach()
    tensor([-0.2500, -2.2500])
    """

    _kind = "SGD"
    _buffers: ClassVar[dict[str, str]] = {"momentum": "momentum_buffer"}
    _settings = ("momentum", "dampening", "nesterov")
    _shaping = ("momentum",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _checks.refuse("SGD", maximize=maximize, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "dampening": dampening,
            "weight_decay": weight_decay,
            "nesterov": nesterov,
        }
        super().__init__(params, defaults)

    def _check_settings(self, group: Group) -> None:
        momentum = _checks.at_least("SGD: momentum", group["momentum"])
        dampening = _checks.at_least("SGD: dampening", group["dampening"])
        if group["nesterov"] and (momentum == 0 or dampening != 0):
            raise errors.ValueError(
                f"SGD: nesterov with momentum {momentum:g} and dampening {dampening:g}, "
                "expected a momentum and no dampening"
            )
