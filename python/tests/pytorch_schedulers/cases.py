"""The schedulers that are compared, each as a function of the module that has it and of an optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

STEPS = 150
#: The rates of the two groups.
RATES = (0.1, 0.04)
#: What ReduceLROnPlateau observes: it falls, rises, and rests.
LOSSES = [round(2 + math.cos(step / 7) - step / 100 if step < 90 else 1.5, 3) for step in range(STEPS)]

Case = Callable[[Any, Any], Any]
CASES: dict[str, Case] = {
    "StepLR": lambda m, o: m.StepLR(o, 7, 0.8),
    "StepLR default": lambda m, o: m.StepLR(o, 50),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [100, 3, 20, 20], 0.5),
    "ConstantLR": lambda m, o: m.ConstantLR(o, 0.25, 12),
    "ConstantLR default": lambda m, o: m.ConstantLR(o),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.1, 0.7, 60),
    "LinearLR default": lambda m, o: m.LinearLR(o),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.97),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, 40, 0.001),
    "CosineAnnealingLR odd": lambda m, o: m.CosineAnnealingLR(o, 13),
    "CosineAnnealingWarmRestarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 10, 2, 0.002),
    "CosineAnnealingWarmRestarts equal": lambda m, o: m.CosineAnnealingWarmRestarts(o, 9),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, 0.5, total_steps=STEPS),
    "OneCycleLR linear": lambda m, o: m.OneCycleLR(
        o, [0.5, 0.3], epochs=15, steps_per_epoch=10, pct_start=0.25, anneal_strategy="linear", div_factor=10.0
    ),
    "OneCycleLR three phases": lambda m, o: m.OneCycleLR(
        o, 0.5, STEPS, three_phase=True, base_momentum=0.8, max_momentum=0.9, final_div_factor=100.0
    ),
    "OneCycleLR without momentum": lambda m, o: m.OneCycleLR(o, 0.5, STEPS, cycle_momentum=False),
    "CyclicLR": lambda m, o: m.CyclicLR(o, 0.01, 0.1, step_size_up=12),
    "CyclicLR triangular2": lambda m, o: m.CyclicLR(o, [0.01, 0.02], 0.1, 10, 5, mode="triangular2"),
    "CyclicLR exp_range": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 9, mode="exp_range", gamma=0.99, cycle_momentum=False),
    "CyclicLR function": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 9, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, 120, 0.9),
    "PolynomialLR square": lambda m, o: m.PolynomialLR(o, 100, 2),
    "LambdaLR": lambda m, o: m.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: max(0.0, 1 - t / 100)]),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, lambda t: 0.9 if t % 4 else 1.2),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1, 1.0, 9), m.CosineAnnealingLR(o, 60), m.ExponentialLR(o, 0.9)], [10, 70]
    ),
    "SequentialLR of restarts": lambda m, o: m.SequentialLR(
        o, [m.ConstantLR(o, 0.5, 5), m.CosineAnnealingWarmRestarts(o, 10, 2)], [20]
    ),
    "ChainedScheduler": lambda m, o: m.ChainedScheduler([m.ConstantLR(o, 0.5, 20), m.ExponentialLR(o, 0.98)]),
    "ChainedScheduler of three": lambda m, o: m.ChainedScheduler(
        [m.LinearLR(o, 0.2, 1.0, 30), m.CosineAnnealingLR(o, 75), m.StepLR(o, 40, 0.5)], optimizer=o
    ),
    "ReduceLROnPlateau": lambda m, o: m.ReduceLROnPlateau(o, factor=0.5, patience=3, cooldown=2, min_lr=[0.001, 0.02]),
    "ReduceLROnPlateau max": lambda m, o: m.ReduceLROnPlateau(
        o, "max", 0.7, 4, threshold=0.05, threshold_mode="abs", eps=1e-4
    ),
}


def rates(case: Case, module: Any, optimizer: Any) -> dict[str, Any]:
    """The rates of both groups at every step, and the momentum of the first one if it is set."""
    scheduler = case(module, optimizer)
    found: list[list[float]] = [[] for _ in optimizer.param_groups]
    momenta: list[float] = []
    for step in range(STEPS):
        for series, group, rate in zip(found, optimizer.param_groups, scheduler.get_last_lr(), strict=True):
            assert group["lr"] == rate, "get_last_lr is what the group has"
            series.append(float(rate))
        momenta.append(float(optimizer.param_groups[0]["momentum"]))
        optimizer.step()
        scheduler.step(LOSSES[step]) if "ReduceLROnPlateau" in type(scheduler).__name__ else scheduler.step()
    return {"rates": found, **({"momentum": momenta} if len(set(momenta)) > 1 else {})}
