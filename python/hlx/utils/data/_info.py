"""What a worker knows about itself."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class WorkerInfo:
    """A worker of a loader: its number, how many there are, its seed in this epoch, and its copy of the data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_current: WorkerInfo | None = None


def set_worker_info(info: WorkerInfo) -> None:
    """Says in a worker's process which worker it is."""
    global _current
    _current = info


def get_worker_info() -> WorkerInfo | None:
    """The worker that the call is made in; None in the process of the loader itself.

    An `IterableDataset` divides its samples by it.

    >>> hlx.utils.data.get_worker_info() is None
    True
    """
    return _current
