"""Packed sequences in recurrent layers: rows of different lengths, the longest first."""

from __future__ import annotations

from hlx import _hlx
from hlx._hlx import Tensor
from hlx._operations._types import INT32
from hlx.nn.utils.rnn import PackedSequence, grid, lengths_of, packed_rows, padded_rows


class Rows:
    """The lengths of a batch of sequences, and what depends on them.

    A layer runs over padded rows [B, T, ..]: no position reads a later one, so that what it computes of the padding
    reaches nothing. A direction from the end runs over rows whose own positions are reversed.
    """

    def __init__(self, packed: PackedSequence) -> None:
        self.packed = packed
        self.sizes: list[int] = packed.batch_sizes.tolist()
        self._lengths = lengths_of(self.sizes)
        n_positions, device = len(self.sizes), packed.data.device
        last = [row * n_positions + length - 1 for row, length in enumerate(self._lengths)]
        self._last = _hlx.tensor(last, INT32, device)
        self._reversed: Tensor | None = None

    def rows(self) -> Tensor:
        """The padded rows of the input."""
        return padded_rows(self.packed.data, self.sizes)

    def pack(self, rows: Tensor) -> PackedSequence:
        """Padded rows as packed sequences like the input."""
        return self.packed._replace(data=packed_rows(rows, self.sizes))

    def last(self, rows: Tensor) -> Tensor:
        """The last element of each row, [B, ..]."""
        return _hlx.index_select(_hlx.flatten(rows, 0, 1), 0, self._last)

    def reverse(self, rows: Tensor) -> Tensor:
        """The rows with their own positions reversed; the padding stays."""
        if self._reversed is None:
            positions, sequences, held = grid(self.sizes)
            lengths = _hlx.unsqueeze(_hlx.tensor(self._lengths, INT32, "cpu"), 0)
            own = _hlx.where_(lengths - 1 - positions, held, positions)
            places = _hlx.transpose(sequences * len(self.sizes) + own, 0, 1)
            self._reversed = _hlx.to(_hlx.reshape(places, [-1]), rows.device)
        shape = list(rows.shape)
        return _hlx.reshape(_hlx.index_select(_hlx.flatten(rows, 0, 1), 0, self._reversed), shape)

    def sort(self, states: list[Tensor]) -> list[Tensor]:
        """First states [layers directions, B, ..] in the order of the rows."""
        return self._by(self.packed.sorted_indices, states)

    def unsort(self, states: list[Tensor]) -> list[Tensor]:
        """Last states in the order in which the sequences were given."""
        return self._by(self.packed.unsorted_indices, states)

    def _by(self, indices: Tensor | None, states: list[Tensor]) -> list[Tensor]:
        return states if indices is None else [_hlx.index_select(state, 1, indices) for state in states]
