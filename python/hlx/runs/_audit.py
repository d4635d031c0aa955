"""`hlx.audit`: computes stretches of a run again that a seed chooses, and signs what was found."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import device
from hlx.runs._display import display_of
from hlx.runs._follow import follow
from hlx.runs._run import Run
from hlx.runs._verify import count

__all__ = ["Audit", "AuditCheck", "audit", "check_audit", "new_key"]

_STOPPING = "stopping after this step; once more ends at once"


class _Report:
    """Lines of what was found, as text and as a table."""

    _report: dict[str, Any]

    @property
    def ok(self) -> bool:
        """Whether all that was compared is equal."""
        return bool(self._report["equal"])

    def __bool__(self) -> bool:
        return self.ok

    def _lines(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __str__(self) -> str:
        return "\n".join(f"{name:<10} {text}" for name, text in self._lines())

    def _repr_html_(self) -> str:
        lines = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(text)}</td></tr>" for name, text in self._lines()
        )
        return f"<table>{lines}</table>"


class Audit(_Report):
    """What an audit found; true if every step that was computed again, and every stored state, has the same bits.

    `statement` is a dict: what the certificate says, with the run's digests, the stretches, the work that was compared,
    the `chances` that a forged run would have passed, and the assumptions; None for a run that differs. `difference` is
    None, or a dict as that of `hlx.Verification`; `other_state` the checkpoint that is not that of its record.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        self._report = report

    @property
    def seed(self) -> str:
        """What has chosen the stretches."""
        return str(self._report["method"]["seed"])

    @property
    def checked(self) -> list[tuple[int, int]]:
        """The steps that were chosen: from the state after one to that after another; neighbours are one stretch."""
        return [(int(first), int(last)) for first, last in self._report["method"]["checked"]]

    @property
    def n_checked(self) -> int:
        """How many stretches were chosen."""
        return int(self._report["method"]["n_checked"])

    @property
    def n_stretches(self) -> int:
        """How many stretches the run has."""
        return int(self._report["method"]["n_stretches"])

    @property
    def statement(self) -> dict[str, Any] | None:
        """What the certificate says; None for a run that differs."""
        found: dict[str, Any] | None = self._report["audit"]
        return found

    @property
    def difference(self) -> dict[str, Any] | None:
        """The first step or state that differs; None if all is equal, or if `other_state` says what is wrong."""
        found: dict[str, Any] | None = self._report["difference"]
        return found

    @property
    def other_state(self) -> str | None:
        """The checkpoint whose tensors are not those of the chain's record of its step; None if there is none."""
        found: str | None = self._report["other_state"]
        return found

    @property
    def certificate(self) -> dict[str, str] | None:
        """The certificate's `file`, its `sha256` and the public `key`; None without a key, or if the run differs."""
        found: dict[str, str] | None = self._report["certificate"]
        return found

    @property
    def device(self) -> str:
        """The device that computed."""
        return str(self._report["device"])

    def _lines(self) -> list[tuple[str, str]]:
        spans = ", ".join(f"{first + 1} to {last}" for first, last in self.checked)
        lines = [
            ("device", self.device),
            ("seed", self.seed),
            ("stretches", f"{self.n_checked} of {self.n_stretches}, the steps {spans}"),
        ]
        difference, statement, written = self.difference, self.statement, self.certificate
        if self.other_state is not None:
            lines.append(("differs", f"{self.other_state}: is not the state that the chain's record of its step is of"))
        elif difference is not None:
            lines.append(("differs", f"at step {difference['step']}"))
        if statement is not None:
            work = statement["work"]
            lines.append(("equal", f"{work['steps']} steps in {work['records']} records"))
            for chance in statement["chances"]:
                forged = f"{chance['wrong_steps']} wrong steps, in {chance['wrong_stretches']} stretches"
                lines.append(("chance", f"{chance['passes']:.4f} that {forged}, would have passed"))
        if written is not None:
            lines.append(("written", f"{written['file']}, sha256 {written['sha256']}"))
            lines.append(("signed", f"by the key {written['key']}"))
        return lines

    def __repr__(self) -> str:
        verdict = "equal" if self.ok else "differs"
        return f"<audit: {self.n_checked} of {self.n_stretches} stretches, {verdict}>"


class AuditCheck(_Report):
    """What a check of a certificate found; true if it is of this run, and signed by the key that was given.

    `checks` is a list of dicts: `name`, `ok` and `detail` of each, up to the first that failed. `statement` is what the
    certificate says, and None if it cannot be read.
    """

    def __init__(self, report: dict[str, Any]) -> None:
        self._report = report

    @property
    def message(self) -> str:
        """The verdict in a sentence."""
        return str(self._report["message"])

    @property
    def checks(self) -> list[dict[str, Any]]:
        """What was checked, up to the first check that failed."""
        return list(self._report["checks"])

    @property
    def statement(self) -> dict[str, Any] | None:
        """What the certificate says; None if it cannot be read."""
        found: dict[str, Any] | None = self._report["audit"]
        return found

    def _lines(self) -> list[tuple[str, str]]:
        return [(one["name"] if one["ok"] else f"differs: {one['name']}", one["detail"]) for one in self.checks]

    def __repr__(self) -> str:
        return f"<check of a certificate: {self.message}>"


