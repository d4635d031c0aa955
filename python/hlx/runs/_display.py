"""What a terminal shows of work in steps: a bar, and lines above it."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any, Protocol, TextIO

__all__ = ["Display", "Pace", "Silent", "Terminal", "display_of", "duration", "printable"]

#: Characters of a bar, and seconds between two drawings of it.
_WIDTH, _PAUSE = 32, 0.1


class Display(Protocol):
    """Shows work in steps."""

    def start(self, title: str, step: int, total: int) -> None:
        """The work begins after `step`."""

    def at(self, step: int, total: int) -> None:
        """A step is done."""

    def metric(self, metric: dict[str, Any], line: str) -> None:
        """A metric has come."""

    def note(self, line: str) -> None:
        """Something is to be said."""

    def end(self, line: str) -> None:
        """The work has ended."""


class Silent:
    """Shows nothing."""

    def start(self, title: str, step: int, total: int) -> None:
        """Does nothing."""

    def at(self, step: int, total: int) -> None:
        """Does nothing."""

    def metric(self, metric: dict[str, Any], line: str) -> None:
        """Does nothing."""

    def note(self, line: str) -> None:
        """Does nothing."""

    def end(self, line: str) -> None:
        """Does nothing."""


class Pace:
    """How long work has gone on, and how long it will."""

    def __init__(self, step: int) -> None:
        self._first, self._start = step, time.monotonic()

    def text(self, step: int, total: int) -> str:
        """As in `0:12 of about 0:40`."""
        elapsed = time.monotonic() - self._start
        done = step - self._first
        if done <= 0:
            return duration(elapsed)
        return f"{duration(elapsed)} of about {duration(elapsed * (total - self._first) / done)}"


class Terminal:
    """Lines on standard error, and below them a bar if it is a terminal."""

    def __init__(self, stream: TextIO, has_bar: bool) -> None:
        self._stream, self._has_bar = stream, has_bar
        self._pace = Pace(0)
        self._drawn = 0.0
        self._bar = ""

    def start(self, title: str, step: int, total: int) -> None:
        """Shows what begins, and an empty bar."""
        self._pace = Pace(step)
        self.note(title)
        self.at(step, total)

    def at(self, step: int, total: int) -> None:
        """Moves the bar."""
        now = time.monotonic()
        if not self._has_bar or total <= 0 or (step < total and now - self._drawn < _PAUSE):
            return
        self._drawn = now
        filled = _WIDTH * min(step, total) // total
        bar = f"{'█' * filled}{'░' * (_WIDTH - filled)} step {step}/{total}  {self._pace.text(step, total)}"
        # A bar that is wrapped could not be drawn over.
        self._bar = bar[: shutil.get_terminal_size().columns - 1]
        self._write(f"\r{self._bar}\x1b[K")

    def metric(self, metric: dict[str, Any], line: str) -> None:
        """Shows its line."""
        self.note(line)

    def note(self, line: str) -> None:
        """Shows a line above the bar; control characters, which a model may have written, are escaped."""
        line = printable(line)
        if self._bar:
            self._write(f"\r\x1b[K{line}\n{self._bar}")
        else:
            self._write(f"{line}\n")

    def end(self, line: str) -> None:
        """Takes the bar away, and shows a line."""
        if self._bar:
            self._bar = ""
            self._write("\r\x1b[K")
        self.note(line)

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except UnicodeEncodeError:
            encoding = self._stream.encoding or "ascii"
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
        except (OSError, ValueError):
            # Nobody is left to be shown anything.
            self._has_bar, self._bar = False, ""


def printable(line: str) -> str:
    """A text whose control characters a terminal does not carry out; the ends of lines stay."""
    return "".join(one if one.isprintable() or one == "\n" else repr(one)[1:-1] for one in line)


def duration(seconds: float) -> str:
    """Seconds as `0:07`, `12:34` or `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def display_of(progress: bool | None) -> Display:
    """The display for `progress=`: None shows something in a notebook and on a terminal, True everywhere."""
    if progress is False:
        return Silent()
    from hlx.runs import _notebook

    if _notebook.is_one():
        return _notebook.Notebook()
    stream = sys.stderr
    if stream is None:
        return Silent()
    is_terminal = stream.isatty()
    return Terminal(stream, is_terminal) if is_terminal or progress else Silent()
