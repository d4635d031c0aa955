"""Sequences of different lengths: padded to one tensor, or packed without padding."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx._operations._arguments import whole_range
from hlx._operations._types import INT32

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]

CPU = _hlx.device("cpu")


class PackedSequence(NamedTuple):
    """Sequences without padding, as recurrent layers take them: `pack_padded_sequence` and `pack_sequence` make it.

    `data` has the elements [sum of lengths, ..] position by position, the longest sequence first in each. `batch_sizes`
    says on the CPU how many sequences each position has. `sorted_indices` are the sequences by length, and
    `unsorted_indices` lead back; they are None where the sequences were given in that order.

    >>> packed = hlx.nn.utils.rnn.pack_sequence([hlx.tensor([1.0, 2.0, 3.0]), hlx.tensor([4.0, 5.0])])
    >>> packed.data, packed.batch_sizes.tolist()
    (tensor([1., 4., 2., 5., 3.]), [2, 2, 1])
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same with the elements on another device or of another type, and the indices on that device."""
        data = self.data.to(*args, **kwargs)
        indices = (self.sorted_indices, self.unsorted_indices)
        moved = [None if one is None else one.to(data.device) for one in indices]
        return PackedSequence(data, self.batch_sizes, *moved)

    def cpu(self) -> PackedSequence:
        """The same on the CPU device."""
        return self.to("cpu")


def lengths_of(batch_sizes: Sequence[int]) -> list[int]:
    """The lengths of sequences, the longest first, by how many of them each position has."""
    # The longest first: a position's last sequences are the shortest that reach it.
    found = [0] * (batch_sizes[0] if batch_sizes else 0)
    for position, (size, behind) in enumerate(zip(batch_sizes, [*batch_sizes[1:], 0], strict=True), 1):
        found[behind:size] = [position] * (size - behind)
    return found


def sizes_of(lengths: Sequence[int]) -> list[int]:
    """How many sequences each position has, by their lengths, the longest first: `lengths_of` the other way round."""
    return lengths_of(lengths)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that leads back from another one; None for None.

    >>> hlx.nn.utils.rnn.invert_permutation(hlx.tensor([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    if permutation is None:
        return None
    places = {place: index for index, place in enumerate(permutation.tolist())}
    return _hlx.tensor([places[index] for index in range(len(places))], INT32, permutation.device)


def _lengths(operation: str, lengths: Any, batch: int, longest: int) -> list[int]:
    found = [int(length) for length in (lengths.tolist() if isinstance(lengths, Tensor) else lengths)]
    if len(found) != batch:
        raise errors.RuntimeError(f"{operation}: {len(found)} lengths for {batch} sequences")
    if any(not 0 < length <= longest for length in found):
        raise errors.RuntimeError(f"{operation}: lengths are {found}, expected 1 to {longest}, the padded length")
    return found


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs padded sequences [T, B, ..], or [B, T, ..] with `batch_first`, of these lengths.

    They come by decreasing length unless `enforce_sorted` is false; then they are sorted, and outputs of recurrent
    layers are put back. Raises RuntimeError for lengths that do not fit, or are not sorted.

    >>> packed = hlx.nn.utils.rnn.pack_padded_sequence(hlx.tensor([[1, 2, 0], [3, 4, 5]]), [2, 3], True, False)
    >>> packed.data.tolist(), packed.sorted_indices.tolist()
    ([3, 1, 4, 2, 5], [1, 0])
    """
    name = "pack_padded_sequence"
    if input.ndim < 2:
        raise errors.RuntimeError(f"{name}: the input has shape {list(input.shape)}, expected [T, B, ..]")
    rows = input if batch_first else _hlx.transpose(input, 0, 1)
    found = _lengths(name, lengths, rows.shape[0], rows.shape[1])
    order = sorted(range(len(found)), key=lambda row: -found[row])
    indices = None
    if enforce_sorted:
        if any(one < two for one, two in itertools.pairwise(found)):
            raise errors.RuntimeError(f"{name}: lengths are {found}, expected decreasing ones or enforce_sorted=False")
    else:
        indices = _hlx.tensor(order, INT32, input.device)
        rows, found = _hlx.index_select(rows, 0, indices), [found[row] for row in order]
    sizes = sizes_of(found)
    data = packed_rows(_hlx.contiguous(rows), sizes)
    return PackedSequence(data, _hlx.tensor(sizes, INT32, "cpu"), indices, invert_permutation(indices))


