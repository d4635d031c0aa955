"""Packed and padded sequences beside PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hlx
from hlx import nn
from hlx.nn.utils import rnn

torch = pytest.importorskip("torch")
LENGTHS = [3, 5, 1, 5, 2]


def array(*shape: int, seed: int = 1) -> Any:
    """Numbers of a seed."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def sequences(lengths: list[int] = LENGTHS, width: int = 4) -> list[Any]:
    """One array per length."""
    return [array(length, width, seed=10 + place) for place, length in enumerate(lengths)]


def both(arrays: list[Any]) -> tuple[list[hlx.Tensor], list[Any]]:
    """As tensors of both."""
    return [hlx.tensor(one) for one in arrays], [torch.tensor(one) for one in arrays]


def assert_packed(ours: rnn.PackedSequence, theirs: Any) -> None:
    """All four parts are equal."""
    assert np.allclose(ours.data.detach().tolist(), theirs.data.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert ours.batch_sizes.tolist() == theirs.batch_sizes.tolist()
    for one, two in ((ours.sorted_indices, theirs.sorted_indices), (ours.unsorted_indices, theirs.unsorted_indices)):
        assert (None if one is None else one.tolist()) == (None if two is None else two.tolist())


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("side", ["right", "left"])
def test_sequences_are_padded(batch_first: bool, side: str) -> None:
    """At either side, with a value."""
    ours, theirs = both(sequences())
    found = rnn.pad_sequence(ours, batch_first, 0.5, side)
    expected = torch.nn.utils.rnn.pad_sequence(theirs, batch_first, 0.5, side)
    assert found.tolist() == expected.tolist()
    if side == "right":
        again = rnn.unpad_sequence(found, hlx.tensor(LENGTHS), batch_first)
        assert [one.tolist() for one in again] == [one.tolist() for one in ours]


@pytest.mark.parametrize("batch_first", [False, True])
def test_sequences_are_packed_and_padded_again(batch_first: bool) -> None:
    """Unsorted and sorted ones; the padding has a value and a length of its own."""
    for lengths, enforce_sorted in ((LENGTHS, False), (sorted(LENGTHS, reverse=True), True)):
        ours, theirs = both(sequences(lengths))
        packed = rnn.pack_sequence(ours, enforce_sorted)
        expected = torch.nn.utils.rnn.pack_sequence(theirs, enforce_sorted)
        # Of equal lengths PyTorch's sort may put another one first.
        if enforce_sorted:
            assert_packed(packed, expected)
        rows, found = rnn.pad_packed_sequence(packed, batch_first, -2.0, 7)
        like, _ = torch.nn.utils.rnn.pad_packed_sequence(expected, batch_first, -2.0, 7)
        assert rows.tolist() == like.tolist() and found.tolist() == lengths
        assert [one.tolist() for one in rnn.unpack_sequence(packed)] == [one.tolist() for one in ours]


LAYERS = {
    "LSTM": {"num_layers": 2, "bidirectional": True},
    "LSTM projected": {"proj_size": 3},
    "GRU": {"num_layers": 2, "bidirectional": True},
    "GRU without bias": {"bias": False},
    "RNN": {"bidirectional": True},
}


@pytest.mark.parametrize("with_states", [False, True])
@pytest.mark.parametrize("case", LAYERS)
def test_recurrent_layers_take_packed_sequences(device: hlx.device, case: str, with_states: bool) -> None:
    """Outputs, last states and gradients are PyTorch's; the padding is in none of them."""
    name, options = case.split()[0], LAYERS[case]
    theirs = getattr(torch.nn, name)(4, 6, **options)
    ours = getattr(nn, name)(4, 6, **options)
    ours.load_state_dict(theirs.state_dict())
    ours.to(device)
    lengths = [5, 4, 2, 1]
    arrays = sequences([lengths[place] for place in (2, 0, 3, 1)])
    rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    widths = [options.get("proj_size", 6), 6][: 2 if name == "LSTM" else 1]
    first = [array(rows, 4, width, seed=90 + width) for width in widths] if with_states else []
    found = []
    for library, layer in ((hlx, ours), (torch, theirs)):
        x = [library.tensor(one) for one in arrays]
        x = [one.to(device) for one in x] if library is hlx else x
        for one in x:
            one.requires_grad_()
        utils = rnn if library is hlx else torch.nn.utils.rnn
        states: Any = tuple(library.tensor(one) for one in first)
        states = tuple(one.to(device) for one in states) if library is hlx else states
        hx = (states if name == "LSTM" else states[0]) if first else None
        y, last = layer(utils.pack_sequence(x, enforce_sorted=False), hx)
        last = list(last) if name == "LSTM" else [last]
        loss = (y.data**2).sum() + sum((state**3).sum() for state in last)
        loss.backward()
        padded, _ = utils.pad_packed_sequence(y)
        parts = [padded, *last, *(one.grad for one in x), *(one.grad for one in layer.parameters())]
        found.append([np.array(part.detach().tolist()) for part in parts])
    for one, two in zip(*found, strict=True):
        assert one.shape == two.shape and np.allclose(one, two, rtol=2e-4, atol=2e-5)


def test_packed_sequences_have_the_bits_of_sequences_alone(device: hlx.device) -> None:
    """In either direction: what stands beside a sequence changes nothing."""
    hlx.manual_seed(4)
    layer = nn.LSTM(4, 6, num_layers=2, bidirectional=True).to(device)
    ours = [hlx.tensor(one).to(device) for one in sequences([5, 3, 2])]
    y, (h, c) = layer(rnn.pack_sequence(ours))
    for place, (alone, row) in enumerate(zip(ours, rnn.unpack_sequence(y), strict=True)):
        expected, (hidden, cells) = layer(alone)
        assert row.detach().digest() == expected.detach().digest()
        for many, one in ((h, hidden), (c, cells)):
            assert many[:, place].contiguous().detach().digest() == one.detach().digest()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x: rnn.pack_padded_sequence(x, [1]), RuntimeError, "pack_padded_sequence: 1 lengths for 2 sequences"),
        (
            lambda x: rnn.pack_padded_sequence(x, [1, 2]),
            RuntimeError,
            "expected decreasing ones or enforce_sorted=False",
        ),
        (lambda x: rnn.pack_padded_sequence(x, [4, 1]), RuntimeError, "lengths are .4, 1., expected 1 to 3"),
        (lambda x: rnn.pack_padded_sequence(x, [3, 0]), RuntimeError, "lengths are .3, 0., expected 1 to 3"),
        (lambda x: rnn.pad_sequence([]), RuntimeError, "pad_sequence: there are no sequences"),
        (lambda x: rnn.pad_sequence([x], padding_side="top"), RuntimeError, "pad_sequence: padding_side is 'top'"),
        (
            lambda x: rnn.pad_packed_sequence(rnn.pack_padded_sequence(x, [3, 1]), total_length=2),
            ValueError,
            "total_length is 2, expected at least 3",
        ),
        (lambda x: nn.GRU(5, 2)(rnn.pack_padded_sequence(x, [3, 1])), RuntimeError, "expected .sum of lengths, 5."),
    ],
)
def test_what_is_no_sequence(call: Any, kind: type[Exception], message: str) -> None:
    """One line, of HLX's error and Python's own."""
    with pytest.raises(kind, match=message) as raised:
        call(hlx.zeros(3, 2, 4))
    assert isinstance(raised.value, hlx.Error)
