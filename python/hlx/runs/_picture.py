"""The picture of a run's losses."""

from __future__ import annotations

import os
from pathlib import Path

from hlx import errors

__all__ = ["Picture"]


class Picture:
    """A picture as SVG, which a notebook shows in place.

    `str(picture)` is its text, and `save` writes it into a file.
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the picture into an SVG file and returns its path; another ending than `.svg` is a ValueError."""
        file = Path(path)
        if file.suffix.lower() != ".svg":
            raise errors.ValueError(f"save: {os.fspath(path)} does not end in .svg, the only format of a picture")
        file.write_text(self.svg, encoding="utf-8")
        return file

    def __str__(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<picture of {len(self.svg)} bytes; picture.save('curves.svg') writes it>"

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="max-width: 760px">{self.svg}</div>'
