"""Rows of tokens as data sets, and the batches that a run trains on."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from hlx import errors
from hlx._hlx import Tensor
from hlx.text._checks import WORDS, whole
from hlx.utils.data import Dataset, IterableDataset, get_worker_info

if TYPE_CHECKING:
    from hlx.text._shards import Shards

#: The kinds of rows, by the program's names.
KINDS = ("windows", "separate_windows", "packed", "padded")
#: Padded rows are rounded up to a multiple of this, so that few shapes are recorded.
_MULTIPLE = 8

Batch = dict[str, Tensor]


class Rows(Dataset[Batch]):
    """Rows of tokens for a language model, made by `Shards.rows`: a data set for `hlx.utils.data.DataLoader`.

    A sample is a dict of int32 tensors, a batch of them has one dimension more:

    - `ids` [T], what is read, and `targets` [T], what is predicted: -100 for what is not trained on, and for padding;
    - `documents` [T] of separate windows and packed rows: the place in the row where a token's document begins;
    - `lengths` [] of packed and padded rows: the tokens before the padding.

    These are arguments of `CausalLM`, and -100 is what `cross_entropy` ignores. Row i depends on the tokens, the seed,
    the epoch (`set_epoch`) and i alone. The batch of a loader is read at once.

    >>> shards = hlx.text.Shards.from_documents([list(range(32))], vocab_size=32)
    >>> rows = shards.rows(8)
    >>> for batch in hlx.utils.data.DataLoader(rows, batch_size=2):
    ...     print(batch["ids"].shape, batch["targets"][:, 0].tolist())
    hlx.Size([2, 8]) [1, 9]
    hlx.Size([2, 8]) [17, 25]
    """

    shards: Shards
    kind: str
    length: int
    seed: int | None
    epoch: int

    def __init__(self, shards: Shards, kind: str, length: int, seed: int | None) -> None:
        self.shards, self.kind, self.length, self.seed = shards, kind, length, seed
        self.epoch = 0
        self._native = shards._native.rows(kind, length, seed, shards._part, _MULTIPLE)

    def __len__(self) -> int:
        return self._native.per_epoch

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch's rows come; of rows in order each epoch has the same."""
        self.epoch = whole("set_epoch", "epoch", epoch, 0, WORDS // max(len(self), 1) - 1)

    def _number(self, index: Any) -> int:
        number = operator.index(index)
        place = number + len(self) if number < 0 else number
        if not 0 <= place < len(self):
            raise errors.IndexError(f"Rows: row {number} is out of range of {len(self)}")
        return self.epoch * len(self) + place

    def __getitem__(self, index: Any) -> Batch:
        batch = self._named(self._native.batch(self._number(index), 1))
        return {name: tensor[0] for name, tensor in batch.items()}

    def collated(self, indices: Sequence[int]) -> Batch:
        """The batch of some rows: `ids` and `targets` [B, T], padded to the longest."""
        return self._named(self._native.gather([self._number(index) for index in indices]))

    def __getitems__(self, indices: Sequence[int]) -> list[Batch]:
        batch = self.collated(indices)
        return [{name: tensor[row] for name, tensor in batch.items()} for row in range(len(indices))]

    def _named(self, made: tuple[Tensor, ...]) -> Batch:
        ids, targets, documents, _, lengths = made
        batch = {"ids": ids, "targets": targets}
        if self.kind in ("separate_windows", "packed"):
            batch["documents"] = documents
        if self.kind in ("packed", "padded"):
            batch["lengths"] = lengths
        return batch

    def batches(self, batch_size: int, first: int = 0) -> Batches:
        """The batches of a run: an endless data set of `batch_size` rows each, from the batch of number `first` on."""
        size = whole("batches", "batch_size", batch_size, 1, 1 << 24)
        return Batches(self, size, whole("batches", "first", first, 0, WORDS // size - 1))

    def __reduce__(self) -> Any:
        return _remade, (self.shards, self.kind, self.length, self.seed, self.epoch)

    def __repr__(self) -> str:
        seed = "" if self.seed is None else f", seed={self.seed}"
        return f"Rows({self.kind!r}, length={self.length}, n_rows={len(self)}{seed})"


class Batches(IterableDataset[Batch]):
    """Batches of rows without end, made by `Rows.batches`: those that `hlx train` with the same data and seed has.

    Batch b has the rows from b times the batch size on, so that a loop that continues needs one number: `first`. Give
    it to a loader with `batch_size=None`; with workers the batches are the same, in the same order.

    >>> shards = hlx.text.Shards.from_documents([list(range(32))], vocab_size=32)
    >>> batches = shards.rows(4, seed=7).batches(2)
    >>> next(iter(batches))["ids"].shape
    hlx.Size([2, 4])
    """

    rows: Rows
    batch_size: int
    first: int

    def __init__(self, rows: Rows, batch_size: int, first: int) -> None:
        self.rows, self.batch_size, self.first = rows, batch_size, first

    def batch(self, number: int) -> Batch:
        """The batch of a number."""
        at = whole("batch", "number", number, 0, WORDS // self.batch_size - 1)
        rows = self.rows
        return rows._named(rows._native.batch(at * self.batch_size, self.batch_size))

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        number, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        while True:
            yield self.batch(self.first + number)
            number += step


def _remade(shards: Shards, kind: str, length: int, seed: int | None, epoch: int) -> Rows:
    made = Rows(shards, kind, length, seed)
    made.set_epoch(epoch)
    return made
