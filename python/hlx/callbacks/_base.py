"""The class of callbacks, and how one ends a run."""

from __future__ import annotations

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from hlx.runs._run import Run

__all__ = ["STOP", "Answer", "Callback", "Stop", "StopTraining"]


class Stop(enum.Enum):
    """The type of `STOP`."""

    STOP = "STOP"

    def __repr__(self) -> str:
        return "hlx.callbacks.STOP"


#: What a callback returns to end the run: it saves a checkpoint and can be resumed.
STOP: Final = Stop.STOP

#: What a method of a callback may return.
Answer: TypeAlias = Literal[Stop.STOP] | None


class StopTraining(Exception):
    """Raised by a callback it ends the run as `STOP` does: with a checkpoint, after which `hlx.train` returns."""


class Callback:
    """What a run calls while it trains. Override what you need; each method does nothing by itself.

    A method that returns `STOP` or raises `StopTraining` ends the run after the step that it is at, with a
    checkpoint. Any other exception ends it in the same way, and `hlx.train` raises it then. The run waits for each
    call, in the thread that called `hlx.train`.

    >>> class Patient(hlx.callbacks.Callback):
    ...     def on_step(self, metrics):
    ...         return hlx.callbacks.STOP if metrics["loss"] < 5.4 else None
    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40},
    ...           "train": {"max_steps": 40, "batch_size": 8, "log_every": 1, "learning_rate": 0.01}}
    >>> run = hlx.train(config, callbacks=[Patient()], device="cpu")
    >>> run.finished
    False
    """

    def on_start(self, run: Run) -> Answer:
        """The run is about to do its first step, or the first after it was resumed."""

    def on_step(self, metrics: dict[str, Any]) -> Answer:
        """A log period has ended (`train.log_every` steps): step, epoch, loss, gradient norm, learning rate, speed."""

    def on_evaluation(self, metrics: dict[str, Any]) -> Answer:
        """Samples were evaluated: step, `split` ("held_out" or "train"), loss, and perplexity or accuracy."""

    def on_samples(self, samples: list[dict[str, Any]]) -> Answer:
        """The prompts of `sample.prompts` were continued: dicts of step, prompt and text."""

    def on_checkpoint(self, path: Path) -> Answer:
        """A checkpoint was written into this folder."""

    def on_end(self, run: Run) -> None:
        """The run has ended, or was stopped, interrupted or lost to an error, which is `run.error`.

        It is called once if `on_start` was.
        """
