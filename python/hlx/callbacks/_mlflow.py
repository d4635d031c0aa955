"""MLflow."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from hlx.callbacks._forward import Forward, finite, flat, library

if TYPE_CHECKING:
    from hlx.runs._run import Run

__all__ = ["MLflow"]

#: MLflow takes at most this many parameters of a call, and characters of a value.
_MOST_PARAMETERS, _MOST_CHARACTERS = 100, 500


class MLflow(Forward):
    """Sends a run to MLflow; needs the library mlflow.

    `tracking_uri` is a server or a local store such as `"sqlite:///mlruns.db"`; without one MLflow's own setting
    counts. `experiment` is made if it is not there. Other keywords are those of `MlflowClient.create_run`:
    `run_name`, `tags`. The configuration becomes parameters with dotted keys, samples become the artifact
    `samples.txt`. Numbers that are not finite, which MLflow's stores refuse, are left out. Raises ModuleNotFoundError
    where the library is missing.
    """

    def __init__(self, experiment: str = "hlx", *, tracking_uri: str | None = None, **create: Any) -> None:
        self._mlflow = library("MLflow", "mlflow", "mlflow")
        self._client = self._mlflow.MlflowClient(tracking_uri)
        self._experiment = experiment
        self._create = create
        self._id: str | None = None
        self._texts = ""

    @property
    def run_id(self) -> str | None:
        """The identity of MLflow's run, once it has begun."""
        return self._id

    def on_start(self, run: Run) -> None:
        """Begins MLflow's run, and hands the configuration over."""
        found = self._client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found else self._client.create_experiment(self._experiment)
        made = self._client.create_run(experiment, **{"run_name": run.name, **self._create})
        self._id, self._texts = made.info.run_id, ""
        entities = self._mlflow.entities
        parameters = [entities.Param(name, str(value)[:_MOST_CHARACTERS]) for name, value in flat(run.config).items()]
        for place in range(0, len(parameters), _MOST_PARAMETERS):
            self._client.log_batch(self._id, params=parameters[place : place + _MOST_PARAMETERS])

    def send(self, numbers: dict[str, float], step: int) -> None:
        """Logs numbers of a step."""
        now = int(time.time() * 1000)
        metric = self._mlflow.entities.Metric
        metrics = [metric(name, value, now, step) for name, value in finite(numbers).items()]
        self._client.log_batch(self._id, metrics=metrics)

    def on_samples(self, samples: list[dict[str, Any]]) -> None:
        """Writes the texts up to now as an artifact."""
        for sample in samples:
            self._texts += f"step {sample['step']}: {sample['prompt']}{sample['text']}\n"
        self._client.log_text(self._id, self._texts, "samples.txt")

    def on_end(self, run: Run) -> None:
        """Notes the run's digest, and ends MLflow's run."""
        if self._id is not None:
            self._client.set_tag(self._id, "hlx.digest", run.digest)
            is_lost = run.error is not None and not isinstance(run.error, KeyboardInterrupt)
            status = "FAILED" if is_lost else "FINISHED" if run.finished else "KILLED"
            self._client.set_terminated(self._id, status)
