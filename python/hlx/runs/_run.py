"""`hlx.Run`: the folder that a run leaves, which may still be training."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlx import _hlx, errors
from hlx._hlx import device
from hlx.runs._calls import Called
from hlx.runs._picture import Picture
from hlx.runs._table import Table, with_nan

if TYPE_CHECKING:
    from hlx.models import CausalLM

__all__ = ["Run"]


class Run:
    """What a run has left in its folder: configuration, metrics, samples, checkpoints, and the chain of its states.

    `folder` is one that `hlx.train` or the program `hlx train` has written. Everything is read when it is looked at,
    so a run that trains right now, in this process or another, shows how far it is. Raises ValueError for a path that
    is no run folder, and for damaged files.

    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40, "eval_fraction": 0.2},
    ...           "train": {"max_steps": 4, "batch_size": 8, "log_every": 2, "eval_every": 2}}
    >>> hlx.train(config, run="runs/small", device="cpu").name
    'small'
    >>> run = hlx.Run("runs/small")
    >>> run.status, run.step, run.config["train"]["learning_rate"]
    ('finished', 4, 0.001)
    >>> run.evaluations["split"]
    ['held_out', 'held_out', 'train']
    >>> [(entry["step"], len(entry["digest"])) for entry in run.chain]
    [(0, 64), (2, 64), (4, 64)]
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            self._path = Path(folder)
        except TypeError:
            raise errors.TypeError(f"Run: folder is a {type(folder).__name__}, expected a path") from None
        _hlx.run_config(self._path)
        self._error: BaseException | None = None

    @property
    def error(self) -> BaseException | None:
        """The exception that has ended the run, for callbacks at its end; None for a run that is read from a folder."""
        return self._error

    @property
    def path(self) -> Path:
        """The folder."""
        return self._path

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self._path.name or self._path.resolve().name

    @property
    def config(self) -> dict[str, Any]:
        """The configuration with every default filled in."""
        found: dict[str, Any] = json.loads(_hlx.run_config(self._path))
        # TOML has no whole number from 2^63 on; such a seed is a text there.
        found["seed"] = int(found["seed"])
        return found

    def _metrics(self, kind: str) -> Table:
        found = json.loads(_hlx.run_metrics(self._path))
        rows = (dict(metric) for metric in found if metric.pop("kind") == kind)
        return Table(with_nan(row) for row in rows)

    @property
    def metrics(self) -> Table:
        """A row for each log period: step, epoch, loss, grad_norm, learning_rate, ms_per_step, and the speed.

        The loss is the mean over the period, in nats per predicted byte, token or image.
        """
        return self._metrics("train")

    @property
    def evaluations(self) -> Table:
        """A row for each evaluation: step, split ("held_out" or "train"), loss, and perplexity or accuracy."""
        return self._metrics("eval")

    @property
    def samples(self) -> Table:
        """A row for each text that the model wrote at an evaluation: step, prompt, text."""
        return self._metrics("sample")

    @property
    def checkpoints(self) -> Table:
        """A row for each checkpoint that is there: step, path, loss, digests, and whether its loss is the lowest."""
        rows = json.loads(_hlx.run_checkpoints(self._path))
        names = ("step", "loss", "best", "path", "parameters", "optimizer", "record", "non_finite")
        return Table({name: Path(row[name]) if name == "path" else row[name] for name in names} for row in rows)

    @property
    def best(self) -> dict[str, Any] | None:
        """The checkpoint with the lowest loss, as a row of `checkpoints`; None before there is one."""
        return next((row for row in self.checkpoints if row["best"]), None)

    @property
    def chain(self) -> Table:
        """A row for each record of the chain: step, digest, the digest before it, those of parameters and optimizer.

        `losses` and `norms` are those of each step since the record before. Every digest was recomputed from the
        record, and each names the one before it; a chain where that is not so raises ValueError. Runs with equal
        digests have equal bits. `hlx.verify` also computes the steps again.
        """
        records, _ = _hlx.run_chain(self._path)
        rows = []
        for record in json.loads(records):
            for name, values in (("losses", "loss_values"), ("norms", "norm_values")):
                record[name] = [math.nan if value is None else value for value in record[values]]
            names = ("step", "epoch", "digest", "previous", "parameters", "optimizer", "losses", "norms", "tensors")
            rows.append({name: record[name] for name in names})
        return Table(rows)

    @property
    def digest(self) -> str | None:
        """The digest of the chain's last record, which stands for all states of the run; None before the first."""
        records = json.loads(_hlx.run_chain(self._path)[0])
        return records[-1]["digest"] if records else None

    def _facts(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_hlx.run_facts(self._path))
        return found

    @property
    def status(self) -> str:
        """The state of the run: "training", "finished", or "stopped" for one that can be resumed."""
        facts = self._facts()
        if facts["holder"] is not None:
            return "training"
        return "finished" if facts["has_ended"] else "stopped"

    @property
    def finished(self) -> bool:
        """Whether the run came to its end: its steps or epochs, its target loss, or early stopping."""
        return self.status == "finished"

    @property
    def step(self) -> int:
        """The step of the newest checkpoint; 0 before the first."""
        return self._facts()["saved_step"] or 0

    @property
    def stretches(self) -> Table:
        """A row for each time that the run was started or resumed: the step, the device, its driver, HLX's version."""
        manifest = self._facts()["manifest"] or {"stretches": []}
        return Table(manifest["stretches"])

    def curves(self, *others: Run, title: str | None = None, target: float | None = None) -> Picture:
        """The picture of the losses that `hlx plot` draws; with other runs, of the evaluations of all.

        Raises ValueError for a run that has measured no loss yet.
        """
        if others and target is not None:
            raise errors.ValueError("curves: target belongs to the picture of one run")
        return Picture(_hlx.plot_runs([run.path for run in (self, *others)], title, target))

    plot = curves

    def model(self, which: str | int = "latest", device: device | str | None = None, **opening: Any) -> CausalLM:
        """The language model of a checkpoint: "latest", "best" or the one of a step.

        `opening` has the keywords of `hlx.load_model`. Raises ValueError for a step without a checkpoint, and for a
        classifier, whose tensors `hlx.load_file(path / "model.safetensors")` reads.
        """
        from hlx.models import load_model

        return load_model(self._checkpoint(which), device, **opening)

    def _checkpoint(self, which: str | int) -> Path:
        rows = self.checkpoints
        if not len(rows):
            raise errors.ValueError(f"model: {self._path} holds no checkpoint yet")
        if which == "latest":
            return Path(rows[-1]["path"])
        if which == "best":
            best = self.best
            if best is None:
                raise errors.ValueError(f"model: {self._path} holds no checkpoint with a finite loss")
            return Path(best["path"])
        for row in rows:
            if row["step"] == which:
                return Path(row["path"])
        steps = ", ".join(str(step) for step in rows["step"])
        raise errors.ValueError(f"model: there is no checkpoint {which!r}, expected latest, best or a step of {steps}")

    def resume(
        self,
        *,
        data: str | os.PathLike[str] | None = None,
        device: device | str | None = None,
        callbacks: Called | Iterable[Called] = (),
        progress: bool | None = None,
        set: Mapping[str, Any] | None = None,
    ) -> Run:
        """Continues the run after its newest checkpoint, with the bits that it would have had without the stop.

        The arguments are those of `hlx.train`. `set` may change keys that decide no bit of a step, such as
        `train.log_every`; others raise ValueError.
        """
        from hlx.runs._train import train

        return train(
            self._path / "config.toml",
            run=self._path,
            data=data,
            device=device,
            resume=True,
            callbacks=callbacks,
            progress=progress,
            set=set,
        )

    def _summary(self) -> list[tuple[str, str]]:
        facts = self._facts()
        status = "training" if facts["holder"] is not None else "finished" if facts["has_ended"] else "stopped"
        lines = [("run", str(self._path)), ("status", f"{status}, saved at step {facts['saved_step'] or 0}")]
        manifest = facts["manifest"]
        if manifest is not None:
            lines.append(("model", f"{manifest['n_parameters']:,} parameters"))
            lines.append(("device", ", ".join(dict.fromkeys(one["device"] for one in manifest["stretches"]))))
        metrics, evaluations = self.metrics, self.evaluations
        if len(metrics):
            lines.append(("loss", f"{metrics[-1]['loss']:.5f} at step {metrics[-1]['step']}"))
        held_out = [row for row in evaluations if row["split"] == "held_out"]
        if held_out:
            accuracy = held_out[-1].get("accuracy")
            right = "" if accuracy is None else f", {100 * accuracy:.2f} % right"
            lines.append(("held out", f"{held_out[-1]['loss']:.5f} at step {held_out[-1]['step']}{right}"))
        return lines

    def __repr__(self) -> str:
        return f"hlx.Run({os.fspath(self._path)!r})"

    def __str__(self) -> str:
        return "\n".join(f"{name:<9} {text}" for name, text in self._summary())

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self._summary()
        )
        try:
            picture = self.curves()._repr_html_()
        except errors.ValueError:
            picture = ""
        return f"<table>{lines}</table>{picture}"
