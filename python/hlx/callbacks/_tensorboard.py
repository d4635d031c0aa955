"""TensorBoard: event files, which HLX writes itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlx import _hlx
from hlx.callbacks._base import Callback

if TYPE_CHECKING:
    from hlx.runs._run import Run

__all__ = ["TensorBoard"]


class TensorBoard(Callback):
    """Writes TensorBoard's event file of a run into a folder of your choice; needs no library.

    A run writes one into its own folder anyway, unless `train.tensorboard` is false. This callback is for a `log_dir`
    that collects runs: each gets the folder `log_dir/NAME`, where NAME is its folder's. Look at them with
    `tensorboard --logdir LOG_DIR`.

    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40}, "train": {"max_steps": 2, "batch_size": 8}}
    >>> run = hlx.train(config, callbacks=[hlx.callbacks.TensorBoard("logs")], device="cpu")
    """

    def __init__(self, log_dir: str | os.PathLike[str] = "logs") -> None:
        self.log_dir: Path = Path(log_dir)
        self._writer: _hlx.EventWriter | None = None

    def on_start(self, run: Run) -> None:
        """Creates the file."""
        self._writer = _hlx.EventWriter(self.log_dir / run.name, run.step)

    def _append(self, metrics: dict[str, Any]) -> None:
        if self._writer is not None:
            self._writer.append(json.dumps(native(metrics)))

    def on_step(self, metrics: dict[str, Any]) -> None:
        """Writes the numbers of a log period."""
        self._append({"kind": "train", **metrics})

    def on_evaluation(self, metrics: dict[str, Any]) -> None:
        """Writes the numbers of an evaluation."""
        self._append({"kind": "eval", **metrics})

    def on_samples(self, samples: list[dict[str, Any]]) -> None:
        """Writes the texts."""
        for sample in samples:
            self._append({"kind": "sample", **sample})

    def on_end(self, run: Run) -> None:
        """Closes the file."""
        self._writer = None


def native(metrics: dict[str, Any]) -> dict[str, Any]:
    """A metric as a line of `metrics.jsonl`: None for what is not finite, and the exchange's numbers together."""
    found: dict[str, Any] = {}
    for name, value in metrics.items():
        value = None if isinstance(value, float) and not -1e308 <= value <= 1e308 else value
        if name.startswith("exchange_"):
            found.setdefault("exchange", {})[name.removeprefix("exchange_")] = value
        else:
            found[name] = value
    return found
