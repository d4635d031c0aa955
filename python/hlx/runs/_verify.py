"""`hlx.verify`: computes a run's steps again, and compares every bit."""

from __future__ import annotations

import html
import operator
import os
from pathlib import Path
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import device
from hlx.runs._display import display_of
from hlx.runs._follow import follow
from hlx.runs._run import Run

__all__ = ["Verification", "verify"]

_STOPPING = "stopping after this step; once more ends at once"


class Verification:
    """What a verification found; true if all bits are equal.

    `difference` is None, or a dict: `step`, the first step that shows it; `source` ("chain" or "checkpoint") and
    `record`, what the recomputation differs from; `equal_to`, the last record that is equal; `tensor` with the first
    element that differs; `mismatches`, other values with what was recorded and what was found.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        self._report = report

    @property
    def ok(self) -> bool:
        """Whether every record and checkpoint that was recomputed is equal."""
        return self.difference is None

    @property
    def difference(self) -> dict[str, Any] | None:
        """The first difference; None if all is equal."""
        found: dict[str, Any] | None = self._report["difference"]
        return found

    @property
    def from_step(self) -> int:
        """The step of the state that it began with; 0 for the initial parameters."""
        return int(self._report["from"])

    @property
    def to_step(self) -> int:
        """The step of the last record that was wanted."""
        return int(self._report["to"])

    @property
    def records(self) -> int:
        """How many records of the chain were compared."""
        return int(self._report["records"])

    @property
    def checkpoints(self) -> int:
        """How many checkpoints were compared, element by element."""
        return int(self._report["checkpoints"])

    @property
    def equal_to(self) -> int | None:
        """The step of the last record that is equal; None if none is."""
        found: int | None = self._report["equal_to"]
        return found

    @property
    def digest(self) -> str:
        """The digest of that record."""
        return str(self._report["digest"])

    @property
    def device(self) -> str:
        """The device that computed."""
        return str(self._report["device"])

    def __bool__(self) -> bool:
        return self.ok

    def _lines(self) -> list[tuple[str, str]]:
        report, base = self._report, self._report["base"]
        lines = [
            ("run", str(report["run"])),
            ("device", self.device),
            ("from", f"step {self.from_step}, {base}" if base else "the initial parameters"),
            ("compared", f"{self.records} records, {self.checkpoints} checkpoints"),
        ]
        if report["torn"]:
            lines.append(("chain", "its last line is cut short and left out"))
        difference = self.difference
        if difference is None:
            return [*lines, ("equal", f"up to step {self.to_step}, record {self.digest}")]
        source = "record" if difference["source"] == "chain" else "checkpoint"
        lines.append(("differs", f"at step {difference['step']}, in the {source} of step {difference['record']}"))
        before = difference["equal_to"]
        lines.append(("equal", "nothing before it" if before is None else f"up to the record of step {before}"))
        tensor = difference["tensor"]
        if tensor:
            lines.append(("tensor", f"{tensor['name']}: recorded {tensor['recorded']}, found {tensor['recomputed']}"))
            element = tensor["element"]
            if element:
                bits = f"recorded {element['recorded']}, found {element['recomputed']}"
                lines.append(("element", f"{element['index']}: {bits}"))
        for one in difference["mismatches"]:
            lines.append((one["what"], f"recorded {one['recorded']}, found {one['recomputed']}"))
        return lines

    def __str__(self) -> str:
        return "\n".join(f"{name:<9} {text}" for name, text in self._lines())

    def __repr__(self) -> str:
        difference = self.difference
        verdict = f"differs at step {difference['step']}" if difference else f"equal up to step {self.to_step}"
        return f"<verification of {self._report['run']}: {verdict}>"

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self._lines()
        )
        return f"<table>{lines}</table>"


def verify(
    run: Run | str | os.PathLike[str],
    *,
    from_step: int | None = None,
    to_step: int | None = None,
    data: str | os.PathLike[str] | None = None,
    micro_batch_size: int | None = None,
    device: device | str | None = None,
    progress: bool | None = None,
) -> Verification:
    """Computes a run's steps again, as `hlx verify` does, and compares each record of its chain and each checkpoint.

    The device need not be the run's. It begins at the newest checkpoint at or before `from_step`, or with the initial
    parameters, and ends at the first record at or after `to_step`, or at the chain's end. `data` says where the
    corpus lies now, `micro_batch_size` how many samples are computed at a time, which changes no bit. Without a
    `device` it is the default device if one was set, else the fastest. A difference is no error: it is in what is
    returned. Raises ValueError for a run that cannot be checked, and `hlx.errors.Interrupted` for Ctrl-C.

    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40},
    ...           "train": {"max_steps": 4, "batch_size": 8, "log_every": 2}}
    >>> run = hlx.train(config, device="cpu")
    >>> verification = hlx.verify(run, device="cpu")
    >>> verification.ok, verification.records, verification.digest == run.digest
    (True, 3, True)
    """
    path = run.path if isinstance(run, Run) else Path(os.fspath(run))
    numbers = {"from_step": from_step, "to_step": to_step, "micro_batch_size": micro_batch_size}
    first, last, size = (count("verify", name, value) for name, value in numbers.items())
    display = display_of(progress)

    def take(kind: str, value: dict[str, Any]) -> bool:
        if kind == "start":
            title = f"{path}, steps {value['from']} to {value['to']}, on {value['device']}"
            display.start(title, value["from"], value["to"])
        return False

    where = None if data is None else os.fspath(data)
    worker = _hlx.start_verification(path, first, last, where, size, device)
    report, is_interrupted = follow(worker, display, take, _STOPPING, depth=2)
    found = Verification(report)
    is_whole = not found.ok or found.equal_to == found.to_step
    display.end(repr(found) if is_whole else "interrupted")
    if is_interrupted and not is_whole:
        equal = "nothing was compared" if found.equal_to is None else f"all is equal up to step {found.equal_to}"
        raise errors.Interrupted(f"verify: interrupted; {equal}", run)
    return found


def count(operation: str, name: str, value: int | None) -> int | None:
    """A whole number of an operation's argument, or None."""
    if value is None:
        return None
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.TypeError(f"{operation}: {name} is {value!r}, expected a whole number") from None
    if not 0 <= number < 1 << 63:
        raise errors.ValueError(f"{operation}: {name} is {number}, expected a whole number from 0 on")
    return number
