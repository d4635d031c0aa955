"""Arguments of the functions of `hlx.text`."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any

from hlx import errors

#: The largest numbers of a vocabulary, of threads, and past the largest of 64 bits.
MAX_VOCAB, MAX_THREADS, WORDS = 1 << 24, 1 << 10, 1 << 64

Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def whole(operation: str, name: str, value: Any, least: int, most: int) -> int:
    """A whole number within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.TypeError(f"{operation}: {name} is {value!r}, expected an integer") from None
    if not least <= number <= most:
        raise errors.ValueError(f"{operation}: {name} is {number}, expected {least} to {most}")
    return number


def optional(operation: str, name: str, value: Any, least: int, most: int) -> int | None:
    """As `whole`; None stays None."""
    return None if value is None else whole(operation, name, value, least, most)


def text_of(operation: str, name: str, value: Any) -> str:
    """A text, which has no lone surrogate."""
    if not isinstance(value, str):
        raise errors.TypeError(f"{operation}: {name} is a {type(value).__name__}, expected a str")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise errors.ValueError(
                f"{operation}: {name} has a lone surrogate at character {error.start}, which is no text"
            ) from None
    return value


def texts_of(operation: str, name: str, values: Any) -> list[str]:
    """Several texts."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise errors.TypeError(f"{operation}: {name} is a {type(values).__name__}, expected several texts")
    return [text_of(operation, f"{name}[{place}]", value) for place, value in enumerate(values)]


def paths_of(operation: str, files: Any) -> list[str]:
    """Files, folders and globs: one or several."""
    several = [files] if isinstance(files, str | os.PathLike) else files
    if not isinstance(several, Iterable):
        raise errors.TypeError(f"{operation}: files is a {type(files).__name__}, expected paths")
    found = []
    for one in several:
        if not isinstance(one, str | os.PathLike):
            raise errors.TypeError(f"{operation}: files hold a {type(one).__name__}, expected paths")
        found.append(os.fspath(one))
    if not found:
        raise errors.ValueError(f"{operation}: there are no files")
    return found
