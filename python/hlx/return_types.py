"""The named tuples of operations with several results, as `torch.return_types`."""

from typing import NamedTuple

from hlx._hlx import Tensor


class _Places(NamedTuple):
    values: Tensor
    indices: Tensor


class max(_Places):
    """The largest elements along a dimension, and their places."""


class min(_Places):
    """The smallest elements along a dimension, and their places."""


class sort(_Places):
    """Sorted elements, and the places that they had."""


class topk(_Places):
    """The largest or smallest elements in order, and their places."""


class median(_Places):
    """The medians along a dimension, and their places."""


class kthvalue(_Places):
    """The k-th smallest elements along a dimension, and their places."""


class cummax(_Places):
    """The largest elements so far along a dimension, and their places."""


class cummin(_Places):
    """The smallest elements so far along a dimension, and their places."""


class nanmedian(_Places):
    """The medians of the elements that are not NaN along a dimension, and their places."""


class aminmax(NamedTuple):
    """The smallest and the largest elements."""

    min: Tensor
    max: Tensor
