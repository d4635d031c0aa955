"""Data sets: what has samples."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from hlx import _hlx, errors
from hlx._hlx import Generator, Tensor
from hlx.utils.data._sampler import permutation

T_co = TypeVar("T_co", covariant=True)


class Dataset(Generic[T_co]):
    """The base of data sets whose samples have places: a subclass defines `__getitem__` and `__len__`.

    >>> class Squares(hlx.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index * index
    >>> for batch in hlx.utils.data.DataLoader(Squares(), batch_size=2):
    ...     print(batch)
    tensor([0, 1])
    tensor([4, 9])
    """

    def __getitem__(self, index: Any) -> T_co:
        raise errors.NotImplementedError(f"{type(self).__name__}: the class has no __getitem__")

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """The base of data sets that come one sample after another: a subclass defines `__iter__`.

    With workers, each has a copy; `get_worker_info` says which part it is to give.
    """

    def __iter__(self) -> Iterator[T_co]:
        raise errors.NotImplementedError(f"{type(self).__name__}: the class has no __iter__")

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples that are rows of tensors of equal length."""

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise errors.ValueError("TensorDataset: no tensor is given")
        lengths = [len(tensor) for tensor in tensors]
        if len(set(lengths)) > 1:
            raise errors.ValueError(f"TensorDataset: the tensors have {lengths} rows, expected one length")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def collated(self, indices: Sequence[int]) -> list[Tensor]:
        """The batch that `default_collate` makes of some samples, by one launch per tensor."""
        for index in indices:
            if not -len(self) <= index < len(self):
                raise errors.IndexError(f"TensorDataset: index {index} is out of range of {len(self)} samples")
        places = {str(tensor.device): _hlx.tensor(list(indices), None, tensor.device) for tensor in self.tensors}
        return [tensor[places[str(tensor.device)]] for tensor in self.tensors]


class StackDataset(Dataset[Any]):
    """Samples that are tuples, or by keywords dicts, of the samples of data sets of equal length."""

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if bool(args) == bool(kwargs):
            raise errors.ValueError("StackDataset: expected data sets either by place or by keyword")
        self.datasets: Any = args or kwargs
        lengths = [len(dataset) for dataset in (args or kwargs.values())]  # type: ignore[arg-type]
        if len(set(lengths)) > 1:
            raise errors.ValueError(f"StackDataset: the data sets have {lengths} samples, expected one length")
        self._length = lengths[0]

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """The samples of several data sets, one after another."""

    datasets: list[Dataset[T_co] | Sequence[T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[T_co] | Sequence[T_co]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise errors.ValueError("ConcatDataset: datasets is empty, expected at least one")
        for dataset in self.datasets:
            if isinstance(dataset, IterableDataset):
                raise errors.TypeError("ConcatDataset: an IterableDataset has no places; use ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(one) for one in self.datasets))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> T_co:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise errors.IndexError(f"ConcatDataset: index {index} is out of range of {len(self)} samples")
        number = bisect.bisect_right(self.cumulative_sizes, place)
        before = self.cumulative_sizes[number - 1] if number else 0
        return self.datasets[number][place - before]


class ChainDataset(IterableDataset[Any]):
    """The samples of several iterable data sets, one after another."""

    datasets: list[Dataset[Any]]

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise errors.TypeError(f"ChainDataset: found {type(dataset).__name__}, expected IterableDatasets")

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datasets)  # type: ignore[arg-type]

    def __len__(self) -> int:
        datasets: list[Any] = self.datasets
        return sum(len(dataset) for dataset in datasets)


class Subset(Dataset[T_co]):
    """The samples of a data set at some places."""

    dataset: Dataset[T_co] | Sequence[T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[T_co] | Sequence[T_co], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            places: Any = [self.indices[one] for one in index]
            return self.dataset[places]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[T_co] | Sequence[T_co], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[T_co]]:
    """Divides a data set at random into subsets of some lengths, or of fractions that sum to 1.

    Samples that fractions leave over go to the subsets in turn. Raises ValueError for lengths that do not sum to the
    data set's.

    >>> generator = hlx.Generator().manual_seed(0)
    >>> [len(part) for part in hlx.utils.data.random_split(range(10), [0.75, 0.25], generator)]
    [8, 2]
    """
    n = len(dataset)  # type: ignore[arg-type]
    counts = _counts(lengths, n)
    if sum(counts) != n or min(counts, default=0) < 0:
        raise errors.ValueError(f"random_split: lengths are {list(lengths)}, expected numbers that sum to {n}, or to 1")
    order = permutation(n, generator)
    ends = itertools.accumulate(counts)
    return [Subset(dataset, order[end - count : end]) for end, count in zip(ends, counts, strict=True)]


def _counts(lengths: Sequence[int | float], n: int) -> list[int]:
    """The lengths as numbers of samples; fractions are rounded down, and what is left goes to them in turn."""
    if not (math.isclose(sum(lengths), 1) and (n != 1 or any(isinstance(part, float) for part in lengths))):
        whole = [int(part) for part in lengths]
        return whole if whole == list(lengths) else []
    counts = [math.floor(n * part) for part in lengths]
    for number in range(n - sum(counts)):
        counts[number % len(counts)] += 1
    return counts
