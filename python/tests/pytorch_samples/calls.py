"""Calls operations by PyTorch's names, as its `op_db` does."""

import operator
from collections.abc import Callable
from typing import Any

import hlx

#: Methods of tensors that `op_db` calls as such.
_METHODS = frozenset(
    """
    bfloat16 bool byte char contiguous expand expand_as float half int new_full new_ones new_zeros repeat reshape_as
    sum_to_size to unfold view view_as
    """.split()
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


def _reflected(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda right, left: function(left, right)


_SPECIAL: dict[str, Callable[..., Any]] = {
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "mH": lambda x: x.mH,
    "__radd__": _reflected(operator.add),
    "__rmul__": _reflected(operator.mul),
    "__rsub__": _reflected(operator.sub),
    "__rmod__": _reflected(operator.mod),
    "__rpow__": _reflected(operator.pow),
    "__rmatmul__": _reflected(operator.matmul),
    "__rand__": _reflected(operator.and_),
    "__ror__": _reflected(operator.or_),
    "__rxor__": _reflected(operator.xor),
    "__getitem__": _item,
    "slice": _slice,
    "where": _where,
    "einsum": lambda operands, equation: hlx.einsum(equation, operands),
    "nn.functional.embedding": _embedding,
    "nn.functional.embedding_bag": lambda weight, ids, **keywords: hlx.nn.functional.embedding_bag(
        ids, weight, **keywords
    ),
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
