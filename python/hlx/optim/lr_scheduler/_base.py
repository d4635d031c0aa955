"""What all schedulers share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from hlx import errors
from hlx.optim import _checks
from hlx.optim.optimizer import Group, Optimizer

Factor = Callable[[int], float]


def expect_optimizer(name: str, optimizer: Any) -> None:
    """Fails for anything else than an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise errors.TypeError(f"{name}: optimizer is {type(optimizer).__name__}, expected an hlx.optim.Optimizer")


def per_group(what: str, value: Any, optimizer: Optimizer) -> list[float]:
    """A number per group, of a list or of one number for all."""
    n_groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [_checks.number(what, value)] * n_groups
    if len(value) != n_groups:
        raise errors.ValueError(f"{what} has {len(value)} numbers, expected one for each of {n_groups} groups")
    return [_checks.number(what, one) for one in value]


def whole(what: str, value: Any) -> int:
    """A whole number above 0; a float that is one, too."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or value <= 0:
        raise errors.ValueError(f"{what} is {value}, expected a whole number above 0")
    return value


class LRScheduler:
    """The base of all schedulers; a subclass defines `get_lr`, the rates of the groups at `self.last_epoch`.

    >>> class Halved(hlx.optim.lr_scheduler.LRScheduler):
    ...     def get_lr(self):
    ...         return [rate / (self.last_epoch + 1) for rate in self.base_lrs]
    >>> w = hlx.zeros(1, requires_grad=True)
    >>> Halved(hlx.optim.SGD([w], lr=1.0)).get_last_lr()
    [1.0]
    """

    base_lrs: list[float]
    last_epoch: int
    optimizer: Optimizer

    #: Attributes that a state dict leaves out.
    _left_out: tuple[str, ...] = ("optimizer", "_steps_before", "_is_initial")

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        expect_optimizer(self._name, optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _checks.number("lr", group["lr"]))
            elif "initial_lr" not in group:
                raise errors.ValueError(
                    f"{self._name}: group {number} has no initial_lr, which last_epoch={last_epoch} continues"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._steps_before = optimizer._n_steps
        self._initial_step()

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _initial_step(self) -> None:
        """Sets the first rates."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float]:
        """The rates of the groups at `last_epoch`; `get_last_lr` are those that were set."""
        pairs = zip(self.optimizer.param_groups, self.base_lrs, strict=True)
        return [self._rate(group, base) for group, base in pairs]

    def _rate(self, group: Group, base: float) -> float:
        """The rate of a group, of the one before (`group["lr"]`) and of the base rate."""
        raise errors.NotImplementedError(f"{self._name}: the class has no get_lr")

    def _rate_at(self, base: float) -> float | None:
        """The rate of a base rate at `last_epoch` alone, if the scheduler has such a formula."""
        return None

    def get_last_lr(self) -> list[float]:
        """The rates that the last step has set, one per group."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Goes on by one epoch (or step: whatever is counted) and sets the rates; with `epoch`, to that one."""
        if self._step_count == 1 and self.optimizer._n_steps == self._steps_before:
            warnings.warn(
                f"{self._name}.step is called before the optimizer's step, which skips the first rate",
                UserWarning,
                stacklevel=2,
            )
        self._step_count += 1
        self._move(epoch)

    def _move(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = None if epoch is None else [self._rate_at(base) for base in self.base_lrs]
        if closed is None or None in closed:
            self._set_rates(self.get_lr())
        else:
            self._set_rates([rate for rate in closed if rate is not None])

    def _set_rates(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._read_rates()

    def _read_rates(self) -> None:
        self._last_lr = [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """What the scheduler is and where, without the optimizer and without functions."""
        return {name: value for name, value in vars(self).items() if name not in self._left_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        vars(self).update(state_dict)
