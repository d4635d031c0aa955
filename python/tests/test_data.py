"""Data sets, samplers, batches, and the loader in its own process."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import threading
from collections import Counter, OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest
from data_sets import Squares, Stream

import hlx
from hlx.utils import data
from hlx.utils.data._transfer import Message, receive

Pair = namedtuple("Pair", ["x", "y"])


def seeded(seed: int) -> hlx.Generator:
    """A generator of a seed."""
    return hlx.Generator().manual_seed(seed)


def test_data_sets_have_their_samples() -> None:
    """Each kind, by its places."""
    tensors = data.TensorDataset(hlx.arange(6).reshape(3, 2), hlx.tensor([7, 8, 9]))
    assert len(tensors) == 3 and [x.tolist() for x in tensors[1]] == [[2, 3], 8]
    assert data.StackDataset([1, 2], "ab")[1] == (2, "b")
    assert data.StackDataset(n=[1, 2], c="ab")[0] == {"n": 1, "c": "a"}
    joined = data.ConcatDataset([[1, 2], [], [3]])
    assert [joined[place] for place in (0, 1, 2, -1, -3)] == [1, 2, 3, 3, 1]
    assert len(Squares(3) + Squares(4)) == 7
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    part = data.Subset("abcd", [3, 1])
    assert len(part) == 2 and [part[0], part[1]] == ["d", "b"]


def test_a_random_split_divides() -> None:
    """Every sample is in one part; fractions leave samples to the first parts."""
    parts = data.random_split(range(11), [0.5, 0.3, 0.2], seeded(1))
    assert [len(part) for part in parts] == [6, 3, 2]
    assert sorted(part[place] for part in parts for place in range(len(part))) == list(range(11))
    again = data.random_split(range(11), [6, 3, 2], seeded(1))
    assert [part.indices for part in again] == [part.indices for part in parts]
    assert [part.indices for part in data.random_split(range(11), [6, 3, 2], seeded(2))] != [p.indices for p in parts]


def test_the_orders_of_a_seed_are_stated() -> None:
    """They are the same on every machine; a change of them is a change of what users trained."""
    sampler = data.RandomSampler(range(10), generator=seeded(7))
    assert [list(sampler), list(sampler)] == ORDERS
    assert "".join(data.SubsetRandomSampler("abcdefghij", seeded(7))) == "aecdhifbgj"
    assert list(data.DistributedSampler(range(8), 1, 0, seed=(1 << 40) + 3)) == WIDE_SEED
    assert list(data.DistributedSampler(range(10), 1, 0, seed=3)) == DISTRIBUTED
    assert list(data.WeightedRandomSampler([1, 2, 3], 8, generator=seeded(7))) == WEIGHTED


#: Those of the loader in Rust, whose test names them, too: `loader/tests.rs` of hlx-data.
ORDERS = [[0, 4, 2, 3, 7, 8, 5, 1, 6, 9], [8, 1, 2, 9, 3, 4, 7, 6, 5, 0]]
DISTRIBUTED = [1, 8, 6, 5, 4, 3, 7, 0, 9, 2]
WIDE_SEED = [5, 1, 6, 2, 7, 4, 3, 0]
WEIGHTED = [1, 0, 0, 2, 2, 2, 2, 2]


def test_random_samplers_draw_every_place() -> None:
    """Once per epoch, in another order each; with replacement some of them."""
    generator = seeded(1)
    sampler = data.RandomSampler(range(50), generator=generator)
    epochs = [list(sampler) for _ in range(3)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]
    twice = list(data.RandomSampler(range(5), num_samples=12, generator=generator))
    assert len(twice) == 12 and Counter(twice[:5]) == Counter(twice[5:10]) == Counter(range(5))
    drawn = Counter(data.RandomSampler(range(4), True, 4000, generator))
    assert len(drawn) == 4 and all(900 < n < 1100 for n in drawn.values())


def test_weighted_samplers_follow_their_weights() -> None:
    """In proportion; without replacement each place once; none of weight 0."""
    drawn = Counter(data.WeightedRandomSampler([0.0, 1.0, 3.0, 0.0], 4000, generator=seeded(2)))
    assert drawn.keys() == {1, 2} and 900 < drawn[1] < 1100
    once = list(data.WeightedRandomSampler(hlx.tensor([0.0, 1.0, 3.0, 0.5]), 3, False, seeded(2)))
    assert sorted(once) == [1, 2, 3]
    firsts = Counter(next(iter(data.WeightedRandomSampler([1.0, 3.0], 1, False, seeded(n)))) for n in range(400))
    assert 70 < firsts[0] < 130


@pytest.mark.parametrize("drop_last", [False, True])
def test_distributed_samplers_divide_an_epoch(drop_last: bool) -> None:
    """All ranks draw one order; the next epoch has another."""
    ranks = [data.DistributedSampler(range(10), 4, rank, drop_last=drop_last) for rank in range(4)]
    parts = [list(rank) for rank in ranks]
    assert [len(part) for part in parts] == [2 if drop_last else 3] * 4 == [len(rank) for rank in ranks]
    places = [place for group in zip(*parts, strict=True) for place in group]
    whole = list(data.DistributedSampler(range(10), 1, 0))
    assert places == (whole[:8] if drop_last else whole + whole[:2])
    ranks[0].set_epoch(1)
    assert list(ranks[0]) != parts[0]


def test_distributed_samplers_read_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun's variables."""
    monkeypatch.setenv("WORLD_SIZE", "3")
    monkeypatch.setenv("RANK", "2")
    assert list(data.DistributedSampler(range(6), shuffle=False)) == [2, 5]


