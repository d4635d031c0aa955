"""Schedulers of schedulers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from hlx import errors
from hlx.optim.lr_scheduler._base import LRScheduler
from hlx.optim.lr_scheduler._plateau import ReduceLROnPlateau
from hlx.optim.optimizer import Optimizer


class _Joined(LRScheduler):
    """Several schedulers of one optimizer; the state dict has theirs."""

    _left_out = (*LRScheduler._left_out, "_schedulers")
    _schedulers: list[LRScheduler]
    optimizer: Optimizer

    def _take(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        if not schedulers:
            raise errors.ValueError(f"{self._name}: schedulers is empty, expected at least one")
        for number, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler) or isinstance(scheduler, ReduceLROnPlateau):
                kind = type(scheduler).__name__
                raise errors.TypeError(
                    f"{self._name}: scheduler {number} is {kind}, expected one whose step needs no value"
                )
            if scheduler.optimizer is not (optimizer or schedulers[0].optimizer):
                raise errors.ValueError(f"{self._name}: scheduler {number} has another optimizer")
        self._schedulers = list(schedulers)
        self.optimizer = optimizer or schedulers[0].optimizer

    def state_dict(self) -> dict[str, Any]:
        """Where the scheduler is, and the state dicts of its schedulers."""
        return {**super().state_dict(), "_schedulers": [one.state_dict() for one in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        rest = dict(state_dict)
        for scheduler, state in zip(self._schedulers, rest.pop("_schedulers"), strict=True):
            scheduler.load_state_dict(state)
        super().load_state_dict(rest)


class SequentialLR(_Joined):
    """One scheduler after another: each of `milestones` is the epoch at which the next one begins.

    >>> w = hlx.zeros(1, requires_grad=True)
    >>> optimizer = hlx.optim.SGD([w], lr=1.0)
    >>> warmup = hlx.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> decay = hlx.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = hlx.optim.lr_scheduler.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    >>> scheduler.get_last_lr()
    [0.5]
    """

    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise errors.ValueError(
                f"SequentialLR: {len(milestones)} milestones for {len(schedulers)} schedulers, expected one less"
            )
        self._milestones = list(milestones)
        self.last_epoch = last_epoch + 1
        # All schedulers have set their first rates; only the first one's counts.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._schedulers:
            _undo_first_step(scheduler)
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Goes on by one epoch and sets the rates of the scheduler whose turn it is."""
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[number]
        if number > 0 and self._milestones[number - 1] == self.last_epoch:
            scheduler._move(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo_first_step(scheduler: LRScheduler) -> None:
    if isinstance(scheduler, _Joined):
        for inner in scheduler._schedulers:
            _undo_first_step(inner)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Joined):
    """Several schedulers at once: each changes the rate that the one before it has left."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(schedulers, optimizer)
        self._read_rates()

    def step(self) -> None:  # type: ignore[override]
        """Goes on by one epoch with all schedulers, in their order."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._read_rates()
