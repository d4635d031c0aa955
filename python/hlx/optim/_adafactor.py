"""Adafactor (Shazeer and Stern 2018)."""

from __future__ import annotations

from typing import ClassVar

from hlx import errors
from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters


class Adafactor(NativeOptimizer):
    """Adafactor, as `torch.optim.Adafactor`: the mean squares of a matrix's gradient are those of its rows and columns.

    A step is in proportion to a parameter's root mean square (at least `eps[1]`), its share `min(lr, 1 / sqrt(t))`.
    Directions whose root mean square is more than `d` are scaled down. `eps[0]` is 2^-23 if it is None, and at least
    2^-126. `maximize` is refused, `foreach` has no effect.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.Adafactor([w], lr=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    _kind = "Adafactor"
    _buffers: ClassVar[dict[str, str]] = {"row": "row_var", "col": "col_var", "square": "variance"}
    _settings = ("beta2_decay", "eps", "d")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        _checks.refuse(self._name, maximize=maximize)
        least, scale = eps
        numbers = {"beta2_decay": beta2_decay, "eps": (2.0**-23 if least is None else least, scale), "d": d}
        super().__init__(params, {"lr": lr, **numbers, "weight_decay": weight_decay})

    def _check_settings(self, group: Group) -> None:
        least, scale = group["eps"]
        # A state of PyTorch has None for the least number of the type.
        group["eps"] = (2.0**-23 if least is None else least, scale)
        _checks.epsilon("Adafactor: eps[0]", group["eps"][0])
        _checks.at_least("Adafactor: eps[1]", scale)
        if not group["beta2_decay"] <= 0:
            raise errors.ValueError(f"Adafactor: beta2_decay is {group['beta2_decay']}, expected at most 0")
        if not group["d"] >= 1:
            raise errors.ValueError(f"Adafactor: d is {group['d']}, expected at least 1")
