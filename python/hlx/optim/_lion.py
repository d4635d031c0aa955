"""Lion (Chen et al. 2023)."""

from __future__ import annotations

from typing import ClassVar

from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters


class Lion(NativeOptimizer):
    """Steps of one size along the sign of a mean of gradients: algorithm 2 of Chen et al. 2023; PyTorch has none.

    `u = beta1 m + (1 - beta1) g`, `m = beta2 m + (1 - beta2) g`, `p = (1 - lr weight_decay) p - lr sign(u)`. Its rate
    is 3 to 10 times smaller than AdamW's, its weight decay as much larger.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.Lion([w], lr=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    _kind = "Lion"
    _buffers: ClassVar[dict[str, str]] = {"mean": "exp_avg"}
    _settings = ("betas",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    def _check_settings(self, group: Group) -> None:
        _checks.pair("Lion: betas", group["betas"])
