"""Rows of a run's files as a table that reads well in a terminal and in a notebook."""

from __future__ import annotations

import html
import importlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from hlx import errors

__all__ = ["Table"]

#: Rows that a notebook or a terminal shows; of more the first and the last of them.
_SHOWN = 20
#: Characters of a text, and digits of a digest, that are shown.
_LONGEST, _DIGITS = 64, 12
_HEXADECIMAL = set("0123456789abcdef")


class Table(Sequence[dict[str, Any]]):
    """Rows with named columns: a sequence of dicts, one per row, in the order of their steps.

    `table[0]` is a row, `table["loss"]` a column as a list, with None where a row has no such value. A notebook shows
    it as a table.

    >>> run = hlx.train({"model": {"width": 16, "n_layers": 1, "n_heads": 2, "positions": 64},
    ...                  "data": {"format": "ascii_pairs", "count": 40},
    ...                  "train": {"max_steps": 4, "batch_size": 8, "log_every": 2}}, device="cpu")
    >>> run.metrics["step"]
    [2, 4]
    >>> run.metrics.columns[:3]
    ['step', 'epoch', 'loss']
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        self._rows = [dict(row) for row in rows]

    @property
    def columns(self) -> list[str]:
        """The names of the columns, in the order in which rows first have them."""
        names: dict[str, None] = {}
        for row in self._rows:
            names.update(dict.fromkeys(row))
        return list(names)

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Table: ...
    @overload
    def __getitem__(self, index: str) -> list[Any]: ...
    def __getitem__(self, index: int | slice | str) -> Any:
        if isinstance(index, str):
            if index not in self.columns:
                raise errors.KeyError(f"Table: there is no column {index!r}, expected one of {', '.join(self.columns)}")
            return [row.get(index) for row in self._rows]
        if isinstance(index, slice):
            return Table(self._rows[index])
        return dict(self._rows[index])

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(row) for row in self._rows)

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`; needs pandas."""
        pandas = _library("to_pandas", "pandas")
        return pandas.DataFrame(self._rows, columns=self.columns)

    def to_numpy(self) -> dict[str, Any]:
        """The columns as NumPy arrays by name, with NaN where a row has no number; needs NumPy."""
        numpy = _library("to_numpy", "numpy")
        found = {}
        for name in self.columns:
            values = self[name]
            if all(value is None or isinstance(value, (int, float)) for value in values):
                values = [math.nan if value is None else value for value in values]
            found[name] = numpy.array(values)
        return found

    def _shown(self) -> tuple[list[dict[str, Any]], int]:
        """The rows that are shown, and after how many of them others are left out."""
        if len(self._rows) <= _SHOWN:
            return self._rows, len(self._rows)
        half = _SHOWN // 2
        return [*self._rows[:half], *self._rows[-half:]], half

    def __repr__(self) -> str:
        columns = self.columns
        if not columns:
            return "(no rows)"
        rows, cut = self._shown()
        lines = [columns, *([shown(row.get(name)) for name in columns] for row in rows)]
        widths = [max(len(line[place]) for line in lines) for place in range(len(columns))]
        texts = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        if cut < len(rows):
            texts.insert(1 + cut, f"... ({len(self._rows) - len(rows)} rows)")
        return "\n".join(texts)

    def _repr_html_(self) -> str:
        columns = self.columns
        rows, cut = self._shown()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
        body = ["".join(f"<td>{html.escape(shown(row.get(name)))}</td>" for name in columns) for row in rows]
        if cut < len(rows):
            left_out = len(self._rows) - len(rows)
            body.insert(cut, f'<td colspan="{len(columns)}">... ({left_out} rows)</td>')
        lines = "".join(f"<tr>{row}</tr>" for row in body)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"


def _library(method: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        text = f"Table.{method}: the library {name} is missing: pip install {name}"
        raise ModuleNotFoundError(text, name=name) from error


def shown(value: Any) -> str:
    """A value as a table shows it: numbers with at most six digits, texts in one line."""
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        if isinstance(value, (list, dict)):
            return f"{len(value)} values"
        line = " ".join(str(value).split())
        if len(line) == 64 and set(line) <= _HEXADECIMAL:
            return line[:_DIGITS] + "..."
        return line if len(line) <= _LONGEST else line[: _LONGEST - 3] + "..."
    return str(value) if isinstance(value, int) else f"{value:.6g}"


def metric_of(text: str) -> dict[str, Any]:
    """A line of `metrics.jsonl`; a number that is not finite, for which JSON has `null`, is NaN."""
    return with_nan(json.loads(text))


def with_nan(metric: dict[str, Any]) -> dict[str, Any]:
    """A metric with NaN for None, and what the ranks exchanged as columns of its own."""
    found = {name: math.nan if value is None else value for name, value in metric.items()}
    exchange = found.pop("exchange", None)
    if isinstance(exchange, dict):
        found.update({f"exchange_{name}": math.nan if value is None else value for name, value in exchange.items()})
    return found
