"""Follows a run's worker: takes its events in until it ends, and lets signals in."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

from hlx import _hlx
from hlx.runs._display import Display
from hlx.runs._signals import Interrupts

__all__ = ["follow"]

#: Seconds between two looks at how far the work is.
_GLANCE = 0.1


def follow(
    worker: _hlx.RunWorker,
    display: Display,
    take: Callable[[str, dict[str, Any]], bool],
    stopping: str,
    depth: int,
) -> tuple[dict[str, Any], bool]:
    """Hands each event to `take`, which returns whether the work is to stop; returns the last one's value.

    The flag says whether a signal has stopped the work; `stopping` is shown when the first comes, and warnings are
    those of the caller `depth` calls above. After a second one, and after any exception, the work ends by itself.
    """

    def stop() -> None:
        worker.stop()
        display.note(stopping)

    try:
        with Interrupts(stop, worker.leave) as interrupts:
            while True:
                event = worker.next(_GLANCE)
                for line in worker.warnings():
                    warnings.warn(line, stacklevel=depth + 1)
                step, total = worker.progress()
                if total:
                    display.at(step, total)
                if event is None:
                    continue
                kind, text = event
                value: dict[str, Any] = json.loads(text)
                if kind == "end":
                    return value, interrupts.has_come
                if take(kind, value):
                    worker.stop()
    except BaseException:
        worker.leave()
        raise