def test_samples_are_collated_by_their_types() -> None:
    """As PyTorch's default_collate, with HLX's types."""
    samples = [
        {"x": hlx.ones(2), "n": np.float64(1.5), "a": np.arange(3), "t": (1, "s"), "l": [True], "p": Pair(1, 2.0)},
        {"x": hlx.zeros(2), "n": np.float64(2.5), "a": np.ones(3, int), "t": (2, "t"), "l": [False], "p": Pair(3, 4.0)},
    ]
    batch = data.default_collate(samples)
    assert batch["x"].tolist() == [[1, 1], [0, 0]] and batch["n"].tolist() == [1.5, 2.5]
    assert (batch["n"].dtype, batch["a"].dtype, batch["a"].shape) == (hlx.float32, hlx.int32, (2, 3))
    assert isinstance(batch["t"], list) and batch["t"][0].tolist() == [1, 2] and batch["t"][1] == ["s", "t"]
    assert batch["l"][0].dtype == hlx.bool
    assert isinstance(batch["p"], Pair) and batch["p"].y.tolist() == [2.0, 4.0]
    ordered = data.default_collate([OrderedDict(a=1), OrderedDict(a=2)])
    assert isinstance(ordered, OrderedDict) and ordered["a"].tolist() == [1, 2]
    assert data.default_convert((np.ones(2), "a", 3))[0].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], "default_collate: the batch is empty"),
        ([object()], "default_collate: a sample is object, expected tensors, NumPy arrays"),
        ([[1], [1, 2]], "default_collate: samples have [1, 2] members, expected one length"),
        ([hlx.ones(2), hlx.ones(3)], "default_collate: sample 1 has shape [3], the first one [2]"),
        ([np.array(["a"])], "default_collate: an array has dtype <U1, expected numbers"),
    ],
)
def test_what_is_not_collated(samples: Any, message: str) -> None:
    """In one line."""
    with pytest.raises(hlx.Error) as caught:
        data.default_collate(samples)
    assert str(caught.value).startswith(message)


def indices(loader: Any) -> list[list[int]]:
    """The samples of each batch."""
    return [batch["index"].tolist() for batch in loader]


