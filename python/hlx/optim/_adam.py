"""Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019), and it with 8-bit moments (Dettmers et al. 2021)."""

from __future__ import annotations

from typing import ClassVar

from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters


class Adam(NativeOptimizer):
    """Adam, as `torch.optim.Adam`: `p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)`.

    `m` and `v` are running means of the gradient and its square. The weight decay is added to the gradient, or with
    `decoupled_weight_decay` as in `AdamW`. `amsgrad`, `maximize` and `differentiable` are refused, `foreach`,
    `capturable` and `fused` have no effect; `eps` is at least 2^-126.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.Adam([w], lr=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    _kind = "Adam"
    _buffers: ClassVar[dict[str, str]] = {"mean": "exp_avg", "square": "exp_avg_sq"}
    _settings = ("betas", "eps")
    _own: ClassVar[tuple[str, ...]] = ("_kind",)

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        _checks.refuse(self._name, amsgrad=amsgrad, maximize=maximize, differentiable=differentiable)
        if decoupled_weight_decay and self._kind == "Adam":
            self._kind = "AdamW"
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _check_settings(self, group: Group) -> None:
        _checks.pair(f"{self._name}: betas", group["betas"])
        _checks.epsilon(f"{self._name}: eps", group["eps"])


class AdamW(Adam):
    """Adam with decoupled weight decay, as `torch.optim.AdamW`: a step begins with `p *= 1 - lr weight_decay`.

    `amsgrad`, `maximize` and `differentiable` are refused, `foreach`, `capturable` and `fused` have no effect; `eps`
    is at least 2^-126.

    >>> w = hlx.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = hlx.optim.AdamW([w], lr=0.5, weight_decay=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.2500, -1.2500])
    """

    _kind = "AdamW"

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            maximize=maximize,
            differentiable=differentiable,
            decoupled_weight_decay=True,
        )


class AdamW8bit(AdamW):
    """AdamW with moments of a byte each and a scale for every 256 elements: 2.1 bytes per parameter instead of 8.

    Parameters of fewer than 4,096 elements have float32 moments. The steps have the same bits on every device.
    `state_dict` has the float32 values that the bytes stand for, which `load_state_dict` stores without loss; it
    takes a state of `AdamW` too. `amsgrad`, `maximize` and `differentiable` are refused; `eps` is at least 2^-126.

    >>> w = hlx.ones(64, 64, requires_grad=True)
    >>> optimizer = hlx.optim.AdamW8bit([w], lr=0.5, weight_decay=0.5)
    >>> (3 * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()[0, :2]
    tensor([0.2500, 0.2500])
    """

    _kind = "AdamW8bit"
    _own = ()
