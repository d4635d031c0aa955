"""Calls operations by PyTorch's names, as its `op_db` does."""

from collections.abc import Callable
from typing import Any

import hlx

#: Methods of tensors that `op_db` calls as such.
_METHODS = frozenset(
    "bfloat16 bool byte char contiguous expand expand_as float half int repeat reshape_as to unfold view view_as".split()
)


def _where(input: Any, condition: Any, other: Any) -> Any:
    return hlx.where(condition, input, other)


def _embedding(weight: Any, ids: Any, **keywords: Any) -> Any:
    return hlx.nn.functional.embedding(ids, weight, **keywords)


def _slice(x: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    return x[(*[slice(None)] * (dim % x.ndim), slice(start, end, step))]


def _item(x: Any, index: Any) -> Any:
    # A tuple of the samples is a list here; a list of numbers alone is one index.
    if isinstance(index, list) and not all(type(place) is int for place in index):
        index = tuple(index)
    return x[index]


_SPECIAL: dict[str, Callable[..., Any]] = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "__getitem__": _item,
    "slice": _slice,
    "where": _where,
    "einsum": lambda operands, equation: hlx.einsum(equation, operands),
    "nn.functional.embedding": _embedding,
}


def operation(name: str) -> Callable[..., Any]:
    """The function of the package that carries out an operation of `op_db`."""
    name = name.partition("/")[0]
    if name in _SPECIAL:
        return _SPECIAL[name]
    if name in _METHODS:
        return getattr(hlx.Tensor, name)
    found: Any = hlx
    for part in name.split("."):
        found = getattr(found, part)
    return found
