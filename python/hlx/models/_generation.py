"""Texts and tokens that a model writes, one piece after the other."""

from __future__ import annotations

import codecs
import operator
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, TypedDict

from hlx import _hlx, errors
from hlx._hlx import Tensor

#: The most texts of a call, the most tokens of a text, and past the largest seed.
_MOST_TEXTS, _MOST_TOKENS, _SEEDS = 1 << 20, 1 << 24, 1 << 64


class Drawing(TypedDict, total=False):
    """How tokens are drawn, and how many: the keywords of `generate`, `generate_tokens` and `Chat.say`."""

    #: Tokens at most.
    max_new_tokens: int
    #: Divides the logits; 0 always takes the likeliest token.
    temperature: float
    #: Draws from this many of the likeliest tokens; 0 from all.
    top_k: int
    #: Draws from the likeliest tokens that together have this probability.
    top_p: float
    #: Draws from the tokens that have at least this part of the likeliest one's probability.
    min_p: float
    #: Divides the logits of tokens that are there already; 1 changes nothing.
    repetition_penalty: float
    #: Keys the draws: the same seed gives the same text on every device.
    seed: int


def checked(operation: str, drawing: Drawing, **more: Any) -> dict[str, Any]:
    """The options for the native layer; a wrong one is an error with its name."""
    found: dict[str, Any] = {}
    for name, value in {**drawing, **more}.items():
        if name in ("stop", "raw"):
            found[name] = value
        elif name in ("temperature", "top_p", "min_p", "repetition_penalty"):
            found[name] = _real(operation, name, value)
        elif name in ("max_new_tokens", "top_k", "num_return_sequences", "seed"):
            least = 1 if name == "num_return_sequences" else 0
            most = {"num_return_sequences": _MOST_TEXTS, "seed": _SEEDS - 1}.get(name, _MOST_TOKENS)
            found[name] = whole(operation, name, value, least, most)
        else:
            raise errors.TypeError(f"{operation}: {name} is no argument, expected one of {', '.join(_NAMES)}")
    return found


_NAMES = (*Drawing.__annotations__, "num_return_sequences", "stop")


def _real(operation: str, name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise errors.TypeError(f"{operation}: {name} is {value!r}, expected a number") from None


def whole(operation: str, name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise errors.TypeError(f"{operation}: {name} is {value!r}, expected an integer") from None
    if not least <= number <= most:
        raise errors.ValueError(f"{operation}: {name} is {number}, expected {least} to {most}")
    return number


def stops_of(operation: str, stop: str | Sequence[str]) -> list[str]:
    """The texts that end a text."""
    stops = [stop] if isinstance(stop, str) else list(stop)
    for one in stops:
        if not isinstance(one, str) or not one:
            raise errors.TypeError(f"{operation}: stop holds {one!r}, expected texts of at least one character")
    return stops


def ids_of(operation: str, ids: Tensor | Iterable[int]) -> list[int]:
    """One prompt of token ids, from a tensor [T] or [1, T], an array or a list."""
    listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if len(listed) == 1 and isinstance(listed[0], list):
        listed = listed[0]
    found: list[int] = []
    for one in listed:
        try:
            number = operator.index(one)
        except TypeError:
            raise errors.TypeError(f"{operation}: ids hold {one!r}, expected whole numbers") from None
        if not 0 <= number < 1 << 32:
            raise errors.ValueError(f"{operation}: ids hold {number}, expected token ids")
        found.append(number)
    return found


class _Stream:
    """What all streams have: they are iterators, context managers, and end when they are closed."""

    def __init__(self, native: _hlx.GeneratedStream, count: int, operation: str) -> None:
        self._native, self._count, self._operation = native, count, operation

    def __iter__(self) -> Self:
        return self

    def _event(self) -> tuple[int, Any]:
        """The next piece of a sequence, None at its end; raises what has ended one by itself."""
        event = next(self._native)
        number, piece, reason = event
        if reason is not None:
            which = f"text {number}: " if self._count > 1 else ""
            raise errors.RuntimeError(f"{self._operation}: {which}{reason}")
        return number, piece

    def close(self) -> None:
        """Ends the stream where it is."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TextStream(_Stream):
    """Texts while they grow: an iterator over their pieces.

    Of one text the pieces are strings; of several, pairs of the text's number and a string, in the order in which
    they come. `text` and `texts` take what is left and return all.
    """

    def __init__(
        self,
        native: _hlx.GeneratedStream,
        count: int = 1,
        operation: str = "generate",
    ) -> None:
        super().__init__(native, count, operation)
        self._pieces: list[list[str]] = [[] for _ in range(count)]
        # Of models over bytes a piece may end within a character.
        self._decoders = [codecs.getincrementaldecoder("utf-8")("replace") for _ in range(count)]
        self._is_single = count == 1

    def __next__(self) -> Any:
        """The next piece."""
        while True:
            number, piece = self._event()
            text = self._decoders[number].decode(piece or b"", final=piece is None)
            if text:
                self._pieces[number].append(text)
                return text if self._is_single else (number, text)

    @property
    def texts(self) -> list[str]:
        """All texts, taken to their ends: those of one prompt one after the other."""
        for _ in self:
            pass
        return ["".join(pieces) for pieces in self._pieces]

    @property
    def text(self) -> str:
        """The text, taken to its end. Raises ValueError for several: take `texts`."""
        if not self._is_single:
            raise errors.ValueError(f"text: there are {self._count} texts, take texts")
        return self.texts[0]

    def __str__(self) -> str:
        """The text so far, or the texts, each on a line."""
        return "\n".join("".join(pieces) for pieces in self._pieces)


class TokenStream(_Stream):
    """Token ids as they are drawn: of one sequence ints, of several pairs of the sequence's number and an int."""

    def __init__(self, native: _hlx.GeneratedStream, count: int) -> None:
        super().__init__(native, count, "generate_tokens")
        self._tokens: list[list[int]] = [[] for _ in range(count)]

    def __next__(self) -> Any:
        """The next token."""
        while True:
            number, token = self._event()
            if token is not None:
                self._tokens[number].append(token)
                return token if self._count == 1 else (number, token)

    @property
    def tokens(self) -> list[list[int]]:
        """The tokens of all sequences, taken to their ends."""
        for _ in self:
            pass
        return [list(tokens) for tokens in self._tokens]


def prompts_of(operation: str, prompt: Any, encode: Callable[[str], list[int]]) -> list[list[int]]:
    """The prompts as ids: of a text, ids, or a list of either."""
    if isinstance(prompt, str):
        return [encode(prompt)]
    if isinstance(prompt, Tensor) or hasattr(prompt, "__array__"):
        rows = prompt.tolist()
    else:
        rows = list(prompt)
    if not rows:
        raise errors.ValueError(f"{operation}: there is no prompt")
    if not isinstance(rows[0], str | list | tuple | Tensor) and not hasattr(rows[0], "__array__"):
        return [ids_of(operation, rows)]
    return [encode(row) if isinstance(row, str) else ids_of(operation, row) for row in rows]
