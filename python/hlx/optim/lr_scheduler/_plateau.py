"""The rate that falls when a measured value has stopped to improve."""

from __future__ import annotations

import math
from typing import Any

from hlx import errors
from hlx.optim import _checks
from hlx.optim.lr_scheduler._base import LRScheduler, expect_optimizer, per_group
from hlx.optim.optimizer import Optimizer


class ReduceLROnPlateau(LRScheduler):
    """The rate times `factor` after more than `patience` values that are no better than the best.

    Better is smaller (`mode="min"`) or larger ("max") than the best by `threshold`, which is a part of the best
    ("rel") or a difference ("abs"). After a fall, `cooldown` values are not counted. `step` takes the value.

    >>> w = hlx.zeros(1, requires_grad=True)
    >>> optimizer = hlx.optim.SGD([w], lr=1.0)
    >>> scheduler = hlx.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.5]
    """

    last_epoch: int
    factor: float
    patience: int
    cooldown: int
    eps: float
    mode: str
    threshold: float
    threshold_mode: str
    default_min_lr: float | None
    min_lrs: list[float]
    best: float
    cooldown_counter: int
    num_bad_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        expect_optimizer("ReduceLROnPlateau", optimizer)
        if factor >= 1:
            raise errors.ValueError(f"ReduceLROnPlateau: factor is {factor}, expected less than 1")
        for what, found, choices in (
            ("mode", mode, ("min", "max")),
            ("threshold_mode", threshold_mode, ("rel", "abs")),
        ):
            if found not in choices:
                raise errors.ValueError(f"ReduceLROnPlateau: {what} is {found!r}, expected {' or '.join(choices)}")
        self.optimizer = optimizer
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs = per_group("ReduceLROnPlateau: min_lr", min_lr, optimizer)
        self.last_epoch = 0
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0
        self._read_rates()

    @property
    def in_cooldown(self) -> bool:
        """Whether values are not counted, because the rate fell shortly before."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the next value, a number or a tensor of one element; NaN is no improvement."""
        value = _checks.number("ReduceLROnPlateau: metrics", metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._read_rates()

    def _is_better(self, value: float) -> bool:
        sign = 1.0 if self.mode == "max" else -1.0
        if self.threshold_mode == "abs":
            limit = self.best + sign * self.threshold
        else:
            limit = self.best * (1.0 + sign * self.threshold)
        return value > limit if self.mode == "max" else value < limit

    def _reduce(self) -> None:
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise errors.RuntimeError(
                    f"ReduceLROnPlateau: min_lr has {len(self.min_lrs)} numbers, expected one for each of "
                    f"{len(groups)} groups"
                )
            self.min_lrs = [float(self.default_min_lr)] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            rate = float(group["lr"])
            lower = max(rate * self.factor, least)
            if rate - lower > self.eps:
                group["lr"] = lower
