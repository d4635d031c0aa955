"""Adagrad (Duchi, Hazan and Singer 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from hlx._hlx import Tensor
from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters


class Adagrad(NativeOptimizer):
    """Adagrad, as `torch.optim.Adagrad`: `s += g^2`, `p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)`.

    `maximize` and `differentiable` are refused, `foreach` and `fused` have no effect; `eps` is at least 2^-126.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.Adagrad([w], lr=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    _kind = "Adagrad"
    _buffers: ClassVar[dict[str, str]] = {"sum": "sum"}
    _settings = ("lr_decay", "eps", "initial_accumulator_value")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        _checks.refuse("Adagrad", maximize=maximize, differentiable=differentiable)
        defaults = {
            "lr": lr,
            "lr_decay": lr_decay,
            "eps": eps,
            "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value,
        }
        super().__init__(params, defaults)

    def _check_settings(self, group: Group) -> None:
        for name in ("lr_decay", "initial_accumulator_value"):
            _checks.at_least(f"Adagrad: {name}", group[name])
        _checks.epsilon("Adagrad: eps", group["eps"])

    def _load(self, state: Mapping[Any, dict[str, Any]], steps: int) -> None:
        # A parameter without a state begins with its accumulator, and not with zeros.
        fresh = {key: tensor for key, tensor in self._native.state().items()}
        whole: dict[Any, dict[str, Any]] = {}
        for name, parameter in self._parameters:
            begin: Tensor = fresh[f"sum/{name}"]
            whole[parameter] = {"sum": begin, **state.get(parameter, {})}
        super()._load(whole, steps)
