"""Trackio, the tracker of Hugging Face that keeps runs on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hlx.callbacks._forward import Forward, flat, library

if TYPE_CHECKING:
    from hlx.runs._run import Run

__all__ = ["Trackio"]


class Trackio(Forward):
    """Sends a run to Trackio; needs the library trackio.

    The keywords are those of `trackio.init`. The name is the run folder's unless `name` is given. Trackio keeps the
    run on this machine (`TRACKIO_DIR` says where) unless a `space_id` is given. Raises ModuleNotFoundError where the
    library is missing.
    """

    def __init__(self, project: str, **init: Any) -> None:
        self._trackio = library("Trackio", "trackio", "trackio")
        self._init = {"project": project, **init}
        self._run: Any = None

    def on_start(self, run: Run) -> None:
        """Begins the tracker's run."""
        self._run = self._trackio.init(**{"name": run.name, "config": flat(run.config), **self._init})

    def send(self, numbers: dict[str, float], step: int) -> None:
        """Logs numbers of a step."""
        self._run.log(numbers, step=step)

    def on_samples(self, samples: list[dict[str, Any]]) -> None:
        """Logs the texts."""
        texts = {f"samples/{place}": f"{one['prompt']}{one['text']}" for place, one in enumerate(samples)}
        self._run.log(texts, step=samples[-1]["step"])

    def on_end(self, run: Run) -> None:
        """Ends the tracker's run."""
        if self._run is not None:
            self._run.finish()
            self._run = None
