"""Schedulers along a cosine."""

from __future__ import annotations

from hlx import errors
from hlx.optim.lr_scheduler._arithmetic import cos_pi
from hlx.optim.lr_scheduler._base import LRScheduler, whole
from hlx.optim.optimizer import Group, Optimizer


class CosineAnnealingLR(LRScheduler):
    """From the base rate to `eta_min` along half a cosine of `T_max` epochs, after which it rises again.

    >>> w = hlx.zeros(1, requires_grad=True)
    >>> optimizer = hlx.optim.SGD([w], lr=1.0)
    >>> scheduler = hlx.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = whole("CosineAnnealingLR: T_max", T_max), float(eta_min)
        super().__init__(optimizer, last_epoch)

    def _height(self, epoch: int) -> float:
        return 1.0 + cos_pi(epoch, self.T_max)

    def _rate(self, group: Group, base: float) -> float:
        rate, epoch = float(group["lr"]), self.last_epoch
        if self._is_initial:
            return rate
        if self._step_count == 1 and epoch > 0:
            return self._rate_at(base)
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The epoch before had the least rate, of which there is no multiple.
            return rate + (base - self.eta_min) * (1.0 - cos_pi(1, self.T_max)) / 2
        return self._height(epoch) / self._height(epoch - 1) * (rate - self.eta_min) + self.eta_min

    def _rate_at(self, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * self._height(self.last_epoch) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the base rate to `eta_min` along half a cosine, begun anew again and again.

    The first cosine has `T_0` epochs, each other one `T_mult` times as many as the one before. `step(epoch)` takes
    parts of epochs, too.
    """

    T_i: int
    T_mult: int
    eta_min: float
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        self.T_0 = self.T_i = whole("CosineAnnealingWarmRestarts: T_0", T_0)
        self.T_mult = whole("CosineAnnealingWarmRestarts: T_mult", T_mult)
        self.eta_min = float(eta_min)
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _rate(self, group: Group, base: float) -> float:
        return self.eta_min + (base - self.eta_min) * (1.0 + cos_pi(self.T_cur, self.T_i)) / 2

    def step(self, epoch: float | None = None) -> None:
        """Goes on by one epoch and sets the rates; with `epoch`, which may have a fraction, to that place."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise errors.ValueError(f"CosineAnnealingWarmRestarts: epoch is {epoch}, expected at least 0")
            self._restart_before(epoch)
        self.last_epoch = int(epoch)
        self._set_rates(self.get_lr())

    def _restart_before(self, epoch: float) -> None:
        """Finds the last restart before an epoch."""
        begin, length = 0, self.T_0
        if self.T_mult == 1:
            begin = int(epoch // length) * length
        while epoch >= begin + length:
            begin, length = begin + length, length * self.T_mult
        self.T_cur, self.T_i = epoch - begin, length
