"""Checks of the arguments of optimizers and schedulers, each of which names what was found and what was expected."""

from __future__ import annotations

import math
from typing import Any

from hlx import errors
from hlx._hlx import Tensor


def number(what: str, value: Any) -> float:
    """A Python number of a number or a tensor of one element."""
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()
    try:
        return float(value)
    except (TypeError, ValueError):
        raise errors.TypeError(f"{what} is {type(value).__name__}, expected a number") from None


def at_least(what: str, value: Any, low: float = 0.0, below: float = math.inf) -> float:
    """Fails unless a number is finite, at least `low` and less than `below`."""
    found = number(what, value)
    if not low <= found < below:
        limit = " and finite" if below == math.inf else f" and below {below:g}"
        raise errors.ValueError(f"{what} is {value}, expected at least {low:g}{limit}")
    return found


def epsilon(what: str, value: Any) -> float:
    """Fails for an epsilon below 2^-126, which is zero as a float32 of HLX."""
    found = number(what, value)
    if not 2.0**-126 <= found < math.inf:
        raise errors.ValueError(f"{what} is {value}, expected at least 2^-126 (1.18e-38) and finite")
    return found


def pair(what: str, values: Any) -> tuple[float, float]:
    """Two decays of running means, each from 0 to below 1."""
    try:
        first, second = values
    except (TypeError, ValueError):
        raise errors.TypeError(f"{what} is {values}, expected two numbers") from None
    return at_least(what, first, below=1.0), at_least(what, second, below=1.0)


def refuse(name: str, **choices: bool | None) -> None:
    """Fails for choices of PyTorch that HLX has not."""
    for choice, value in choices.items():
        if value:
            raise errors.NotImplementedError(f"{name}: {choice}={value} is not supported")
