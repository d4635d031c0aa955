"""The flat memory of gradients: which optimizer or language model holds those of some parameters."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, Protocol

from hlx._hlx import Tensor


class FlatGradients(Protocol):
    """What an optimizer's state and a language model do with all of their gradients by a few launches."""

    def holds_gradients(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these are all that hold a gradient there."""

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Scales all gradients down to a norm and returns their norm before."""

    def clip_grad_value_(self, clip_value: float) -> None:
        """Holds each element of all gradients within a limit."""


#: Optimizers that live, each with its state at `_native`; the last one that took a parameter is the last here.
_optimizers: list[weakref.ref[Any]] = []


def register(optimizer: Any) -> None:
    """Lets `holder_of` find an optimizer's state while the optimizer lives."""
    _optimizers[:] = [one for one in _optimizers if one() not in (None, optimizer)]
    _optimizers.append(weakref.ref(optimizer))


def holder_of(parameters: Sequence[Tensor]) -> FlatGradients | None:
    """Who has the gradients of these parameters, and no others, in one piece of memory."""
    if not parameters or len({id(one) for one in parameters}) < len(parameters):
        return None
    owner: FlatGradients | None = getattr(parameters[0], "_owner", None)
    if owner is not None:
        return owner if owner.holds_gradients(parameters) else None
    for one in reversed(_optimizers):
        optimizer = one()
        if optimizer is not None and optimizer._native.holds_gradients(parameters):
            found: FlatGradients = optimizer._native
            return found
    return None
