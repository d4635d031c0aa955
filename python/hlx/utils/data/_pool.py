"""The worker processes of a loader, seen from its own process."""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from multiprocessing import connection as _connection
from multiprocessing.process import BaseProcess
from typing import Any

from hlx import errors
from hlx.utils.data._transfer import receive
from hlx.utils.data._worker import OneThread, WorkerError, work

#: How long a worker that is told to end may finish its sample, in seconds.
PATIENCE = 1.0


class Pool:
    """Worker processes, each with a link for messages both ways."""

    def __init__(self, n_workers: int, context: Any, job: tuple[Any, ...]) -> None:
        self.processes: list[BaseProcess] = []
        self.links: list[_connection.Connection] = []
        self.epoch = 0
        # Ends the processes when the pool is dropped, and at the end of the interpreter.
        self.close = weakref.finalize(self, _close, self.processes, self.links)
        chosen = multiprocessing.get_context(context) if isinstance(context, str) else context
        try:
            for number in range(n_workers):
                self._start(chosen, number, n_workers, job)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, number: int, n_workers: int, job: tuple[Any, ...]) -> None:
        link, of_worker = context.Pipe()
        name = f"hlx DataLoader worker {number}"
        arguments = (OneThread(), of_worker, number, n_workers, job)
        process = context.Process(target=work, args=arguments, name=name, daemon=True)
        self.links.append(link)
        try:
            with _without_interrupts():
                process.start()
                self.processes.append(process)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise errors.TypeError(
                "DataLoader: the data set and its functions cannot be sent to workers "
                f"({error}); define them in a module, or use num_workers=0"
            ) from error
        finally:
            of_worker.close()

    def begin(self, base_seed: int) -> int:
        """Begins an epoch in all workers and returns its number; answers of earlier ones are dropped."""
        self.epoch += 1
        for number in range(len(self.links)):
            self._send(number, ("epoch", base_seed))
        return self.epoch

    def request(self, number: int, task: int, places: Any) -> None:
        """Tells a worker to make a batch."""
        self._send(number, ("batch", self.epoch, task, places))

    def _send(self, number: int, message: Any) -> None:
        try:
            self.links[number].send(message)
        except OSError:
            raise self._ended(number) from None

    def receive(self, number: int, timeout: float) -> tuple[int, int, str, Any]:
        """The next answer of a worker; raises RuntimeError if it has ended, or does not answer in time."""
        link, process = self.links[number], self.processes[number]
        until = time.monotonic() + timeout if timeout else None
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = _connection.wait([link, process.sentinel], left)
            if not ready:
                raise errors.RuntimeError(f"DataLoader: worker {number} made no batch within {timeout:g} s")
            if link not in ready and not link.poll():
                raise self._ended(number)
            try:
                answer: tuple[int, int, str, Any] = receive(link)
            except (EOFError, OSError):
                raise self._ended(number) from None
            if answer[0] == self.epoch:
                return answer

    def _ended(self, number: int) -> Exception:
        process = self.processes[number]
        process.join(PATIENCE)
        code = process.exitcode
        found = f"DataLoader: worker {number} (process {process.pid}) ended with exit code {code}"
        if code == 1:
            found += "; a script that uses workers needs `if __name__ == '__main__':`"
        return errors.RuntimeError(found)


def raise_worker_error(error: Exception, text: str) -> None:
    """Raises the error of a worker, whose traceback is its cause."""
    raise error from WorkerError(text)


def _close(processes: list[BaseProcess], links: list[_connection.Connection]) -> None:
    """Ends the processes: those that do not end by themselves in time are killed."""
    for link in links:
        link.close()
    until = time.monotonic() + PATIENCE
    for process in processes:
        process.join(max(0.0, until - time.monotonic()))
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    for process in late:
        process.join()
    for process in processes:
        process.close()
    processes.clear()
    links.clear()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Holds Ctrl-C back while a process starts, which inherits that it is deaf to it."""
    if not hasattr(signal, "pthread_sigmask") or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