def test_batches_come_by_place() -> None:
    """With a short last one, or without."""
    assert indices(data.DataLoader(Squares(5), 2)) == [[0, 1], [2, 3], [4]]
    assert indices(data.DataLoader(Squares(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert [len(data.DataLoader(Squares(5), 2, drop_last=drop)) for drop in (False, True)] == [3, 2]
    assert indices(data.DataLoader(Squares(5), batch_sampler=[[4, 0], [1]])) == [[4, 0], [1]]
    assert indices(data.DataLoader(Squares(5), 2, sampler=[3, 1, 0])) == [[3, 1], [0]]
    assert [one["index"] for one in data.DataLoader(Squares(3), batch_size=None)] == [0, 1, 2]


def test_a_shuffle_depends_on_the_generators_seed_alone() -> None:
    """Not on what else is drawn while the batches are taken; without a generator, on `manual_seed`."""
    loader = data.DataLoader(Squares(), 4, shuffle=True, generator=seeded(3))
    first, second = indices(loader), indices(loader)
    assert first != second and sorted(place for batch in first for place in batch) == list(range(23))
    again = data.DataLoader(Squares(), 4, shuffle=True, generator=seeded(3))
    assert [indices(again), indices(again)] == [first, second]
    orders = []
    for draws in (0, 3):
        hlx.manual_seed(9)
        found = []
        for batch in data.DataLoader(Squares(), 4, shuffle=True):
            found.append(batch["index"].tolist())
            for _ in range(draws):
                hlx.rand(1)
        orders.append(found)
    assert orders[0] == orders[1]


def test_epochs_are_counted_from_the_seed() -> None:
    """By all samplers of a generator, and its state has their number."""
    generator = seeded(7)
    assert list(data.RandomSampler(range(10), generator=generator)) == ORDERS[0]
    state = generator.get_state()
    hlx.rand(3, generator=generator)
    loader = data.DataLoader(Squares(10), None, True, generator=generator)
    assert [int(one["index"]) for one in loader] == ORDERS[1]
    generator.set_state(state)
    assert list(data.RandomSampler(range(10), generator=pickle.loads(pickle.dumps(generator)))) == ORDERS[1]
    generator.manual_seed(7)
    assert list(data.RandomSampler(range(10), generator=generator)) == ORDERS[0]
    hlx.manual_seed(7)
    assert list(data.RandomSampler(range(10))) == ORDERS[0]


def test_an_iterable_data_set_comes_in_batches() -> None:
    """In its own order."""
    loader = data.DataLoader(Stream(5), 2)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
    assert [batch.tolist() for batch in data.DataLoader(Stream(5), 2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(data.DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]


def test_tensors_are_collated_by_one_launch_with_the_same_bits(device: hlx.device) -> None:
    """As samples one by one, on the tensors' device."""
    dataset = data.TensorDataset(hlx.randn(9, 3, device=device), hlx.arange(9, device=device))
    batches = list(data.DataLoader(dataset, 4, sampler=[8, 0, 3, 3, -1]))
    one_by_one = list(
        data.DataLoader(dataset, 4, sampler=[8, 0, 3, 3, -1], collate_fn=lambda b: data.default_collate(b))
    )
    for found, expected in zip(batches, one_by_one, strict=True):
        assert isinstance(found, list) and found[0].device == device
        assert [x.digest() for x in found] == [x.digest() for x in expected]
        assert [x.dtype for x in found] == [x.dtype for x in expected]
    with pytest.raises(hlx.errors.IndexError, match="index 9 is out of range of 9 samples"):
        list(data.DataLoader(dataset, 1, sampler=[9]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "DataLoader: batch_size is 0, expected a whole number above 0"),
        ({"num_workers": -1}, "DataLoader: num_workers is -1, expected at least 0"),
        ({"timeout": -1}, "DataLoader: timeout is -1, expected at least 0"),
        ({"prefetch_factor": 2}, "DataLoader: prefetch_factor and persistent_workers need num_workers above 0"),
        ({"shuffle": True, "sampler": [1]}, "DataLoader: sampler and shuffle=True are given, expected one of them"),
        ({"batch_sampler": [[1]], "drop_last": True}, "DataLoader: batch_sampler is given, which decides batch_size"),
        ({"batch_size": None, "drop_last": True}, "DataLoader: drop_last needs a batch_size"),
        ({"num_workers": 1, "multiprocessing_context": "fork"}, 'DataLoader: multiprocessing_context is "fork"'),
        ({"dataset": Stream(3), "shuffle": True}, "DataLoader: an IterableDataset has its own order"),
    ],
)
def test_what_a_loader_refuses(arguments: dict[str, Any], message: str) -> None:
    """In one line."""
    with pytest.raises(hlx.errors.ValueError) as caught:
        data.DataLoader(**{"dataset": Squares(), **arguments})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: data.TensorDataset(), "TensorDataset: no tensor is given"),
        (lambda: data.TensorDataset(hlx.ones(2), hlx.ones(3)), "TensorDataset: the tensors have [2, 3] rows"),
        (lambda: data.StackDataset([1], b=[2]), "StackDataset: expected data sets either by place or by keyword"),
        (lambda: data.ConcatDataset([Stream()]), "ConcatDataset: an IterableDataset has no places; use ChainDataset"),
        (lambda: data.ConcatDataset([[1]])[1], "ConcatDataset: index 1 is out of range of 1 samples"),
        (
            lambda: data.random_split(range(3), [1, 1]),
            "random_split: lengths are [1, 1], expected numbers that sum to 3, or to 1",
        ),
        (lambda: data.WeightedRandomSampler([0.0], 1), "WeightedRandomSampler: weights have to be finite"),
        (
            lambda: data.WeightedRandomSampler([1.0], 2, False),
            "WeightedRandomSampler: num_samples is 2, expected at most",
        ),
        (lambda: data.DistributedSampler([1], 2, 2), "DistributedSampler: rank is 2, expected below 2"),
        (lambda: data.RandomSampler([1], num_samples=0), "RandomSampler: num_samples is 0, expected a whole number"),
    ],
)
def test_what_data_sets_and_samplers_refuse(make: Any, message: str) -> None:
    """In one line."""
    with pytest.raises(hlx.Error) as caught:
        make()
    assert str(caught.value).startswith(message)


def travelled(value: Any, is_fresh: bool = False) -> Any:
    """A value that has gone through a link, as the batches of workers do."""
    here, there = multiprocessing.Pipe()
    message = Message(value, is_fresh)
    sender = threading.Thread(target=message.send, args=(there,))
    sender.start()
    found = receive(here)
    sender.join()
    return found


@pytest.mark.parametrize("with_numpy", [True, False])
def test_batches_keep_their_bits_on_their_way(with_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every dtype, small and large, of rare forms; NumPy need not be there."""
    if not with_numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    types = [hlx.float32, hlx.float16, hlx.bfloat16, hlx.int32, hlx.uint32, hlx.int8, hlx.uint8, hlx.bool]
    values = [(hlx.rand(n) * 100).to(dtype) for dtype in types for n in (1, 5, 100_001)]
    values += [hlx.ones(()), hlx.ones(0, 3), hlx.rand(300, 200).T, hlx.rand(300, 200)[:, 3:], hlx.ones(200, 300)[::2]]
    values += [hlx.rand(300, 200).requires_grad_(), hlx.tensor([0.0, -0.0, float("inf"), float("nan")] * 9999)]
    found = travelled({"x": values, "text": "a" * 100_000})
    assert found["text"] == "a" * 100_000
    for one, other in zip(found["x"], values, strict=True):
        assert (one.shape, one.dtype, one.requires_grad) == (other.shape, other.dtype, other.requires_grad)
        assert one.digest() == other.digest()
    found["x"][2].add_(1)


def test_what_a_data_set_may_change_is_copied_at_once() -> None:
    """Before another thread sends it; arrays of NumPy go the same way."""
    array, x = np.zeros(100_000, np.float32), hlx.zeros(100_000)
    message = Message([array, x])
    array[:], x[:] = 1, 1
    here, there = multiprocessing.Pipe()
    sender = threading.Thread(target=message.send, args=(there,))
    sender.start()
    found = receive(here)
    sender.join()
    assert not found[0].any() and not found[1].any()
    assert travelled(hlx.ones(100_000), is_fresh=True).sum().item() == 100_000