def grid(sizes: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Positions [T, 1], sequences [1, B], and which of them [T, B] have elements, on the CPU."""
    positions = _hlx.unsqueeze(whole_range(CPU, len(sizes)), 1)
    rows = _hlx.unsqueeze(whole_range(CPU, sizes[0] if sizes else 0), 0)
    return positions, rows, rows < _hlx.unsqueeze(_hlx.tensor(list(sizes), INT32, "cpu"), 1)


def packed_rows(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """The elements of rows [B, T, ..], the longest first, position by position."""
    positions, sequences, held = grid(sizes)
    places = _hlx.masked_select(sequences * rows.shape[1] + positions, held)
    return _hlx.index_select(_hlx.flatten(rows, 0, 1), 0, _hlx.to(places, rows.device))


def padded_rows(data: Tensor, sizes: Sequence[int], padding_value: float = 0.0, total: int | None = None) -> Tensor:
    """Rows [B, T, ..], the longest first, of elements that lie position by position."""
    n_positions = len(sizes) if total is None else total
    all_sizes = [*sizes, *([0] * (n_positions - len(sizes)))]
    *starts, padding = itertools.accumulate(all_sizes, initial=0)
    _, sequences, held = grid(all_sizes)
    places = _hlx.unsqueeze(_hlx.tensor(starts, INT32, "cpu"), 1) + sequences
    places = _hlx.reshape(_hlx.transpose(_hlx.where_(places, held, padding), 0, 1), [-1])
    one = _hlx.full(data.device, [1, *data.shape[1:]], padding_value, data.dtype)
    found = _hlx.index_select(_hlx.cat([data, one], 0), 0, _hlx.to(places, data.device))
    return _hlx.unflatten(found, 0, [sequences.shape[1], n_positions])


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Pads packed sequences to [T, B, ..], or [B, T, ..] with `batch_first`; also returns their lengths on the CPU.

    T is the longest length, or `total_length`. Raises ValueError if that is shorter.

    >>> packed = hlx.nn.utils.rnn.pack_sequence([hlx.tensor([1.0, 2.0]), hlx.tensor([3.0])])
    >>> hlx.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    sizes = sequence.batch_sizes.tolist()
    if total_length is not None and total_length < len(sizes):
        raise errors.ValueError(
            f"pad_packed_sequence: total_length is {total_length}, expected at least {len(sizes)}, the longest length"
        )
    rows = padded_rows(sequence.data, sizes, padding_value, total_length)
    lengths = _hlx.tensor(lengths_of(sizes), INT32, "cpu")
    if sequence.unsorted_indices is not None:
        rows = _hlx.index_select(rows, 0, sequence.unsorted_indices)
        lengths = _hlx.index_select(lengths, 0, _hlx.to(sequence.unsorted_indices, lengths.device))
    return (rows if batch_first else _hlx.transpose(rows, 0, 1)), lengths


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Stacks sequences [T_i, ..] of different lengths as [T, B, ..], or [B, T, ..] with `batch_first`.

    T is the longest length; shorter ones are padded at the right, or at the left.

    >>> hlx.nn.utils.rnn.pad_sequence([hlx.tensor([1.0, 2.0]), hlx.tensor([3.0])], batch_first=True)
    tensor([[1., 2.],
            [3., 0.]])
    """
    found = list(sequences)
    if not found:
        raise errors.RuntimeError("pad_sequence: there are no sequences, expected at least one")
    if padding_side not in ("right", "left"):
        raise errors.RuntimeError(f"pad_sequence: padding_side is {padding_side!r}, expected 'right' or 'left'")
    longest = max(one.shape[0] for one in found)
    padded = []
    for one in found:
        missing = longest - one.shape[0]
        padding = _hlx.full(one.device, [missing, *one.shape[1:]], padding_value, one.dtype)
        padded.append(_hlx.cat([one, padding] if padding_side == "right" else [padding, one], 0) if missing else one)
    return _hlx.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences [T_i, ..] of a padded batch, which `pad_sequence` made.

    >>> hlx.nn.utils.rnn.unpad_sequence(hlx.tensor([[1, 2], [3, 0]]), hlx.tensor([2, 1]), batch_first=True)
    [tensor([1, 2]), tensor([3])]
    """
    rows = padded_sequences if batch_first else _hlx.transpose(padded_sequences, 0, 1)
    found = _lengths("unpad_sequence", lengths, rows.shape[0], rows.shape[1])
    return [_hlx.narrow(_hlx.select(rows, 0, row), 0, 0, length) for row, length in enumerate(found)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences [T_i, ..]: `pad_sequence`, then `pack_padded_sequence`.

    >>> hlx.nn.utils.rnn.pack_sequence([hlx.tensor([1.0, 2.0]), hlx.tensor([3.0])]).data
    tensor([1., 3., 2.])
    """
    return pack_padded_sequence(
        pad_sequence(sequences), [one.shape[0] for one in sequences], enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences [T_i, ..] that were packed, in their order.

    >>> packed = hlx.nn.utils.rnn.pack_sequence([hlx.tensor([1.0, 2.0]), hlx.tensor([3.0])])
    >>> hlx.nn.utils.rnn.unpack_sequence(packed)
    [tensor([1., 2.]), tensor([3.])]
    """
    rows, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(rows, lengths, batch_first=True)
