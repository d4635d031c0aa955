"""Muon (Jordan et al. 2024) for matrices, AdamW for the other parameters."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar

from hlx import errors
from hlx._hlx import Tensor
from hlx.optim import _checks
from hlx.optim._native import NativeOptimizer
from hlx.optim.optimizer import Group, Parameters

#: How a matrix's shape enters its rate.
ADJUSTMENTS = ("original", "match_rms_adamw", "spectral_unclamped")


class Muon(NativeOptimizer):
    """Steps along the momentum of a matrix made nearly orthogonal, as `torch.optim.Muon`, in float32 throughout.

    Parameters that are not matrices, which PyTorch refuses, are updated by AdamW with the same rate times
    `adamw_lr_factor`; so are matrices whose names match one of the patterns `adamw_parameters` (`*` for any letters;
    give `model.named_parameters()`). `adjust_lr_fn` is "original" (the default), "match_rms_adamw" or
    "spectral_unclamped".

    >>> w = hlx.tensor([[3.0, 0.0], [0.0, 4.0]], requires_grad=True)
    >>> optimizer = hlx.optim.Muon([w], lr=1.0, weight_decay=0.0)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.detach().round(decimals=1)
    tensor([[ 2.7000, -0.3000],
            [-0.3000,  3.7000]])
    """

    _kind = "Muon"
    _buffers: ClassVar[dict[str, str]] = {"mean": "exp_avg", "square": "exp_avg_sq"}
    _settings = (
        "momentum",
        "nesterov",
        "ns_coefficients",
        "eps",
        "ns_steps",
        "adjust_lr_fn",
        "adamw_betas",
        "adamw_eps",
        "adamw_weight_decay",
        "adamw_lr_factor",
    )
    _own = ("_patterns", "_listed")

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        adamw_parameters: Sequence[str] = ("*embedding*", "output.*"),
        adamw_betas: tuple[float, float] = (0.9, 0.999),
        adamw_eps: float = 1e-8,
        adamw_weight_decay: float = 0.01,
        adamw_lr_factor: float = 1.0,
    ) -> None:
        self._patterns = tuple(adamw_parameters)
        #: The names of the matrices that AdamW updates, and the list of parameters that they were found in.
        self._listed: tuple[Any, list[str]] = (None, [])
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "ns_coefficients": ns_coefficients,
            "eps": eps,
            "ns_steps": ns_steps,
            "adjust_lr_fn": adjust_lr_fn,
            "adamw_betas": adamw_betas,
            "adamw_eps": adamw_eps,
            "adamw_weight_decay": adamw_weight_decay,
            "adamw_lr_factor": adamw_lr_factor,
        }
        super().__init__(params, defaults)

    def _check_settings(self, group: Group) -> None:
        _checks.at_least("Muon: momentum", group["momentum"], below=1.0)
        _checks.epsilon("Muon: eps", group["eps"])
        _checks.at_least("Muon: ns_steps", group["ns_steps"], below=100.0)
        if group["adjust_lr_fn"] not in (None, *ADJUSTMENTS):
            raise errors.ValueError(
                f"Muon: adjust_lr_fn is {group['adjust_lr_fn']!r}, expected one of {', '.join(ADJUSTMENTS)}"
            )
        if len(group["ns_coefficients"]) != 3:
            raise errors.ValueError(f"Muon: ns_coefficients are {group['ns_coefficients']}, expected three numbers")
        _checks.pair("Muon: adamw_betas", group["adamw_betas"])
        _checks.epsilon("Muon: adamw_eps", group["adamw_eps"])
        for name in ("adamw_weight_decay", "adamw_lr_factor"):
            _checks.at_least(f"Muon: {name}", group[name])

    def _is_matrix(self, name: str, parameter: Tensor) -> bool:
        """Whether a parameter is made orthogonal."""
        # fnmatch knows more than the star: its other signs are escaped.
        patterns = (pattern.replace("[", "[[]").replace("?", "[?]") for pattern in self._patterns)
        return parameter.ndim == 2 and not any(fnmatchcase(name, pattern) for pattern in patterns)

    def _decay_of(self, name: str, parameter: Tensor) -> str:
        return "weight_decay" if self._is_matrix(name, parameter) else "adamw_weight_decay"

    def _numbers(self) -> tuple[float, dict[str, Any], list[tuple[float, float]]]:
        lr, settings, groups = super()._numbers()
        settings["adjust_lr_fn"] = settings["adjust_lr_fn"] or ADJUSTMENTS[0]
        if self._listed[0] is not self._parameters:
            names = [name for name, one in self._parameters if one.ndim == 2 and not self._is_matrix(name, one)]
            self._listed = (self._parameters, names)
        settings["adamw_parameters"] = self._listed[1]
        return lr, settings, groups

    def _known_as(self, buffer: str, name: str, parameter: Tensor) -> str | None:
        if self._is_matrix(name, parameter):
            return "momentum_buffer" if buffer == "mean" else None
        return self._buffers[buffer]
