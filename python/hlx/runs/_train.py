"""`hlx.train`: a run from its configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import device
from hlx.runs._calls import Called, Calls
from hlx.runs._display import Display, display_of
from hlx.runs._follow import follow
from hlx.runs._run import Run
from hlx.runs._table import metric_of

__all__ = ["train"]

#: Where runs lie that are given no folder, and the name there of one that no file names.
_RUNS, _NAME = "runs", "run"
_STOPPING = "stopping after this step, with a checkpoint; once more ends at once"


def train(
    config: str | os.PathLike[str] | Mapping[str, Any],
    *,
    run: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    device: device | str | None = None,
    resume: bool = False,
    callbacks: Called | Iterable[Called] = (),
    progress: bool | None = None,
    set: Mapping[str, Any] | None = None,
) -> Run:
    """Trains as `hlx train` does, with the same bits, and returns the run.

    `config` is a TOML file or a dict with its sections (docs/configuration.md); `set` replaces values by dotted keys,
    `data` the place of the data. Paths in a file are relative to the file, those in a dict to the working directory.
    The run goes into the folder `run`, or the first of `runs/NAME`, `runs/NAME-2`, ... that holds none, where NAME is
    the file's or "run". With `resume` it continues after that folder's newest checkpoint (without `run`, in the last
    folder of the name). Without a `device` the run is on the default device if one was set, else on the fastest GPU,
    or the CPU if there is none.

    `callbacks` are called as the run goes on (`hlx.callbacks`). `progress` shows a bar and the metrics: None in
    notebooks and on terminals, True everywhere, False nowhere. Ctrl-C stops after the current step, saves a
    checkpoint and raises `hlx.errors.Interrupted`, which says how to resume; a second Ctrl-C raises at once. Raises
    ValueError for a configuration that cannot be, which names its key, and RuntimeError for a loss or parameters that
    are NaN or infinite.

    >>> config = {
    ...     "model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...     "data": {"format": "ascii_pairs", "count": 40},
    ...     "train": {"max_steps": 8, "batch_size": 8, "log_every": 2, "checkpoint_every": 4},
    ... }
    >>> run = hlx.train(config, run="runs/example", device="cpu")
    >>> run.finished, run.step
    (True, 8)
    >>> run.metrics["step"]
    [2, 4, 6, 8]
    """
    calls = Calls(callbacks)
    display = display_of(progress)
    file, values, name = _source(config)
    worker = _hlx.start_training(
        file,
        values,
        [(str(key), _json(value, f"set: {key}")) for key, value in (set or {}).items()],
        None if data is None else os.fspath(data),
        None if run is None else os.fspath(run),
        _RUNS,
        name,
        resume,
        device,
    )
    return _Course(calls, display).follow(worker)


def _source(config: Any) -> tuple[str | None, str | None, str]:
    """A file or values as JSON, and the name of runs that are given no folder."""
    if isinstance(config, Mapping):
        return None, _json(config, "config"), _NAME
    try:
        file = os.fspath(config)
    except TypeError:
        found = type(config).__name__
        raise errors.TypeError(f"train: config is a {found}, expected a TOML file or a dict of its sections") from None
    return file, None, Path(file).stem


def _json(value: Any, name: str) -> str:
    """A value as JSON; paths are texts, numbers of NumPy are numbers."""

    def other(one: Any) -> Any:
        if isinstance(one, os.PathLike):
            return os.fspath(one)
        if isinstance(one, Mapping):
            return dict(one)
        if hasattr(one, "tolist"):
            return one.tolist()
        raise errors.TypeError(f"train: {name} holds a {type(one).__name__}, expected numbers, texts, lists and dicts")

    try:
        return json.dumps(value, default=other, allow_nan=False)
    except ValueError as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.ValueError(f"train: {name} holds a number that is not finite, or itself") from None
    except TypeError as error:
        if isinstance(error, errors.Error):
            raise
        raise errors.TypeError(f"train: {name}: {error}") from None


class _Course:
    """One run from its start to its end."""

    def __init__(self, calls: Calls, display: Display) -> None:
        self._calls, self._display = calls, display
        self._run: Run | None = None

    def follow(self, worker: _hlx.RunWorker) -> Run:
        """Follows the run to its end."""
        outcome: dict[str, Any] | None = None
        error: BaseException | None = None
        try:
            outcome, is_interrupted = follow(worker, self._display, self._take, _STOPPING, depth=3)
            self._calls.flush()
            error = self._calls.error or self._why(outcome, is_interrupted)
        except BaseException as raised:
            error = raised
        run = self._run
        if run is None:
            raise error or errors.RuntimeError("train: the run has ended before it began")
        run._error = error
        self._display.end(self._last_line(outcome))
        self._calls.end(run)
        error = error or self._calls.error
        if error is not None:
            raise error
        return run

    def _take(self, kind: str, value: dict[str, Any]) -> bool:
        calls, display = self._calls, self._display
        if kind == "start":
            self._run = run = Run(value["run"])
            text = (
                f"{value['parameters']:,} parameters on {value['device']} [{value['selector']}], "
                f"{value['train_samples']:,} samples, {run.path}"
            )
            display.start(text, value["step"], value["total_steps"])
            calls.start(run)
        elif kind == "metric":
            metric = metric_of(value["metric"])
            display.metric(metric, value["line"])
            calls.metric(metric)
        elif kind == "checkpoint":
            calls.checkpoint(Path(value["path"]))
        return calls.wants_stop

    def _last_line(self, outcome: dict[str, Any] | None) -> str:
        path = "" if self._run is None else self._run.path
        if outcome is None or outcome["not_finite"]:
            return f"ended by an error; the run is in {path}"
        how = "stopped after" if outcome["interrupted"] else "trained"
        losses = [
            f"{name} {outcome[key]['loss']:.5f}"
            for name, key in (("loss", "train"), ("held-out loss", "held_out"))
            if outcome[key] and outcome[key]["loss"] is not None
        ]
        return ", ".join([f"{how} {outcome['step']} of {outcome['total_steps']} steps", *losses, str(path)])

    def _why(self, outcome: dict[str, Any], is_interrupted: bool) -> BaseException | None:
        """What the run is to end with."""
        if outcome["not_finite"]:
            return errors.RuntimeError(f"train: {outcome['not_finite']}")
        if outcome["interrupted"] and is_interrupted and self._run is not None:
            path = os.fspath(self._run.path)
            done = f"after step {outcome['step']} of {outcome['total_steps']}"
            text = f"train: interrupted {done}; its checkpoint is in {path}. Go on with hlx.Run({path!r}).resume()"
            return errors.Interrupted(text, self._run)
        return None
