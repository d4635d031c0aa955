"""Schedulers that raise and lower the rate, and with it the momentum the other way."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from hlx import errors
from hlx.optim import _checks
from hlx.optim.lr_scheduler._arithmetic import cos_pi, power
from hlx.optim.lr_scheduler._base import LRScheduler, expect_optimizer, per_group, whole
from hlx.optim.optimizer import Group, Optimizer


class _WithMomentum(LRScheduler):
    """A scheduler that sets the momentum too: `momentum`, or the first of `betas`."""

    base_momentums: list[float]
    max_momentums: list[float]

    cycle_momentum: bool
    use_beta1: bool

    def _start_momentum(self, optimizer: Optimizer, base: Any, most: Any, is_new: bool) -> None:
        """Finds where the momentum is and begins with the highest."""
        self.use_beta1 = "betas" in optimizer.defaults
        if not self.use_beta1 and "momentum" not in optimizer.defaults:
            raise errors.ValueError(
                f"{self._name}: {type(optimizer).__name__} has no momentum and no betas, which cycle_momentum sets"
            )
        self.base_momentums = per_group(f"{self._name}: base_momentum", base, optimizer)
        self.max_momentums = per_group(f"{self._name}: max_momentum", most, optimizer)
        if not is_new:
            return
        for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
            self._set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def _set_momentum(self, group: Group, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_WithMomentum):
    """Up and down between `base_lr` and `max_lr` in lines, as "Cyclical learning rates" (Smith 2017).

    `mode` scales the height: "triangular" not, "triangular2" by half each cycle, "exp_range" by `gamma` each step;
    or `scale_fn`, a function of the cycle's number or (`scale_mode="iterations"`) of the step's.
    """

    max_lrs: list[float]
    total_size: float
    step_ratio: float
    mode: str
    gamma: float
    scale_mode: str

    _left_out = (*LRScheduler._left_out, "_scale_fn_custom")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        expect_optimizer("CyclicLR", optimizer)
        base_lrs = per_group("CyclicLR: base_lr", base_lr, optimizer)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, base_lrs, strict=True):
                group["lr"] = rate
        self.max_lrs = per_group("CyclicLR: max_lr", max_lr, optimizer)
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise errors.ValueError(f"CyclicLR: mode is {mode!r}, expected triangular, triangular2 or exp_range")
        self.mode, self.gamma, self._scale_fn_custom = mode, gamma, scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The factor of the height, of a cycle's or a step's number."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return power(self.gamma, x)
        return 1.0 if self.mode == "triangular" else power(0.5, x - 1)

    def get_lr(self) -> list[float]:
        """The rates of the groups at `last_epoch`; sets the momentum."""
        position = self.last_epoch / self.total_size
        cycle = int(1 + position)
        part = 1.0 + position - cycle
        rising = part <= self.step_ratio
        height = part / self.step_ratio if rising else (part - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """What the scheduler is and where; of `scale_fn`, the attributes of a callable object."""
        custom = self._scale_fn_custom
        kept = None if custom is None or isinstance(custom, types.FunctionType) else dict(vars(custom))
        return {**super().state_dict(), "_scale_fn_custom": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned."""
        rest = dict(state_dict)
        kept = rest.pop("_scale_fn_custom", None)
        if kept is not None:
            vars(self._scale_fn_custom).update(kept)
        super().load_state_dict(rest)


class OneCycleLR(_WithMomentum):
    """Up to `max_lr` and down to almost nothing in one cycle, as "Super-convergence" (Smith and Topin 2017).

    It begins at `max_lr / div_factor`, rises for a part `pct_start` of the steps, and ends at the first rate over
    `final_div_factor`; with `three_phase` it falls to the first rate in as many steps as it rose. Raises ValueError
    past the end.
    """

    total_steps: int

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        expect_optimizer("OneCycleLR", optimizer)
        self.total_steps = self._total(total_steps, epochs, steps_per_epoch)
        if anneal_strategy not in ("cos", "linear"):
            raise errors.ValueError(f"OneCycleLR: anneal_strategy is {anneal_strategy!r}, expected cos or linear")
        if not 0 <= _checks.number("OneCycleLR: pct_start", pct_start) <= 1:
            raise errors.ValueError(f"OneCycleLR: pct_start is {pct_start}, expected from 0 to 1")
        self._anneal_func_type = anneal_strategy
        self._phases = self._phases_of(pct_start, three_phase)
        for group, rate in zip(optimizer.param_groups, per_group("OneCycleLR: max_lr", max_lr, optimizer), strict=True):
            if last_epoch == -1:
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._start_momentum(optimizer, base_momentum, max_momentum, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    def _total(self, total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
        if total_steps is not None:
            return whole("OneCycleLR: total_steps", total_steps)
        if epochs is None or steps_per_epoch is None:
            raise errors.ValueError("OneCycleLR: total_steps is missing, and so is one of epochs and steps_per_epoch")
        return whole("OneCycleLR: epochs", epochs) * whole("OneCycleLR: steps_per_epoch", steps_per_epoch)

    def _phases_of(self, pct_start: float, three_phase: bool) -> list[tuple[float, str, str, str, str]]:
        """The phases: the step of its end, the rates and the momenta that each goes between."""
        rise, end = pct_start * self.total_steps, self.total_steps - 1
        first = (rise - 1, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if not three_phase:
            return [first, (end, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        fall = (2 * rise - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum")
        return [first, fall, (end, "initial_lr", "min_lr", "max_momentum", "max_momentum")]

    def _between(self, start: float, end: float, part: float) -> float:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (cos_pi(part) + 1.0)

    def get_lr(self) -> list[float]:
        """The rates of the groups at `last_epoch`; sets the momentum."""
        step = self.last_epoch
        if step > self.total_steps:
            raise errors.ValueError(f"OneCycleLR: step is {step}, expected at most total_steps={self.total_steps}")
        phases = self._phases
        number = next((place for place, phase in enumerate(phases) if step <= phase[0]), len(phases) - 1)
        begin = phases[number - 1][0] if number else 0.0
        end, *names = phases[number]
        part = (step - begin) / (end - begin)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                self._set_momentum(group, self._between(group[names[2]], group[names[3]], part))
        return [self._between(group[names[0]], group[names[1]], part) for group in self.optimizer.param_groups]
