"""Callbacks of a run: each event goes to all of them, and one may end the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from hlx import errors
from hlx.callbacks._base import STOP, Answer, Callback, StopTraining

if TYPE_CHECKING:
    from hlx.runs._run import Run

__all__ = ["Called", "Calls"]

#: What `callbacks=` takes: callbacks, and functions of a metric.
Called: TypeAlias = Callback | Callable[[dict[str, Any]], Answer | object]


class _Function(Callback):
    """A function that gets each metric: log periods, and evaluations with their `split`."""

    def __init__(self, function: Callable[[dict[str, Any]], Any]) -> None:
        self._function = function

    def on_step(self, metrics: dict[str, Any]) -> Answer:
        """Calls the function."""
        return STOP if self._function(metrics) is STOP else None

    on_evaluation = on_step


class Calls:
    """The callbacks of one run."""

    def __init__(self, callbacks: Called | Iterable[Called]) -> None:
        listed = [callbacks] if isinstance(callbacks, Callback) or callable(callbacks) else list(callbacks)
        self._callbacks = [_as_callback(one) for one in listed]
        self._started: list[Callback] = []
        self._samples: list[dict[str, Any]] = []
        #: Whether one has ended the run.
        self.wants_stop = False
        #: The first exception of one.
        self.error: BaseException | None = None

    def _call(self, callback: Callback, method: str, argument: Any) -> None:
        try:
            answer = getattr(callback, method)(argument)
        except StopTraining:
            self.wants_stop = True
        except Exception as error:
            self.wants_stop = True
            self.error = self.error or error
        else:
            self.wants_stop = self.wants_stop or answer is STOP

    def _call_all(self, method: str, argument: Any) -> None:
        for callback in self._callbacks:
            # After an exception no callback gets more of the run, except its end.
            if self.error is None:
                self._call(callback, method, argument)

    def start(self, run: Run) -> None:
        """The run is about to do its first step."""
        for callback in self._callbacks:
            if self.error is None:
                self._started.append(callback)
                self._call(callback, "on_start", run)

    def metric(self, metric: dict[str, Any]) -> None:
        """A metric has come; samples of a step are collected until something else comes."""
        kind = metric.pop("kind")
        if kind == "sample":
            self._samples.append(metric)
            return
        self.flush()
        self._call_all("on_step" if kind == "train" else "on_evaluation", metric)

    def checkpoint(self, path: Path) -> None:
        """A checkpoint was written."""
        self.flush()
        self._call_all("on_checkpoint", path)

    def flush(self) -> None:
        """Hands the samples over that were collected."""
        if self._samples:
            samples, self._samples = self._samples, []
            self._call_all("on_samples", samples)

    def end(self, run: Run) -> None:
        """The run has ended, in whatever way."""
        started, self._started = self._started, []
        for callback in started:
            self._call(callback, "on_end", run)


def _as_callback(one: Any) -> Callback:
    if isinstance(one, Callback):
        return one
    if isinstance(one, type) and issubclass(one, Callback):
        raise errors.TypeError(f"train: callbacks holds the class {one.__name__}, expected an object: {one.__name__}()")
    if callable(one):
        return _Function(one)
    raise errors.TypeError(
        f"train: callbacks holds a {type(one).__name__}, expected hlx.callbacks.Callback or a function of a metric"
    )
