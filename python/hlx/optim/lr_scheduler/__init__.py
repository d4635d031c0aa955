"""Learning-rate schedulers under PyTorch's names, by its formulas, with the same rates on every machine.

>>> w = hlx.zeros(1, requires_grad=True)
>>> optimizer = hlx.optim.SGD([w], lr=1.0)
>>> scheduler = hlx.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
>>> for _ in range(4):
...     w.sum().backward()
...     optimizer.step()
...     scheduler.step()
>>> scheduler.get_last_lr()
[0.25]
"""

from hlx.optim.lr_scheduler._base import LRScheduler
from hlx.optim.lr_scheduler._cosines import CosineAnnealingLR, CosineAnnealingWarmRestarts
from hlx.optim.lr_scheduler._cycles import CyclicLR, OneCycleLR
from hlx.optim.lr_scheduler._factors import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from hlx.optim.lr_scheduler._joined import ChainedScheduler, SequentialLR
from hlx.optim.lr_scheduler._plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
