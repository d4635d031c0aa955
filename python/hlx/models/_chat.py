"""Conversations with a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from hlx import _hlx
from hlx.models._generation import Drawing, TextStream, checked, stops_of


class Chat:
    """A conversation, laid out by the model's chat template; `model.chat()` begins one.

    What the model has read is kept: an answer reads only what is new.
    """

    def __init__(self, native: _hlx.Conversation) -> None:
        self._native = native

    def say(self, text: str, *, stop: str | Sequence[str] = (), **drawing: Unpack[Drawing]) -> TextStream:
        """Says something and returns the answer as a stream of pieces of text.

        The keywords are those of `CausalLM.generate`; `max_new_tokens` is 512 if left out. What was said and the
        answer are remembered once the answer has come to its end; of one that is closed before, neither is. Raises
        ValueError for a conversation that leaves no position for an answer.
        """
        options = checked("say", {"max_new_tokens": 512, **drawing}, stop=stops_of("say", stop))
        return TextStream(self._native.say(text, options), 1, "say")

    @property
    def messages(self) -> list[dict[str, str]]:
        """What was said so far: dicts with `role` and `content`."""
        return [{"role": role, "content": content} for role, content in self._native.messages]

    def clear(self) -> None:
        """Forgets what was said; what the conversation began with stays."""
        self._native.clear()
