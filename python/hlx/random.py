"""The generator of random numbers that all threads share: its seed and its state.

>>> hlx.manual_seed(1)
>>> state = hlx.get_rng_state()
>>> x = hlx.rand(2)
>>> hlx.set_rng_state(state)
>>> hlx.equal(hlx.rand(2), x)
True
"""

from __future__ import annotations

import secrets
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import initial_seed, manual_seed

__all__ = ["get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def get_rng_state() -> tuple[int, ...]:
    """Where the generator is, for `set_rng_state`: whole numbers, which `hlx.save` writes into a checkpoint.

    The numbers do not depend on a device.

    >>> hlx.manual_seed(7)
    >>> len(hlx.get_rng_state())
    3
    """
    return tuple(_hlx.default_state())


def set_rng_state(new_state: Any) -> None:
    """Puts the generator where it was: the next draws are those that came after `get_rng_state`.

    Raises TypeError for anything else than what that returned.

    >>> state = hlx.get_rng_state()
    >>> hlx.set_rng_state(state)
    """
    found = tuple(new_state) if isinstance(new_state, tuple | list) else ()
    if len(found) != 3 or not all(isinstance(n, int) and 0 <= n < 1 << 64 for n in found):
        raise errors.TypeError("set_rng_state: new_state is not what get_rng_state returned")
    _hlx.set_default_state(found)


def seed() -> int:
    """Seeds the generator by a number of the system, which it returns.

    >>> hlx.seed() == hlx.initial_seed()
    True
    """
    found = secrets.randbits(64)
    manual_seed(found)
    return found
