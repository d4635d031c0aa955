"""Tokenizers: text to tokens and back."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx.text._batch import padded
from hlx.text._chat import Message, as_json, before_mark, is_batch, marked
from hlx.text._checks import MAX_THREADS, Paths, optional, paths_of, text_of, texts_of, whole
from hlx.text._progress import Bar, Told
from hlx.text._stream import DecodeStream
from hlx.text._training import chunks_of, trainer_of

Ids = Sequence[int] | Tensor | int


class Tokenizer:
    """Text to tokens and back: of a `tokenizer.json`, of bytes, of characters, or trained.

    A tokenizer does not change, and several threads may use it. Methods have the names of `transformers`, and give the
    same tokens and texts.

    >>> tokenizer = hlx.text.Tokenizer.bytes()
    >>> tokenizer.encode("hi")
    [104, 105]
    >>> tokenizer.decode([104, 105])
    'hi'
    """

    _native: _hlx.NativeTokenizer

    def __init__(self) -> None:
        raise errors.TypeError(
            "Tokenizer: made by from_file, bytes, characters, train or train_from_iterator, not by a call"
        )

    @classmethod
    def _of(cls, native: _hlx.NativeTokenizer) -> Self:
        """A tokenizer around one of the native layer."""
        made = cls.__new__(cls)
        made._native = native
        return made

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a `tokenizer.json`, or that of a folder, with the settings and chat templates beside it; or that of
        a GGUF file's metadata.

        `tokenizer_config.json`, `special_tokens_map.json` and the files of chat templates count as in `transformers`.
        Raises ValueError for a file that cannot be read, or is no tokenizer.
        """
        return cls._of(_hlx.NativeTokenizer.open(path))

    @classmethod
    def bytes(cls) -> Self:
        """One token per byte: 256 tokens. 0x1e separates the input from the output of a pair, 0x04 ends a document."""
        return cls._of(_hlx.NativeTokenizer.bytes())

    @classmethod
    def characters(cls, text: str) -> Self:
        """One token per character of a text, in the order of their code points.

        >>> hlx.text.Tokenizer.characters("hello").encode("hole")
        [1, 3, 2, 0]
        """
        return cls._of(_hlx.NativeTokenizer.characters(text_of("characters", "text", text)))

    @classmethod
    def train(
        cls,
        files: Paths,
        vocab_size: int = 32_768,
        *,
        min_frequency: int = 2,
        special_tokens: Sequence[str] = ("<|endoftext|>",),
        format: str | None = None,
        threads: int | None = None,
        progress: Told = None,
    ) -> Self:
        """Trains byte-level BPE on files, as `hlx tokenizer train`: files, folders and globs; plain, gzip or zstd.

        `vocab_size` counts the 256 bytes and the special tokens, pairs that occur less often than `min_frequency` are
        not joined. `format` is "text" or "jsonl"; if left out, the files' names tell. The tokenizer depends on the
        texts alone, and is the one that the library `tokenizers` trains. `progress` is called with a `Progress`; if
        left out, a terminal shows a line. Raises ValueError for files without text, and a vocabulary that is too small.
        """
        trainer = trainer_of("train", vocab_size, min_frequency, special_tokens)
        count = optional("train", "threads", threads, 1, MAX_THREADS)
        with Bar(progress) as bar:
            return cls._of(_hlx.train_tokenizer(paths_of("train", files), trainer, format, count, bar.told))

    @classmethod
    def train_from_iterator(
        cls,
        texts: Iterable[str],
        vocab_size: int = 32_768,
        *,
        min_frequency: int = 2,
        special_tokens: Sequence[str] = ("<|endoftext|>",),
        progress: Told = None,
    ) -> Self:
        """As `train`, on texts that come one after the other; they need not fit into memory together.

        >>> tokenizer = hlx.text.Tokenizer.train_from_iterator(["a rose is a rose"] * 3, vocab_size=270)
        >>> [tokenizer.id_to_token(id) for id in tokenizer.encode("a rose")]
        ['a', 'Ġrose']
        """
        operation = "train_from_iterator"
        trainer = trainer_of(operation, vocab_size, min_frequency, special_tokens)
        if isinstance(texts, str):
            raise errors.TypeError(f"{operation}: texts is a str, expected several texts")
        counter = _hlx.WordCounter()
        for chunk in chunks_of(operation, texts):
            counter.add(chunk)
        with Bar(progress) as bar:
            return cls._of(counter.train(trainer, bar.told))

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """The tokens of a text; special tokens that it names become these tokens.

        With `add_special_tokens` those come around it that the post-processor of `tokenizer.json` adds, as in
        `transformers`. Raises ValueError for a character that the vocabulary has not.
        """
        return self._native.encode(text_of("encode", "text", text), bool(add_special_tokens))

    def __call__(
        self,
        text: str | Sequence[str],
        add_special_tokens: bool = True,
        padding: bool | str = False,
        truncation: bool = False,
        max_length: int | None = None,
        *,
        pad_to_multiple_of: int | None = None,
        padding_side: str = "right",
        truncation_side: str = "right",
        return_tensors: str | None = None,
    ) -> dict[str, Any]:
        """`input_ids` and `attention_mask` (0 for padding) of a text, or of several, as in `transformers`.

        `padding` fills rows with the padding token: to the longest (True) or to `max_length` ("max_length"). With
        `truncation` longer rows are cut to `max_length`. `return_tensors="hlx"` makes int32 tensors [B, T].

        >>> hlx.text.Tokenizer.bytes()(["a", "b"], return_tensors="hlx")["input_ids"]
        tensor([[97],
                [98]])
        """
        if not isinstance(text, str) and not isinstance(text, Sequence):
            raise errors.TypeError(f"Tokenizer: text is a {type(text).__name__}, expected a text or several")
        rows = self.encode_batch([text] if isinstance(text, str) else text, add_special_tokens)
        made = padded(
            rows,
            self._native.surroundings if add_special_tokens else ([], []),
            self.pad_token_id,
            padding=padding,
            truncation=truncation,
            max_length=max_length,
            pad_to_multiple_of=pad_to_multiple_of,
            padding_side=padding_side,
            truncation_side=truncation_side,
            return_tensors=return_tensors,
        )
        if isinstance(text, str) and return_tensors is None:
            return {name: values[0] for name, values in made.items()}
        return made

    def encode_batch(self, texts: Sequence[str], add_special_tokens: bool = True) -> list[list[int]]:
        """The tokens of several texts, encoded on all cores.

        >>> hlx.text.Tokenizer.bytes().encode_batch(["a", "bc"])
        [[97], [98, 99]]
        """
        return self._native.encode_batch(texts_of("encode_batch", "texts", texts), bool(add_special_tokens))

    def decode(self, token_ids: Ids, skip_special_tokens: bool = False) -> str:
        """The text of tokens: a list, a tensor or array [T] or [1, T], or a single one.

        Bytes that are no UTF-8 become U+FFFD; a token that the vocabulary has not adds nothing.
        """
        return self._native.decode(token_ids, bool(skip_special_tokens))

    def batch_decode(self, sequences: Iterable[Ids], skip_special_tokens: bool = False) -> list[str]:
        """The texts of several lists of tokens, or of the rows of a tensor [B, T]."""
        rows = sequences.tolist() if isinstance(sequences, Tensor) else sequences
        return [self.decode(row, skip_special_tokens) for row in rows]

    def stream(self, prompt: Ids = ()) -> DecodeStream:
        """Begins a text that grows by tokens: what comes after a prompt's.

        >>> stream = hlx.text.Tokenizer.bytes().stream()
        >>> stream.push(0xC3), stream.push(0xA9), stream.finish()
        ('', 'é', '')
        """
        return DecodeStream(self._native.stream(prompt))

    @property
    def vocab_size(self) -> int:
        """The largest token and one, added tokens included: every token is below it."""
        return self._native.vocab_size

    def __len__(self) -> int:
        return self._native.vocab_size

    def get_vocab(self) -> dict[str, int]:
        """The tokens by their texts as the vocabulary has them."""
        named = ((self._native.id_to_token(number), number) for number in range(len(self)))
        return {token: number for token, number in named if token is not None}

    def token_to_id(self, token: str) -> int | None:
        """The token of a text of the vocabulary, or None."""
        return self._native.token_to_id(text_of("token_to_id", "token", token))

    def id_to_token(self, token_id: int) -> str | None:
        """The text of a token as the vocabulary has it, or None."""
        return self._native.id_to_token(whole("id_to_token", "token_id", token_id, 0, (1 << 32) - 1))

    @property
    def bos_token_id(self) -> int | None:
        """The token that begins a document, if one is stated."""
        return self._native.special("bos")

    @property
    def eos_token_id(self) -> int | None:
        """The token that ends a document: the one that is stated, else one of a usual name such as `<|endoftext|>`."""
        return self._native.special("eos")

    @property
    def pad_token_id(self) -> int | None:
        """The token that fills rows, if one is stated."""
        return self._native.special("pad")

    @property
    def separator_token_id(self) -> int | None:
        """The token between the input and the output of a pair: a tokenizer of bytes has one."""
        return self._native.special("separator")

    @property
    def bos_token(self) -> str | None:
        """The text of `bos_token_id`."""
        return self._text_of(self.bos_token_id)

    @property
    def eos_token(self) -> str | None:
        """The text of `eos_token_id`."""
        return self._text_of(self.eos_token_id)

    @property
    def pad_token(self) -> str | None:
        """The text of `pad_token_id`."""
        return self._text_of(self.pad_token_id)

    def _text_of(self, token: int | None) -> str | None:
        return None if token is None else self._native.id_to_token(token)

    @property
    def special_tokens_map(self) -> dict[str, str]:
        """The special tokens that the tokenizer's files state, by their names such as `unk_token`."""
        return dict(self._native.stated)

    @property
    def all_special_ids(self) -> list[int]:
        """All special tokens, in rising order: `decode(.., skip_special_tokens=True)` leaves them out."""
        return self._native.specials

    @property
    def chat_template(self) -> str | None:
        """The source of the chat template, if there is one; of several the one of the name `default`."""
        return self._native.chat_template("default")

    def apply_chat_template(
        self,
        conversation: Sequence[Message] | Sequence[Sequence[Message]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        add_generation_prompt: bool = False,
        continue_final_message: bool = False,
        tokenize: bool = True,
        return_dict: bool = False,
        return_assistant_tokens_mask: bool = False,
        *,
        date: str | None = None,
        **variables: Any,
    ) -> Any:
        """Lays a conversation out by the chat template: its tokens, or with `tokenize=False` its text.

        Messages are dicts with `role` and `content`. `add_generation_prompt` adds the beginning of an answer,
        `continue_final_message` leaves the last message open. With `return_dict` the result is a dict of `input_ids`,
        `attention_mask` and, with `return_assistant_tokens_mask`, `assistant_masks`: 1 for what `hlx data prepare`
        trains on. Of several conversations it is a list, or a dict of lists. A template finds the day that `date` says
        (YYYY-MM-DD), else 2024-07-26, and other keywords as variables. Raises ValueError for a tokenizer without a
        template, and with what the template raises.

        >>> template = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
        >>> tokenizer = hlx.text.Tokenizer.bytes()
        >>> tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], chat_template=template, tokenize=False)
        '<user>hi'
        """
        if add_generation_prompt and continue_final_message:
            raise errors.ValueError(
                "apply_chat_template: add_generation_prompt begins an answer, continue_final_message continues one"
            )
        if return_assistant_tokens_mask and not (tokenize and return_dict):
            raise errors.ValueError("apply_chat_template: return_assistant_tokens_mask needs tokenize and return_dict")
        if return_assistant_tokens_mask and (add_generation_prompt or continue_final_message):
            raise errors.ValueError("apply_chat_template: return_assistant_tokens_mask is of whole conversations")
        several: Any = conversation if is_batch(conversation) else [conversation]
        found: list[Any] = []
        for messages in several:
            if return_assistant_tokens_mask:
                parts = as_json(messages, tools, documents, variables)
                ids, trained = self._native.encode_trained(parts, chat_template, date)
                found.append((ids, [int(one) for one in trained]))
                continue
            said = marked(messages) if continue_final_message else messages
            parts = as_json(said, tools, documents, variables)
            text = self._native.render(parts, chat_template, date, bool(add_generation_prompt))
            text = before_mark(text) if continue_final_message else text
            found.append((self._native.encode(text, False) if tokenize else text, None))
        if not (tokenize and return_dict):
            values = [value for value, _ in found]
            return values if several is conversation else values[0]
        made = {"input_ids": [ids for ids, _ in found], "attention_mask": [[1] * len(ids) for ids, _ in found]}
        if return_assistant_tokens_mask:
            made["assistant_masks"] = [mask for _, mask in found]
        return made if several is conversation else {name: values[0] for name, values in made.items()}

    def save(self, path: str | os.PathLike[str], format: str = "hlx") -> None:
        """Writes a folder with `tokenizer.json` and the files that lay beside it, or a single file named `.json`.

        What `from_file` reads has the same digest. With `format="hugging_face"` tokenizers of bytes and characters are
        written as other programs read them.
        """
        if format not in ("hlx", "hugging_face"):
            raise errors.ValueError(f'save: format is {format!r}, expected "hlx" or "hugging_face"')
        own = self._native.json if format == "hlx" else self._native.exported.encode()
        place = Path(path)
        if place.suffix == ".json" and not place.is_dir():
            _write(place, own)
            return
        for name, content in self._native.files.items():
            _write(place / name, content)
        _write(place / "tokenizer.json", own)

    def digest(self) -> str:
        """The SHA-256 of the tokenizer's file, by which shards name it."""
        return self._native.digest

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tokenizer):
            return NotImplemented
        own, others = self._native, other._native
        return own.digest == others.digest and own.files == others.files

    def __hash__(self) -> int:
        return hash(self._native.digest)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> Any:
        return _restored, (type(self), self._native.json, self._native.files)

    def __repr__(self) -> str:
        return f"Tokenizer(vocab_size={self.vocab_size}, digest={self.digest()[:12]}..)"


def _restored(kind: type[Tokenizer], json: bytes, files: dict[str, bytes]) -> Tokenizer:
    """A tokenizer that was pickled."""
    return kind._of(_hlx.NativeTokenizer.from_json(json, files))


def _write(path: Path, content: bytes) -> None:
    """Writes a file, whose content becomes visible at once."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            file.write(content)
        # The file is as readable as others; a temporary one is not.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(file.name, 0o666 & ~mask)
        os.replace(file.name, path)
    except OSError as error:
        raise errors.ValueError(f"save: {path}: {error.strerror}") from None
