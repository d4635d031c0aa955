"""The loader: batches of a data set, made here or ahead by worker processes."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from hlx import _hlx, errors
from hlx._hlx import Generator
from hlx.utils.data._collate import default_collate, default_convert
from hlx.utils.data._dataset import Dataset, IterableDataset
from hlx.utils.data._fetch import END, Fetcher
from hlx.utils.data._sampler import BatchSampler, RandomSampler, SequentialSampler, count

if TYPE_CHECKING:
    from hlx.utils.data._pool import Pool

T_co = TypeVar("T_co", covariant=True)


class _Endless:
    """The places of an iterable data set: nothing, again and again."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.repeat(None)


class DataLoader(Generic[T_co]):
    """The batches of a data set, as `torch.utils.data.DataLoader`.

    A shuffled order depends on the seed of `generator` (or of all threads' one) and the number of its epoch alone, with
    any number of workers: it is that of the loader in Rust. `num_workers` processes make batches ahead,
    `prefetch_factor` each; they are spawned, so that a script needs `if __name__ == "__main__":`. `worker_init_fn(id)`
    is called in each. `timeout` is in seconds, 0 for none. `pin_memory` and `in_order` are accepted and have no effect.

    An error of a worker is raised here, with its traceback as the cause, and ends the epoch.

    >>> loader = hlx.utils.data.DataLoader([1.0, 2.0, 3.0], batch_size=2)
    >>> len(loader), list(loader)
    (2, [tensor([1., 2.]), tensor([3.])])
    """

    dataset: Any
    num_workers: int
    timeout: float
    generator: Generator | None
    pin_memory: bool
    persistent_workers: bool
    prefetch_factor: int | None
    collate_fn: Callable[[Any], Any]
    batch_size: int | None
    drop_last: bool
    sampler: Any
    batch_sampler: Any

    def __init__(
        self,
        dataset: Dataset[T_co] | Sequence[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[list[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.num_workers, self.timeout = num_workers, timeout
        self.dataset = dataset
        self.generator, self.pin_memory, self.persistent_workers = generator, pin_memory, persistent_workers
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context or "spawn"
        self._check_workers(prefetch_factor)
        self.prefetch_factor = (prefetch_factor or 2) if num_workers else None
        self._choose_samplers(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.collate_fn = collate_fn or (default_convert if self.batch_sampler is None else default_collate)
        self._pool: Pool | None = None

    def _check_workers(self, prefetch_factor: int | None) -> None:
        if not isinstance(self.num_workers, int) or self.num_workers < 0:
            raise errors.ValueError(f"DataLoader: num_workers is {self.num_workers}, expected at least 0")
        if self.timeout < 0:
            raise errors.ValueError(f"DataLoader: timeout is {self.timeout}, expected at least 0")
        if not self.num_workers and (prefetch_factor is not None or self.persistent_workers):
            raise errors.ValueError("DataLoader: prefetch_factor and persistent_workers need num_workers above 0")
        if prefetch_factor is not None:
            count("DataLoader: prefetch_factor", prefetch_factor)
        context = self.multiprocessing_context
        name = context if isinstance(context, str) else context.get_start_method()
        if name == "fork":
            raise errors.ValueError('DataLoader: multiprocessing_context is "fork", expected "spawn" or "forkserver"')

    def _choose_samplers(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        is_iterable = isinstance(self.dataset, IterableDataset)
        if is_iterable and (shuffle or sampler is not None or batch_sampler is not None):
            raise errors.ValueError(
                "DataLoader: an IterableDataset has its own order; shuffle and samplers need places"
            )
        if sampler is not None and shuffle:
            raise errors.ValueError("DataLoader: sampler and shuffle=True are given, expected one of them")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise errors.ValueError(
                    "DataLoader: batch_sampler is given, which decides batch_size, shuffle, sampler and drop_last"
                )
            batch_size = None
        elif batch_size is None and drop_last:
            raise errors.ValueError("DataLoader: drop_last needs a batch_size")
        if sampler is None and is_iterable:
            sampler = _Endless()
        elif sampler is None:
            sampler = RandomSampler(self.dataset, generator=self.generator) if shuffle else None
            sampler = sampler or SequentialSampler(self.dataset)
        if batch_size is not None:
            count("DataLoader: batch_size", batch_size)
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size, self.drop_last = batch_size, drop_last
        self.sampler, self.batch_sampler = sampler, batch_sampler

    def __len__(self) -> int:
        dataset: Any = self.dataset
        if not isinstance(self.dataset, IterableDataset):
            places: Any = self.sampler if self.batch_sampler is None else self.batch_sampler
            return len(places)
        n = len(dataset)
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        base_seed = _hlx.next_seed(self.generator)
        batches = iter(self.sampler if self.batch_sampler is None else self.batch_sampler)
        if self.num_workers:
            return _FromWorkers(self, self._workers(), batches, base_seed)
        return self._made_here(Fetcher(self.dataset, self.collate_fn, self.drop_last), batches)

    def _made_here(self, fetcher: Fetcher, batches: Iterator[Any]) -> Iterator[Any]:
        for places in batches:
            batch = fetcher.fetch(places)
            if batch is END:
                return
            yield batch

    def _workers(self) -> Pool:
        """The processes: those of the epoch before, if they persist."""
        from hlx.utils.data._pool import Pool

        if self._pool is not None and self._pool.close.alive:
            return self._pool
        job = (self.dataset, self.collate_fn, self.drop_last, self.worker_init_fn)
        pool = Pool(self.num_workers, self.multiprocessing_context, job)
        self._pool = pool if self.persistent_workers else None
        return pool


class _FromWorkers:
    """The batches of an epoch in their order, from workers that are some batches ahead.

    Which worker makes a batch, and when it is told to, depends on the batches taken and not on their speed.
    """

    def __init__(self, loader: DataLoader[Any], pool: Pool, batches: Iterator[Any], base_seed: int) -> None:
        self._pool, self._batches = pool, batches
        self._timeout, self._persists = loader.timeout, loader.persistent_workers
        self._epoch = pool.begin(base_seed)
        #: Workers that have more, in the order in which they are told.
        self._active = deque(range(loader.num_workers))
        #: Batches that are told and not yet taken: their numbers and workers.
        self._told: deque[tuple[int, int]] = deque()
        self._n_told = 0
        try:
            for _ in range(loader.num_workers * (loader.prefetch_factor or 1)):
                self._tell()
        except BaseException:
            self._pool.close()
            raise

    def __iter__(self) -> Iterator[Any]:
        return self

    def _tell(self) -> None:
        """Tells the next worker to make the next batch, if there are both."""
        if not self._active:
            return
        try:
            places = next(self._batches)
        except StopIteration:
            return
        worker = self._active[0]
        self._active.rotate(-1)
        self._pool.request(worker, self._n_told, places)
        self._told.append((self._n_told, worker))
        self._n_told += 1

    def __next__(self) -> Any:
        if self._pool.epoch != self._epoch:
            raise errors.RuntimeError("DataLoader: the loader's workers have begun another epoch")
        try:
            return self._take()
        except StopIteration:
            if not self._persists:
                self._pool.close()
            raise
        except BaseException:
            # An error, or Ctrl-C: no process is left behind.
            self._told.clear()
            self._active.clear()
            self._pool.close()
            raise

    def _take(self) -> Any:
        from hlx.utils.data._pool import raise_worker_error

        while self._told:
            task, worker = self._told.popleft()
            _, found, kind, value = self._pool.receive(worker, self._timeout)
            assert found == task, "a worker answers in the order in which it is told"
            if kind == "error":
                raise_worker_error(*value)
            if kind == "batch":
                self._tell()
                return value
            if worker in self._active:
                self._active.remove(worker)
            self._tell()
        raise StopIteration
