"""Decoding token by token."""

from __future__ import annotations

from hlx import _hlx
from hlx.text._checks import whole


class DecodeStream:
    """A text that grows by tokens: a piece comes out once no later token can change it. `Tokenizer.stream` begins one.

    All pieces together, with what `finish` returns, are the text of all tokens after the prompt, special ones left out.
    """

    def __init__(self, native: _hlx.DecodeStream) -> None:
        self._native = native

    def push(self, token_id: int) -> str:
        """Adds a token and returns the text that is clear now and was not before, perhaps none."""
        return self._native.push(whole("push", "token_id", token_id, 0, (1 << 32) - 1))

    def finish(self) -> str:
        """Ends the text and returns what is left of it; characters that are not whole become U+FFFD."""
        return self._native.finish()
