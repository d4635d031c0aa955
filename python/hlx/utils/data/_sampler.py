"""Samplers: the order of the places, a function of a seed alone."""

from __future__ import annotations

import bisect
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from hlx import _hlx, errors
from hlx._hlx import Generator, Tensor
from hlx._operations.random import multinomial, rand, randint, randperm

T_co = TypeVar("T_co", covariant=True)


def seeded(generator: Generator | None) -> Generator:
    """A generator of the next seed of another, or of all threads': what is drawn later does not move that one."""
    return Generator().manual_seed(_hlx.next_seed(generator))


def permutation(n: int, generator: Generator | None) -> list[int]:
    """The numbers below `n` in an order drawn by one seed of a generator."""
    return randperm(n, generator=seeded(generator), device="cpu").tolist() if n else []


def shuffled(n: int, generator: Generator | None) -> list[int]:
    """The numbers below `n` in the order of the next epoch of a generator: that of the loader in Rust."""
    seed, epoch = _hlx.next_epoch(generator)
    return _hlx.epoch_order(seed, epoch, n)


def count(what: str, value: Any) -> int:
    """A whole number above 0."""
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise errors.ValueError(f"{what} is {value}, expected a whole number above 0")
    return value


class Sampler(Generic[T_co]):
    """The base of samplers: a subclass defines `__iter__`, which gives places of samples, and `__len__` if it knows."""

    def __iter__(self) -> Iterator[T_co]:
        raise errors.NotImplementedError(f"{type(self).__name__}: the class has no __iter__")


class SequentialSampler(Sampler[int]):
    """The places in their order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The places in an order drawn anew for each epoch, by the generator's seed and the epoch's number.

    The number counts the epochs that have begun with the generator since it was seeded; what else is drawn does not
    count. It is the order of the loader in Rust of that seed and epoch. With `replacement`, or with more than there
    are, places come several times: those with replacement are drawn by the generator's next seed, and every time that
    all have come another epoch begins.

    >>> generator = hlx.Generator().manual_seed(7)
    >>> sampler = hlx.utils.data.RandomSampler(range(6), generator=generator)
    >>> list(sampler), list(sampler)
    ([0, 4, 2, 3, 1, 5], [5, 1, 2, 0, 3, 4])
    """

    data_source: Sized
    replacement: bool
    generator: Generator | None

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = None if num_samples is None else count("RandomSampler: num_samples", num_samples)

    @property
    def num_samples(self) -> int:
        """The places of an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        if self.replacement:
            return self._drawn(n, seeded(self.generator))
        # The epoch begins here, whenever its places are taken.
        return self._orders(n, shuffled(n, self.generator))

    def _drawn(self, n: int, generator: Generator) -> Iterator[int]:
        left = self.num_samples if n else 0
        while left > 0:
            # Drawn in pieces, so that a long epoch needs little memory.
            drawn = randint(0, n, (min(left, 1024),), generator=generator, device="cpu").tolist()
            yield from drawn
            left -= len(drawn)

    def _orders(self, n: int, order: list[int]) -> Iterator[int]:
        left = self.num_samples if n else 0
        while left > 0:
            yield from order[:left]
            left -= n
            if left > 0:
                order = shuffled(n, self.generator)

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Some places in an order drawn anew for each epoch, as `RandomSampler` orders their numbers."""

    indices: Sequence[int]
    generator: Generator | None

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        order = shuffled(len(self.indices), self.generator)
        return (self.indices[place] for place in order)

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Places drawn with probabilities in proportion to weights."""

    weights: list[float]
    num_samples: int
    replacement: bool
    generator: Generator | None

    def __init__(
        self,
        weights: Sequence[float] | Tensor,
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        self.weights = [float(weight) for weight in (weights.tolist() if isinstance(weights, Tensor) else weights)]
        self.num_samples = count("WeightedRandomSampler: num_samples", num_samples)
        self.replacement, self.generator = replacement, generator
        if not all(0 <= weight < float("inf") for weight in self.weights) or not any(self.weights):
            raise errors.ValueError("WeightedRandomSampler: weights have to be finite, at least 0, and not all 0")
        n = sum(weight > 0 for weight in self.weights)
        if not replacement and num_samples > n:
            raise errors.ValueError(
                f"WeightedRandomSampler: num_samples is {num_samples}, expected at most {n}, the weights above 0"
            )

    def __iter__(self) -> Iterator[int]:
        generator = seeded(self.generator)
        if not self.replacement:
            weights = _hlx.tensor(self.weights, None, "cpu")
            return iter(multinomial(weights, self.num_samples, False, generator=generator).tolist())
        return self._draws(generator)

    def _draws(self, generator: Generator) -> Iterator[int]:
        sums = list(itertools.accumulate(self.weights))
        last = max(place for place, weight in enumerate(self.weights) if weight > 0)
        # Draws have 24 bits: two make one of 48.
        upper, lower = (rand(self.num_samples, generator=generator, device="cpu").tolist() for _ in range(2))
        for high, low in zip(upper, lower, strict=True):
            yield min(bisect.bisect_right(sums, (high + low * 2.0**-24) * sums[-1]), last)

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The places of another sampler as lists of `batch_size`; with `drop_last` without a shorter last one.

    >>> list(hlx.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    sampler: Iterable[int]
    drop_last: bool
    batch_size: int

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        self.sampler, self.drop_last = sampler, drop_last
        self.batch_size = count("BatchSampler: batch_size", batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches(iter(self.sampler))

    def _batches(self, places: Iterator[int]) -> Iterator[list[int]]:
        while batch := list(itertools.islice(places, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        whole, rest = divmod(len(self.sampler), self.batch_size)  # type: ignore[arg-type]
        return whole if self.drop_last or not rest else whole + 1


class DistributedSampler(Sampler[int]):
    """The places of one of several processes: every `num_replicas`th of an order that all draw by `seed` and epoch.

    Processes get equally many: the first places come again at the end, or with `drop_last` the last are left out.
    `num_replicas` and `rank` are those of torchrun's `WORLD_SIZE` and `RANK` if they are not given. Call `set_epoch`
    before each epoch. The order is that of the loader in Rust of the seed and epoch.

    >>> sampler = hlx.utils.data.DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False)
    >>> list(sampler)
    [1, 3, 0]
    """

    dataset: Sized
    shuffle: bool
    seed: int
    drop_last: bool
    num_replicas: int
    rank: int
    epoch: int
    num_samples: int
    total_size: int

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset, self.shuffle, self.seed, self.drop_last = dataset, shuffle, seed, drop_last
        self.num_replicas = _of_launcher("num_replicas", num_replicas, "WORLD_SIZE")
        self.rank = _of_launcher("rank", rank, "RANK")
        if not 0 <= self.rank < self.num_replicas:
            raise errors.ValueError(f"DistributedSampler: rank is {self.rank}, expected below {self.num_replicas}")
        self.epoch = 0
        n = len(dataset)
        self.num_samples = n // self.num_replicas if drop_last else -(-n // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        order = list(range(n))
        if self.shuffle:
            order = _hlx.epoch_order(self.seed, self.epoch, n)
        order = list(itertools.islice(itertools.cycle(order), self.total_size))
        return iter(order[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Makes the order that of an epoch."""
        self.epoch = epoch


def _of_launcher(name: str, value: int | None, variable: str) -> int:
    if value is not None:
        return value
    found = os.environ.get(variable)
    if found is None:
        raise errors.ValueError(f"DistributedSampler: {name} is missing, and {variable} is not set")
    return int(found)
