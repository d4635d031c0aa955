"""Files of texts to token shards."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from hlx import _hlx, errors
from hlx.text._checks import MAX_THREADS, WORDS, Paths, optional, paths_of, text_of
from hlx.text._progress import Bar, Told
from hlx.text._shards import Shards
from hlx.text._tokenizer import Tokenizer

#: The folder of chat templates beside the one that is named `default`.
_MORE = "additional_chat_templates"


def prepare(
    files: Paths,
    out: str | os.PathLike[str],
    tokenizer: Tokenizer | str | os.PathLike[str] = "bytes",
    *,
    format: str | None = None,
    separator: str | None = None,
    pair_separator: str | None = None,
    chat_template: str | os.PathLike[str] | None = None,
    date: str | None = None,
    bos: bool | None = None,
    eos: bool = True,
    shard_tokens: int | None = None,
    threads: int | None = None,
    progress: Told = None,
) -> Shards:
    """Turns files of text, JSON lines and chats into a folder of token shards, as `hlx data prepare`, with its bytes.

    `files` are files, folders and globs; plain, gzip or zstd. `tokenizer` is one, a path, "bytes" or "characters" (the
    files' own). Keywords are the program's options: `format` ("text", "jsonl", "tokens"), `separator` of
    documents, `pair_separator` between input and output, `chat_template` (a source, or a path), `date` that it finds,
    `bos` and `eos` (whether documents begin and end with these tokens; by default they begin as the tokenizer begins a
    text), `shard_tokens` and `threads`. A call that was stopped, even by Ctrl-C, continues where it was if it is made
    again, and leaves the same bytes. `progress` is called with a `Progress`; if left out, a terminal shows a line.
    Raises ValueError with the file, and the line where there is one, that is wrong.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> _ = open(f"{folder}/pairs.jsonl", "w").write('{"input": "2+2", "output": "4"}')
    >>> shards = hlx.text.prepare(f"{folder}/pairs.jsonl", f"{folder}/tokens")
    >>> shards[0]["ids"].tolist(), shards[0]["trained"].tolist()
    ([50, 43, 50, 30, 52, 4], [False, False, False, False, True, True])
    """
    paths = paths_of("prepare", files)
    count = optional("prepare", "threads", threads, 1, MAX_THREADS)
    made = _tokenizer_of(tokenizer, paths, format, count)
    if chat_template is None and any(name.startswith(_MORE) for name in made._native.files):
        line = f"prepare: {_MORE} is not copied; beside the shards chats with tools are laid out by chat_template.jinja"
        warnings.warn(line, stacklevel=2)
    with Bar(progress) as bar:
        native = _hlx.prepare_texts(
            paths,
            out,
            made._native,
            format=format,
            separator=_optional_text("separator", separator),
            pair_separator=_optional_text("pair_separator", pair_separator),
            chat_template=_template_of(chat_template),
            date=_optional_text("date", date),
            begin=None if bos is None else bool(bos),
            end=bool(eos),
            shard_tokens=optional("prepare", "shard_tokens", shard_tokens, 1, WORDS - 1),
            threads=count,
            progress=bar.told,
        )
    return Shards._of(native, os.fspath(out))


def _tokenizer_of(given: Any, paths: list[str], format: str | None, threads: int | None) -> Tokenizer:
    if isinstance(given, Tokenizer):
        return given
    if given == "bytes":
        return Tokenizer.bytes()
    if given == "characters":
        return Tokenizer._of(_hlx.characters_tokenizer(paths, format, threads))
    if isinstance(given, str | os.PathLike):
        return Tokenizer.from_file(given)
    raise errors.TypeError(f"prepare: tokenizer is a {type(given).__name__}, expected hlx.text.Tokenizer or a path")


def _optional_text(name: str, value: Any) -> str | None:
    return None if value is None else text_of("prepare", name, value)


def _template_of(given: Any) -> str | None:
    if not isinstance(given, os.PathLike):
        return _optional_text("chat_template", given)
    try:
        return Path(given).read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise errors.ValueError(f"prepare: chat_template: {os.fspath(given)}: {error}") from None
