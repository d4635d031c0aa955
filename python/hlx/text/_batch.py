"""Texts as rows of equal lengths."""

from __future__ import annotations

from typing import Any

from hlx import _hlx, errors
from hlx.text._checks import whole

_OPERATION = "Tokenizer"
_LONGEST = 1 << 24


def padded(
    rows: list[list[int]],
    surroundings: tuple[list[int], list[int]],
    pad: int | None,
    *,
    padding: bool | str,
    truncation: bool,
    max_length: int | None,
    pad_to_multiple_of: int | None,
    padding_side: str,
    truncation_side: str,
    return_tensors: str | None,
) -> dict[str, Any]:
    """The ids and the attention masks of rows, which `surroundings` begin and end, cut and padded."""
    for name, side in (("padding_side", padding_side), ("truncation_side", truncation_side)):
        if side not in ("right", "left"):
            raise errors.ValueError(f'{_OPERATION}: {name} is {side!r}, expected "right" or "left"')
    if padding not in (False, True, "longest", "max_length", "do_not_pad"):
        raise errors.ValueError(f'{_OPERATION}: padding is {padding!r}, expected True, "longest" or "max_length"')
    if return_tensors not in (None, "hlx"):
        raise errors.ValueError(f'{_OPERATION}: return_tensors is {return_tensors!r}, expected "hlx"')
    most = None if max_length is None else whole(_OPERATION, "max_length", max_length, 1, _LONGEST)
    if most is None and (truncation or padding == "max_length"):
        needs = "truncation" if truncation else "padding"
        raise errors.ValueError(f"{_OPERATION}: {needs} needs max_length")
    if truncation and most is not None:
        rows = [_cut(row, surroundings, most, truncation_side) for row in rows]
    width = _width(rows, padding, most, pad_to_multiple_of)
    if width is not None and pad is None:
        raise errors.ValueError(f"{_OPERATION}: the tokenizer states no padding token, which padding needs")
    masks = [[1] * len(row) for row in rows]
    if width is not None:
        rows = [_filled(row, width, pad or 0, padding_side) for row in rows]
        masks = [_filled(mask, width, 0, padding_side) for mask in masks]
    if return_tensors is None:
        return {"input_ids": rows, "attention_mask": masks}
    if len({len(row) for row in rows}) > 1:
        raise errors.ValueError(f"{_OPERATION}: the texts have rows of different lengths; a tensor needs padding=True")
    kind = _hlx.dtype("int32")
    return {name: _hlx.tensor(values, kind, "cpu") for name, values in (("input_ids", rows), ("attention_mask", masks))}


def _width(rows: list[list[int]], padding: bool | str, most: int | None, multiple: int | None) -> int | None:
    """The length that rows are padded to, if they are."""
    if padding in (False, "do_not_pad"):
        return None
    width = most if padding == "max_length" and most is not None else max((len(row) for row in rows), default=0)
    step = 1 if multiple is None else whole(_OPERATION, "pad_to_multiple_of", multiple, 1, _LONGEST)
    return -(-width // step) * step


def _cut(row: list[int], surroundings: tuple[list[int], list[int]], most: int, side: str) -> list[int]:
    """A row of at most so many tokens; the special ones around the text stay."""
    begin, end = surroundings
    text = row[len(begin) : len(row) - len(end)]
    room = most - len(begin) - len(end)
    if len(row) <= most:
        return row
    if room < 0:
        raise errors.ValueError(
            f"{_OPERATION}: max_length is {most}, and the tokenizer puts {len(begin) + len(end)} tokens around a text"
        )
    kept = text[:room] if side == "right" else text[len(text) - room :]
    return [*begin, *kept, *end]


def _filled(row: list[int], width: int, value: int, side: str) -> list[int]:
    """A row with padding."""
    padding = [value] * (width - len(row))
    return [*row, *padding] if side == "right" else [*padding, *row]
