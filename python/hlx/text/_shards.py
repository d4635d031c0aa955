"""Tokens on disk as a data set of documents."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx.text._checks import MAX_VOCAB, WORDS, optional, whole
from hlx.text._rows import KINDS, Rows
from hlx.text._tokenizer import Tokenizer
from hlx.utils.data import Dataset

#: The first token and one past the last, and the same of documents.
Part = tuple[tuple[int, int], tuple[int, int]]
#: The longest row.
_LONGEST = 1 << 24


class Shards(Dataset[dict[str, Tensor]]):
    """Tokens on disk: a folder that `prepare` or `hlx data prepare` wrote, or a `.bin` of nanoGPT or llm.c.

    They stay on disk and are read by their places, so that there may be more of them than memory has. As a data set its
    samples are the documents: dicts of `ids` (int32 [T]) and `trained` (bool [T]: whether a token is trained on).
    `rows` are what a language model is trained on. Raises ValueError for files that are missing, cut short, or of
    another format.

    >>> shards = hlx.text.Shards.from_documents([[1, 2, 3], [4, 5]], vocab_size=8)
    >>> len(shards), shards.n_tokens, shards[1]["ids"]
    (2, 5, tensor([4, 5]))
    """

    _native: _hlx.TokenShards
    _path: str | None
    _part: Part

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._begin(_hlx.TokenShards.open(path), os.fspath(path))

    def _begin(self, native: _hlx.TokenShards, path: str | None, part: Part | None = None) -> None:
        self._native, self._path = native, path
        self._part = part if part is not None else ((0, native.n_tokens), (0, native.n_documents))

    @classmethod
    def _of(cls, native: _hlx.TokenShards, path: str | None, part: Part | None = None) -> Self:
        made = cls.__new__(cls)
        made._begin(native, path, part)
        return made

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Sequence[int]],
        vocab_size: int,
        trained: Iterable[Sequence[bool] | None] | None = None,
    ) -> Self:
        """Documents in memory; `trained` says of each token whether it is trained on. Empty documents are left out."""
        tokens = [list(document) for document in documents]
        masks: list[Any] = [None] * len(tokens) if trained is None else [_mask(mask) for mask in trained]
        if len(masks) != len(tokens):
            raise errors.ValueError(f"from_documents: trained has {len(masks)} masks, expected {len(tokens)}")
        size = whole("from_documents", "vocab_size", vocab_size, 1, MAX_VOCAB)
        pairs = [(_ids(ids), mask) for ids, mask in zip(tokens, masks, strict=True)]
        return cls._of(_hlx.TokenShards.of_documents(size, pairs), None)

    @property
    def path(self) -> str | None:
        """The folder or the file; None of documents in memory."""
        return self._path

    @property
    def n_tokens(self) -> int:
        """The number of tokens."""
        return self._part[0][1] - self._part[0][0]

    @property
    def n_documents(self) -> int:
        """The number of documents, which is the length of the data set."""
        return self._part[1][1] - self._part[1][0]

    @property
    def vocab_size(self) -> int:
        """Every token is below it."""
        return self._native.vocab_size

    @property
    def has_masks(self) -> bool:
        """Whether some token may not be trained on."""
        return self._native.has_masks

    def digest(self) -> str:
        """The identity of all tokens: of a folder the SHA-256 of its index, which has that of each file."""
        return self._native.digest()

    def verify(self) -> None:
        """Compares each file with its SHA-256 in the index; raises ValueError with the first one that differs."""
        self._native.verify()

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer that made the tokens, if it lies beside them. Raises ValueError if it is another one."""
        if self._path is None or not (Path(self._path) / "tokenizer.json").is_file():
            return None
        found = Tokenizer.from_file(self._path)
        stated = self._native.tokenizer_digest
        if stated is not None and stated != found.digest():
            raise errors.ValueError(
                f"tokenizer: {self._path}: is not the one that made the tokens: its SHA-256 is {found.digest()}, the "
                f"index says {stated}"
            )
        return found

    @property
    def preparation(self) -> dict[str, Any] | None:
        """How texts became documents: the content of `preparation.json`, if it lies beside the tokens."""
        file = None if self._path is None else Path(self._path) / "preparation.json"
        if file is None or not file.is_file():
            return None
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return found

    def tokens(self, start: int = 0, end: int | None = None) -> Tensor:
        """The tokens from a place up to another, int32 [n], whatever documents they belong to."""
        first, _ = self._part[0]
        last = self.n_tokens if end is None else whole("tokens", "end", end, 0, self.n_tokens)
        begin = whole("tokens", "start", start, 0, last)
        return self._native.read(first + begin, first + last)

    def split(self, fraction: float) -> tuple[Self, Self]:
        """What is trained on, and the end that is held out: `fraction` of the tokens, rounded to whole documents.

        As the program's `data.eval_fraction`: one document at least is held out if the fraction is above 0, and never
        all; where there is one document, the cut is within it.
        """
        if not 0.0 <= fraction < 1.0:
            raise errors.ValueError(f"split: fraction is {fraction}, expected 0 to below 1")
        if self._part != ((0, self._native.n_tokens), (0, self._native.n_documents)):
            raise errors.ValueError("split: this is a part of a split already")
        train, held_out = self._native.split(float(fraction))
        return type(self)._of(self._native, self._path, train), type(self)._of(self._native, self._path, held_out)

    def rows(self, length: int, kind: str = "windows", *, seed: int | None = None) -> Rows:
        """A data set of rows of at most `length` predicted tokens, of a kind of the program's `data.rows`.

        - "windows": any `length` tokens in a row, whatever documents they cross.
        - "separate_windows": the same, in which no position sees another document than its own.
        - "packed": as many documents as fit; none sees another.
        - "padded": one document, cut to `length`, padded to the longest of the batch.

        With a `seed` windows begin at random places, and documents come in a new order each epoch, as in training; the
        rows of a run of the program have its seed. Without one rows are in order, as in an evaluation.

        >>> shards = hlx.text.Shards.from_documents([[1, 2, 3], [4, 5, 6]], vocab_size=8)
        >>> shards.rows(4, "packed")[0]["targets"].tolist()
        [2, 3, 5, 6]
        """
        if kind not in KINDS:
            raise errors.ValueError(f"rows: kind is {kind!r}, expected one of {', '.join(KINDS)}")
        count = whole("rows", "length", length, 1, _LONGEST)
        return Rows(self, kind, count, optional("rows", "seed", seed, 0, WORDS - 1))

    def __len__(self) -> int:
        return self.n_documents

    def __getitem__(self, index: Any) -> dict[str, Tensor]:
        number = operator.index(index)
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise errors.IndexError(f"Shards: document {number} is out of range of {len(self)}")
        start, end = self._native.document(self._part[1][0] + place)
        trained = _hlx.tensor(self._native.trained(start, end), None, "cpu")
        return {"ids": self._native.read(start, end), "trained": trained}

    def __reduce__(self) -> Any:
        if self._path is not None:
            return _reopened, (type(self), self._path, self._part)
        whole_part = type(self)._of(self._native, None)
        documents = [whole_part[place] for place in range(len(whole_part))]
        pairs = [(one["ids"].tolist(), one["trained"].tolist()) for one in documents]
        return _remade, (type(self), self.vocab_size, pairs, self._part)

    def __repr__(self) -> str:
        place = "" if self._path is None else f"{self._path!r}, "
        return f"Shards({place}n_tokens={self.n_tokens}, n_documents={self.n_documents}, vocab_size={self.vocab_size})"


def _reopened(kind: type[Shards], path: str, part: Part) -> Shards:
    return kind._of(_hlx.TokenShards.open(path), path, part)


def _remade(kind: type[Shards], vocab_size: int, documents: list[Any], part: Part) -> Shards:
    return kind._of(_hlx.TokenShards.of_documents(vocab_size, documents), None, part)


def _ids(ids: Sequence[Any]) -> list[int]:
    return [whole("from_documents", "a token", id, 0, MAX_VOCAB - 1) for id in ids]


def _mask(mask: Sequence[Any] | None) -> list[bool] | None:
    return None if mask is None else [bool(one) for one in mask]
