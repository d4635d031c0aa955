"""Ctrl-C and SIGTERM while a run is trained: the first stops it with a checkpoint, the second at once."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

__all__ = ["Interrupts"]

#: Signals that come no later than these seconds after the first are the same wish: `timeout` and launchers send two.
_ONE_WISH = 0.1


class Interrupts:
    """Catches the signals within a `with` block, on the main thread, where no handler of the user's is set."""

    def __init__(self, on_first: Callable[[], None], on_second: Callable[[], None]) -> None:
        self._on_first, self._on_second = on_first, on_second
        self._before: dict[int, Any] = {}
        self._first: float | None = None

    @property
    def has_come(self) -> bool:
        """Whether a signal has come."""
        return self._first is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
            for number, handler in usual.items():
                before = signal.getsignal(number)
                if before is handler or before == handler:
                    self._before[number] = before
                    signal.signal(number, self._handle)
        return self

    def _handle(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first = now
            self._on_first()
        elif now - self._first >= _ONE_WISH:
            self._on_second()
            raise KeyboardInterrupt

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._before:
            number, handler = self._before.popitem()
            signal.signal(number, handler)
