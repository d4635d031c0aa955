"""Conversations for the native layer, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hlx import errors

_OPERATION = "apply_chat_template"
#: Stands at the end of a message that is continued; the blank after it tells whether the template trims messages.
_MARK = "\U0010fffb"

Message = Mapping[str, Any]


def is_batch(conversation: Any) -> bool:
    """Whether it is several conversations; raises TypeError for what is neither one nor several."""
    if isinstance(conversation, str | Mapping) or not isinstance(conversation, Sequence):
        found = type(conversation).__name__
        raise errors.TypeError(f"{_OPERATION}: conversation is a {found}, expected a list of messages")
    return bool(conversation) and not isinstance(conversation[0], Mapping) and isinstance(conversation[0], Sequence)


def as_json(
    messages: Sequence[Message],
    tools: Sequence[Any] | None,
    documents: Sequence[Any] | None,
    variables: Mapping[str, Any],
) -> str:
    """The parts of a conversation as the native layer reads them."""
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping):
            found = type(message).__name__
            raise errors.TypeError(f"{_OPERATION}: message {place} is a {found}, expected a dict")
    for tool in tools or ():
        if callable(tool):
            name = getattr(tool, "__name__", "tool")
            raise errors.TypeError(f"{_OPERATION}: tools hold the function {name}; describe it by a dict (JSON schema)")
    parts = [_plain(messages), _plain(tools), _plain(documents), dict(variables)]
    try:
        return json.dumps(parts, allow_nan=False, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise errors.TypeError(f"{_OPERATION}: {error}") from None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if value is None or (isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)):
        return value if value is None else list(value)
    raise TypeError(f"a {type(value).__name__} is no plain data")


def marked(messages: Sequence[Message]) -> list[Message]:
    """The messages with a mark at the end of the last one's text."""
    if not messages:
        raise errors.ValueError(f"{_OPERATION}: there is no message to continue")
    last = dict(messages[-1])
    content = last.get("content")
    if isinstance(content, str):
        last["content"] = content + _MARK + " "
    elif isinstance(content, Sequence) and content and isinstance(content[-1], Mapping) and "text" in content[-1]:
        last["content"] = [*content[:-1], {**content[-1], "text": content[-1]["text"] + _MARK + " "}]
    else:
        raise errors.ValueError(f"{_OPERATION}: the last message has no text to continue")
    return [*messages[:-1], last]


def before_mark(text: str) -> str:
    """The text up to the mark; if the template trims messages, without the blanks before it."""
    place = text.rfind(_MARK)
    if place < 0:
        raise errors.ValueError(f"{_OPERATION}: the template leaves the last message out, which is to be continued")
    is_trimmed = text[place + 1 : place + 2] != " "
    return text[:place].rstrip() if is_trimmed else text[:place]
