"""The process of a worker: it makes the batches that the loader's process names, one after another."""

from __future__ import annotations

import os
import pickle
import queue
import random
import signal
import sys
import threading
import traceback
from multiprocessing import connection as _connection
from multiprocessing import parent_process
from typing import Any

from hlx import _hlx, errors
from hlx.utils.data._collate import default_collate
from hlx.utils.data._fetch import END, Fetcher
from hlx.utils.data._info import WorkerInfo, set_worker_info
from hlx.utils.data._transfer import Message


def use_one_thread() -> None:
    """Gives the CPU device of this process one thread, as the workers share the machine's."""
    os.environ.setdefault("HLX_THREADS", "1")


class OneThread:
    """Calls `use_one_thread` where it is unpickled: in front of a data set whose tensors open the device."""

    def __reduce__(self) -> Any:
        return use_one_thread, ()


class WorkerError(Exception):
    """The traceback of an error in a worker, as the cause of the error in the loader's process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def seed_all(seed: int) -> None:
    """Seeds HLX's generator, Python's, and NumPy's if it is loaded."""
    _hlx.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed % 2**32)


def mixed(seed: int, number: int) -> int:
    """A seed of a seed and a number (the finalizer of SplitMix64)."""
    value = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def work(_first: object, link: _connection.Connection, number: int, n_workers: int, job: tuple[Any, ...]) -> None:
    """Makes batches until the link is closed: what a worker's process runs."""
    # Ctrl-C reaches the processes of a terminal's group; the loader's ends the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    outbox: queue.SimpleQueue[Message] = queue.SimpleQueue()
    # Another thread sends, so that the next batch is made while the one before waits to be taken.
    threading.Thread(target=_send_all, args=(link, outbox), daemon=True).start()
    Worker(outbox, number, n_workers, *job).run(link)


def _end_with(sentinel: int) -> None:
    """Ends this process when the loader's has ended, whatever the data set is doing."""
    _connection.wait([sentinel])
    os._exit(1)


def _send_all(link: _connection.Connection, outbox: queue.SimpleQueue[Message]) -> None:
    try:
        while True:
            outbox.get().send(link)
    except OSError:
        # The loader has closed the link.
        os._exit(0)


class Worker:
    """A worker's state: its copy of the data set and its place in the epoch."""

    def __init__(
        self,
        outbox: queue.SimpleQueue[Message],
        number: int,
        n_workers: int,
        dataset: Any,
        collate: Any,
        drop_last: bool,
        init: Any,
    ) -> None:
        self.outbox, self.number, self.n_workers = outbox, number, n_workers
        self.dataset, self.collate, self.drop_last, self.init = dataset, collate, drop_last, init
        self.fetcher: Fetcher | None = None
        self.failed: Exception | None = None
        self.is_ready = False
        self.base_seed = 0

    def run(self, link: _connection.Connection) -> None:
        """Answers the loader's messages: an epoch's seed, or a batch's number and places."""
        while True:
            try:
                message = link.recv()
            except (EOFError, OSError):
                return
            if message[0] == "epoch":
                self._begin(message[1])
            else:
                self._answer(*message[1:])

    def _begin(self, base_seed: int) -> None:
        """Begins an epoch; an error is the answer to its first batch."""
        self.base_seed = base_seed
        seed = (base_seed + self.number) % 2**64
        self.failed = None
        try:
            seed_all(seed)
            set_worker_info(WorkerInfo(self.number, self.n_workers, seed, self.dataset))
            if self.init is not None and not self.is_ready:
                self.init(self.number)
            self.is_ready = True
            self.fetcher = Fetcher(self.dataset, self.collate, self.drop_last)
        except Exception as error:
            self.failed = error

    def _answer(self, epoch: int, task: int, places: Any) -> None:
        try:
            if self.failed is not None:
                raise self.failed
            assert self.fetcher is not None
            if self.fetcher.samples is None:
                # What a batch draws depends on its number and not on the worker that makes it.
                seed_all(mixed(self.base_seed, task))
            batch = self.fetcher.fetch(places)
            answer = (epoch, task, "end", None) if batch is END else (epoch, task, "batch", batch)
            # What the data set itself has made, it may still change.
            message = Message(answer, is_fresh=self.collate is default_collate)
        except Exception as error:
            message = Message((epoch, task, "error", self._portable(error)))
        self.outbox.put(message)

    def _portable(self, error: Exception) -> tuple[Exception, str]:
        """An error that can be sent, and its traceback."""
        text = traceback.format_exc()
        error.add_note(f"(in worker {self.number} of the DataLoader)")
        error.__cause__ = error.__context__ = None
        try:
            is_portable = type(pickle.loads(pickle.dumps(error))) is type(error)
        except Exception:
            is_portable = False
        # A StopIteration would end the loop over the batches without an error.
        if not is_portable or isinstance(error, StopIteration):
            kind = type(error).__name__
            error = errors.RuntimeError(f"DataLoader: worker {self.number} raised {kind}: {error}")
        return error, text
