"""RMSprop (Hinton 2012, lecture 6)."""

from __future__ import annotations

from typing import ClassVar

from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters


class RMSprop(NativeOptimizer):
    """RMSprop, as `torch.optim.RMSprop`: `s = alpha s + (1 - alpha) g^2`, `p -= lr g / (sqrt(s) + eps)`.

    `centered` divides by the root of the variance instead, where one that rounding makes negative counts as 0;
    `momentum` sums the directions. `maximize` and `differentiable` are refused, `foreach` and `capturable` have no
    effect; `eps` is at least 2^-126.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.RMSprop([w], lr=0.5, alpha=0.75)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0., -2.])
    """

    _kind = "RMSprop"
    _buffers: ClassVar[dict[str, str]] = {"square": "square_avg", "momentum": "momentum_buffer", "mean": "grad_avg"}
    _settings = ("alpha", "eps", "momentum", "centered")
    _shaping = ("momentum", "centered")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        _checks.refuse("RMSprop", maximize=maximize, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "alpha": alpha,
            "eps": eps,
            "centered": centered,
            "weight_decay": weight_decay,
        }
        super().__init__(params, defaults)

    def _check_settings(self, group: Group) -> None:
        _checks.at_least("RMSprop: alpha", group["alpha"], below=1.0)
        _checks.at_least("RMSprop: momentum", group["momentum"])
        _checks.epsilon("RMSprop: eps", group["eps"])
