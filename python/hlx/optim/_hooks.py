"""Functions that are called before and after something, in the order in which they were registered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Self

Hooks = dict[int, Callable[..., Any]]

_numbers = itertools.count()


class RemovableHandle:
    """What registering a hook returns: `remove` takes the hook away, and so does leaving a `with` block."""

    id: int

    def __init__(self, hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> None:
        self._hooks, self.id = hooks, next(_numbers)
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(others)

    def remove(self) -> None:
        """Takes the hook away; a second call does nothing."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()
