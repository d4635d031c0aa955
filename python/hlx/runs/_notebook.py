"""What a notebook shows of work in steps: one output that is replaced while the work goes on."""

from __future__ import annotations

import html
import importlib
import sys
import time
from typing import Any

from hlx.runs._display import Pace
from hlx.runs._table import shown

__all__ = ["Notebook", "is_one"]

#: Seconds between two changes of the output, and how many metrics it shows.
_PAUSE, _LINES = 0.5, 8
#: The columns of the table, as far as a run has them.
_COLUMNS = ("step", "epoch", "loss", "held out", "accuracy", "learning_rate", "ms_per_step")


def is_one() -> bool:
    """Whether this is a notebook: a kernel of IPython with a front end that shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class Notebook:
    """A bar, the newest metrics as a table, and what is to be said, in one output."""

    def __init__(self) -> None:
        self._title = ""
        self._step, self._total = 0, 0
        self._pace = Pace(0)
        self._rows: list[dict[str, Any]] = []
        self._notes: list[str] = []
        self._samples: list[str] = []
        self._handle: Any = None
        self._drawn = 0.0

    def start(self, title: str, step: int, total: int) -> None:
        """Shows what begins, and an empty bar."""
        self._title, self._pace = title, Pace(step)
        self._step, self._total = step, total
        self._draw()

    def at(self, step: int, total: int) -> None:
        """Moves the bar."""
        self._step, self._total = step, total
        if time.monotonic() - self._drawn >= _PAUSE:
            self._draw()

    def metric(self, metric: dict[str, Any], line: str) -> None:
        """Adds a row to the table, or a sample below it."""
        if metric.get("kind") == "sample":
            self._samples = [*self._samples, f"{metric['prompt']}{metric['text']}"][-_LINES:]
        elif metric.get("kind") == "eval" and metric.get("split") == "held_out":
            row = {"step": metric["step"], "held out": metric["loss"], "accuracy": metric.get("accuracy")}
            if self._rows and self._rows[-1]["step"] == row["step"]:
                self._rows[-1].update(row)
            else:
                self._rows.append(row)
        elif metric.get("kind") == "train":
            self._rows.append({name: metric.get(name) for name in _COLUMNS})
        self._rows = self._rows[-_LINES:]

    def note(self, line: str) -> None:
        """Shows a line below the table."""
        self._notes.append(line)
        self._draw()

    def end(self, line: str) -> None:
        """Shows the last state, and a line."""
        self.note(line)

    def _draw(self) -> None:
        front: Any = importlib.import_module("IPython.display")
        self._drawn = time.monotonic()
        output = front.HTML(self.html())
        if self._handle is None:
            self._handle = front.display(output, display_id=True)
        else:
            self._handle.update(output)

    def html(self) -> str:
        """The output."""
        share = 100 * self._step / self._total if self._total else 0
        bar = (
            '<div style="width: 320px; height: 10px; background: #e2e8f0; border-radius: 5px">'
            f'<div style="width: {share:.1f}%; height: 10px; background: #2563eb; border-radius: 5px"></div></div>'
        )
        head = f"<div>{html.escape(self._title)}</div>" if self._title else ""
        pace = f"<div>step {self._step} of {self._total}, {self._pace.text(self._step, self._total)}</div>"
        samples = "".join(f"<pre>{html.escape(text)}</pre>" for text in self._samples)
        notes = "".join(f"<div>{html.escape(line)}</div>" for line in self._notes)
        return f"{head}{bar}{pace}{self._table()}{samples}{notes}"

    def _table(self) -> str:
        columns = [name for name in _COLUMNS if any(row.get(name) is not None for row in self._rows)]
        if not columns:
            return ""
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in columns)
        rows = ("".join(f"<td>{html.escape(shown(row.get(name)))}</td>" for name in columns) for row in self._rows)
        body = "".join(f"<tr>{row}</tr>" for row in rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
