"""Data sets for the tests of loaders, in a module that worker processes can import quickly."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

import numpy

import hlx
from hlx.utils.data import Dataset, IterableDataset, get_worker_info


class Squares(Dataset[Any]):
    """Squares; the first samples take the longest, so that later batches are ready first."""

    def __init__(self, n: int = 23, pause: float = 0.0) -> None:
        self.n, self.pause = n, pause

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> Any:
        time.sleep(self.pause * (self.n - index))
        return {"square": hlx.tensor(float(index * index)), "index": index}


class Draws(Squares):
    """Samples with random numbers of three generators."""

    def __getitem__(self, index: int) -> Any:
        return hlx.rand(2), random.random(), float(numpy.random.rand())


class Fails(Squares):
    """A data set whose sample 5 ends in some way."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            self.end()
        return index

    def end(self) -> None:
        """Raises an error, ends the process, or takes long."""
        if self.how == "value":
            raise ValueError("sample 5 is gone")
        if self.how == "custom":
            raise Custom(1, 2)
        if self.how == "stop":
            raise StopIteration
        if self.how == "exit":
            os._exit(3)
        time.sleep(600)


class Custom(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class Who(Squares):
    """Samples that say who makes them."""

    def __getitem__(self, index: int) -> Any:
        info = get_worker_info()
        assert info is not None and info.dataset is self
        return info.id, info.num_workers, os.getpid(), os.environ.get("WHO"), os.environ.get("HLX_THREADS")


class Stream(IterableDataset[int]):
    """Numbers, of which each worker gives its part."""

    def __init__(self, n: int = 11) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        first, step = (info.id, info.num_workers) if info else (0, 1)
        return iter(range(first, self.n, step))


def set_who(number: int) -> None:
    """A `worker_init_fn`."""
    os.environ["WHO"] = f"worker {number}"


def fail_to_start(number: int) -> None:
    """A `worker_init_fn` that raises."""
    raise OSError(f"no file for {number}")


def joined(samples: list[Any]) -> str:
    """A `collate_fn`."""
    return ",".join(str(sample["index"]) for sample in samples)
