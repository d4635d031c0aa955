"""Makes one batch of a data set; the loader's process and its workers do it alike."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from hlx.utils.data._collate import default_collate
from hlx.utils.data._dataset import IterableDataset

#: What a fetch returns after the last sample of an iterable data set.
END = "the end of an iterable data set"


class Fetcher:
    """The batches of an epoch, from the places that a sampler gives."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset, self.collate, self.drop_last = dataset, collate, drop_last
        self.samples: Iterator[Any] | None = iter(dataset) if isinstance(dataset, IterableDataset) else None

    def fetch(self, places: Any) -> Any:
        """The batch of a list of places, or the sample of a single place."""
        if self.samples is not None:
            return self._next(places)
        if not isinstance(places, list | tuple):
            return self.collate(self.dataset[places])
        # A subclass may have samples of its own, unless it says otherwise.
        collated = vars(type(self.dataset)).get("collated")
        if self.collate is default_collate and collated is not None:
            return collated(self.dataset, places)
        many = getattr(self.dataset, "__getitems__", None)
        return self.collate([self.dataset[place] for place in places] if many is None else many(places))

    def _next(self, places: Any) -> Any:
        """The next samples, as many as there are places."""
        assert self.samples is not None
        if not isinstance(places, list | tuple):
            sample = next(self.samples, END)
            return END if sample is END else self.collate(sample)
        samples = list(itertools.islice(self.samples, len(places)))
        is_short = len(samples) < len(places)
        return END if not samples or (is_short and self.drop_last) else self.collate(samples)
