"""Schedulers that multiply the rate."""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterable
from typing import Any

from hlx import errors
from hlx.optim.lr_scheduler._arithmetic import power
from hlx.optim.lr_scheduler._base import Factor, LRScheduler, expect_optimizer, whole
from hlx.optim.optimizer import Group, Optimizer


class _OfFunctions(LRScheduler):
    """A scheduler of functions, of which a state dict has the attributes of callable objects alone."""

    _left_out = (*LRScheduler._left_out, "lr_lambdas")

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | list[Factor], last_epoch: int = -1) -> None:
        expect_optimizer(self._name, optimizer)
        n_groups = len(optimizer.param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * n_groups
        if len(functions) != n_groups:
            raise errors.ValueError(
                f"{self._name}: lr_lambda has {len(functions)} functions, expected one for each of {n_groups} groups"
            )
        for function in functions:
            if not callable(function):
                kind = type(function).__name__
                raise errors.TypeError(f"{self._name}: lr_lambda is {kind}, expected a function")
        self.lr_lambdas = functions
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """What the scheduler is and where; of its functions, the attributes of callable objects."""
        kept = [None if isinstance(one, types.FunctionType) else dict(vars(one)) for one in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        rest = dict(state_dict)
        for function, kept in zip(self.lr_lambdas, rest.pop("lr_lambdas"), strict=True):
            if kept is not None:
                vars(function).update(kept)
        super().load_state_dict(rest)


class LambdaLR(_OfFunctions):
    """The base rate times a function of the epoch, one for all groups or one per group.

    >>> w = hlx.zeros(1, requires_grad=True)
    >>> optimizer = hlx.optim.SGD([w], lr=2.0)
    >>> hlx.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5 ** (epoch + 1)).get_last_lr()
    [1.0]
    """

    def get_lr(self) -> list[float]:
        """The rates of the groups at `last_epoch`."""
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [base * function(self.last_epoch) for function, base in pairs]


class MultiplicativeLR(_OfFunctions):
    """The rate before times a function of the epoch, one for all groups or one per group."""

    def get_lr(self) -> list[float]:
        """The rates of the groups at `last_epoch`."""
        groups = self.optimizer.param_groups
        if self._is_initial:
            return [group["lr"] for group in groups]
        pairs = zip(self.lr_lambdas, groups, strict=True)
        return [group["lr"] * function(self.last_epoch) for function, group in pairs]


class StepLR(LRScheduler):
    """The rate times `gamma` every `step_size` epochs."""

    step_size: int
    gamma: float

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = whole("StepLR: step_size", step_size), gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        falls = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return float(group["lr"] * self.gamma if falls else group["lr"])

    def _rate_at(self, base: float) -> float:
        return base * power(self.gamma, self.last_epoch // self.step_size)


class MultiStepLR(LRScheduler):
    """The rate times `gamma` at each of the epochs `milestones`; one that is named twice counts twice."""

    milestones: Counter[int]
    gamma: float

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        return float(group["lr"] * power(self.gamma, self.milestones.get(self.last_epoch, 0)))

    def _rate_at(self, base: float) -> float:
        n_passed = sum(count for epoch, count in self.milestones.items() if epoch <= self.last_epoch)
        return base * power(self.gamma, n_passed)


class ConstantLR(LRScheduler):
    """The rate times `factor` until epoch `total_iters`."""

    factor: float
    total_iters: int

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 < factor <= 1:
            raise errors.ValueError(f"ConstantLR: factor is {factor}, expected more than 0 and at most 1")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        if self.last_epoch == 0:
            return float(group["lr"] * self.factor)
        return float(group["lr"] * (1.0 / self.factor) if self.last_epoch == self.total_iters else group["lr"])

    def _rate_at(self, base: float) -> float:
        return base * (1.0 if self.last_epoch >= self.total_iters else self.factor)


class LinearLR(LRScheduler):
    """The rate times a factor that goes in a line from `start_factor` to `end_factor` within `total_iters` epochs."""

    start_factor: float
    end_factor: float
    total_iters: int

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise errors.ValueError(f"LinearLR: start_factor is {start_factor}, expected more than 0 and at most 1")
        if not 0 <= end_factor <= 1:
            raise errors.ValueError(f"LinearLR: end_factor is {end_factor}, expected at least 0 and at most 1")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        if self.last_epoch == 0:
            return float(group["lr"] * self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return float(group["lr"])
        change = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * change
        return float(group["lr"] * (1.0 + change / before))

    def _rate_at(self, base: float) -> float:
        part = min(self.last_epoch, self.total_iters) / self.total_iters
        return base * (self.start_factor + (self.end_factor - self.start_factor) * part)


class ExponentialLR(LRScheduler):
    """The rate times `gamma` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        return float(group["lr"] if self._is_initial else group["lr"] * self.gamma)

    def _rate_at(self, base: float) -> float:
        return base * power(self.gamma, self.last_epoch)


class PolynomialLR(LRScheduler):
    """The base rate times `(1 - epoch / total_iters)^power`, and 0 after `total_iters` epochs."""

    total_iters: int
    power: float

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = whole("PolynomialLR: total_iters", total_iters), power
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        if self._is_initial or self.last_epoch > self.total_iters:
            return float(group["lr"])
        left, before = (1.0 - epoch / self.total_iters for epoch in (self.last_epoch, self.last_epoch - 1))
        return float(group["lr"] * power(left / before, self.power))

    def _rate_at(self, base: float) -> float:
        return base * power(1.0 - min(self.last_epoch, self.total_iters) / self.total_iters, self.power)
