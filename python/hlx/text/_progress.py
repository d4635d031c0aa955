"""How far long work on texts is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple


class Progress(NamedTuple):
    """How far the work is: the share of it from 0 to 1, bytes of text that this call has tokenised, and tokens."""

    done: float
    n_bytes: int
    n_tokens: int


#: A function that is told, True for a line on standard error, None for one if that is a terminal.
Told = Callable[[Progress], object] | bool | None


class Bar:
    """Tells a function, or shows a line on standard error; the line is gone at the end."""

    def __init__(self, progress: Told) -> None:
        self.function = progress if callable(progress) else None
        self.is_shown = progress is True or (progress is None and sys.stderr is not None and sys.stderr.isatty())
        self.width = 0

    @property
    def told(self) -> Callable[[float, int, int], None] | None:
        """What the native layer calls."""
        return self._tell if self.function is not None or self.is_shown else None

    def _tell(self, done: float, n_bytes: int, n_tokens: int) -> None:
        reached = Progress(done, n_bytes, n_tokens)
        if self.function is not None:
            self.function(reached)
            return
        line = f"{done:5.0%}  {n_tokens:,} tokens"
        sys.stderr.write("\r" + line.ljust(self.width))
        sys.stderr.flush()
        self.width = len(line)

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self.width:
            sys.stderr.write("\r" + " " * self.width + "\r")
            sys.stderr.flush()
