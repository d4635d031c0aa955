"""Weights & Biases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlx.callbacks._forward import Forward, library

if TYPE_CHECKING:
    from hlx.runs._run import Run

__all__ = ["WandB"]


class WandB(Forward):
    """Sends a run to Weights & Biases; needs the library wandb.

    The keywords are those of `wandb.init`: `project`, `mode="offline"`, `dir`, `id` and `resume` among them. The name
    is the run folder's unless `name` is given, the configuration is the run's. Curves are `train/loss`, `eval/loss`
    and so on by step, samples a table `samples`. Raises ModuleNotFoundError where the library is missing.

    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40}, "train": {"max_steps": 2, "batch_size": 8}}
    >>> tracker = hlx.callbacks.WandB(project="pairs", mode="disabled")
    >>> run = hlx.train(config, callbacks=[tracker], device="cpu")
    """

    def __init__(self, project: str | None = None, **init: Any) -> None:
        self._wandb = library("WandB", "wandb", "wandb")
        self._init = {"project": project, **init}
        self._run: Any = None
        self._samples: list[list[Any]] = []

    def on_start(self, run: Run) -> None:
        """Begins the tracker's run."""
        self._samples = []
        settings = {"name": run.name, "config": run.config, **self._init}
        self._run = self._wandb.init(**settings)

    def send(self, numbers: dict[str, float], step: int) -> None:
        """Logs numbers of a step."""
        self._run.log(numbers, step=step)

    def on_samples(self, samples: list[dict[str, Any]]) -> None:
        """Logs the texts up to now as a table."""
        columns = ["step", "prompt", "text"]
        self._samples += [[sample[name] for name in columns] for sample in samples]
        table = self._wandb.Table(columns=columns, data=self._samples)
        self._run.log({"samples": table}, step=samples[-1]["step"])

    def on_end(self, run: Run) -> None:
        """Notes the run's digest, and ends the tracker's run."""
        if self._run is not None:
            self._run.summary["digest"] = run.digest
            code = 0 if run.error is None else 255 if isinstance(run.error, KeyboardInterrupt) else 1
            self._run.finish(exit_code=code)
            self._run = None