def audit(
    run: Run | str | os.PathLike[str],
    *,
    stretches: int | None = None,
    seed: int | str | None = None,
    key: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    micro_batch_size: int | None = None,
    device: device | str | None = None,
    progress: bool | None = None,
) -> Audit:
    """Computes stretches of a run again that a seed chooses, as `hlx audit` does, and compares every stored state.

    `stretches` is how many, 4 or all if left out; `seed` a number or any text that the run's maker could not know,
    random if left out. With `key`, the file of a private key (`hlx.new_key`), the certificate of a run that is
    equal is signed and written to `out`, RUN/audit.json if left out. `data` says where the corpus lies now,
    `micro_batch_size` how many samples are computed at a time, which changes no bit. Without a `device` it is the
    default device if one was set, else the fastest. A difference is no error: it is in what is returned. Raises
    ValueError for a run that cannot be audited, and `hlx.errors.Interrupted` for Ctrl-C.

    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40},
    ...           "train": {"max_steps": 4, "batch_size": 8, "log_every": 1, "checkpoint_every": 1, "keep": 4}}
    >>> found = hlx.audit(hlx.train(config, device="cpu"), stretches=2, seed=4711, device="cpu")
    >>> found.ok, found.n_checked, found.n_stretches
    (True, 2, 4)
    >>> found.statement["chances"][0]["passes"]
    0.5
    """
    path = _folder(run)
    n, size = count("audit", "stretches", stretches), count("audit", "micro_batch_size", micro_batch_size)
    if out is not None and key is None:
        raise errors.ValueError("audit: out is given without key, and only a signed certificate is written")
    text = None if seed is None else str(seed)
    display = display_of(progress)

    def take(kind: str, value: dict[str, Any]) -> bool:
        if kind == "start":
            chosen = f"{value['stretches']} of {value['of']} stretches"
            display.start(f"{path}, {chosen}, on {value['device']}", 0, value["steps"])
        return False

    key_path, out_path, data_path = (None if one is None else os.fspath(one) for one in (key, out, data))
    worker = _hlx.start_audit(path, n, text, key_path, out_path, data_path, size, device)
    report, is_interrupted = follow(worker, display, take, _STOPPING, depth=2)
    found, is_whole = Audit(report), bool(report["whole"])
    display.end(repr(found) if is_whole else "interrupted")
    if is_interrupted and not is_whole:
        raise errors.Interrupted("audit: interrupted; nothing differed up to there", run)
    return found


def check_audit(
    certificate: str | os.PathLike[str],
    run: Run | str | os.PathLike[str],
    *,
    key: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
) -> AuditCheck:
    """Checks the certificate of an audit against a run's folder, as `hlx audit --check` does; nothing is recomputed.

    `key` is the file of the public key that must have signed it. What does not fit is no error: it is in what is
    returned. Raises ValueError, or OSError, for a file that cannot be read.

    >>> import tempfile
    >>> config = {"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...           "data": {"format": "ascii_pairs", "count": 40},
    ...           "train": {"max_steps": 2, "batch_size": 8, "log_every": 1, "checkpoint_every": 1, "keep": 2}}
    >>> run, key = hlx.train(config, device="cpu"), tempfile.mkdtemp() + "/auditor"
    >>> public = hlx.new_key(key)
    >>> found = hlx.audit(run, stretches=1, seed=4711, key=key, device="cpu")
    >>> hlx.check_audit(found.certificate["file"], run, key=key + ".pub").ok
    True
    """
    key_path, data_path = (None if one is None else os.fspath(one) for one in (key, data))
    text = _hlx.check_audit(os.fspath(certificate), _folder(run), key_path, data_path)
    return AuditCheck(json.loads(text))


def new_key(path: str | os.PathLike[str]) -> str:
    """Makes a key that signs certificates, as `hlx key new` does, and returns the public key.

    The private key is a new file that its user alone can read, the public one lies beside it with the ending `.pub`.
    Raises ValueError if one of the files is there.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> public = hlx.new_key(folder + "/auditor")
    >>> hlx.new_key(folder + "/other") == public
    False
    """
    return _hlx.new_key(os.fspath(path))


def _folder(run: Run | str | os.PathLike[str]) -> Path:
    return run.path if isinstance(run, Run) else Path(os.fspath(run))
