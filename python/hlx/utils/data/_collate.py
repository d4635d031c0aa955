"""Batches of samples."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor


def _is_array(value: Any) -> bool:
    """Whether a value is NumPy's, an array or a single number; the package need not be installed."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray | numpy.generic)


def _of_array(value: Any) -> Any:
    """A tensor of a NumPy array, float64 rounded to float32; strings stay arrays."""
    if value.dtype.kind not in "fiub":
        return value
    return _hlx.tensor(value.astype("float32") if value.dtype == "float64" else value, None, "cpu")


def _rebuilt(like: Any, values: list[Any]) -> Any:
    """The values in a sequence of the type of another."""
    kind = type(like)
    if hasattr(like, "_fields"):
        return kind(*values)
    try:
        return kind(values)
    except TypeError:
        return values


def _mapped(like: Mapping[Any, Any], values: dict[Any, Any]) -> Any:
    """The values in a mapping of the type of another."""
    try:
        return type(like)(values)  # type: ignore[call-arg]
    except TypeError:
        return values


def default_convert(data: Any) -> Any:
    """Makes tensors of the NumPy arrays in a sample, within dicts, tuples and lists too; the rest stays.

    >>> default_convert = hlx.utils.data.default_convert
    >>> default_convert({"x": [1, 2]})
    {'x': [1, 2]}
    """
    if isinstance(data, Tensor | str | bytes):
        return data
    if _is_array(data):
        return _of_array(data)
    if isinstance(data, Mapping):
        return _mapped(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence):
        return _rebuilt(data, [default_convert(value) for value in data])
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Stacks samples: tensors, NumPy arrays and numbers become tensors with the batch as first dimension.

    Dicts, tuples, lists and named tuples are collated by their members (tuples become lists, as in PyTorch); strings
    stay a list. Floats make float32, integers int32. Raises TypeError for other types and ValueError for members of
    unequal lengths or shapes.

    >>> hlx.utils.data.default_collate([(1.5, "a"), (2.5, "b")])
    [tensor([1.5000, 2.5000]), ['a', 'b']]
    """
    samples = list(batch)
    if not samples:
        raise errors.ValueError("default_collate: the batch is empty")
    first = samples[0]
    if isinstance(first, Tensor):
        return _stacked(samples)
    if _is_array(first):
        made = [_of_array(one) for one in samples]
        if not isinstance(made[0], Tensor):
            raise errors.TypeError(f"default_collate: an array has dtype {first.dtype}, expected numbers")
        return _stacked(made)
    if isinstance(first, bool | int | float):
        return _hlx.tensor(samples, None, "cpu")
    if isinstance(first, str | bytes):
        return samples
    if isinstance(first, Mapping):
        return _mapped(first, {key: default_collate([one[key] for one in samples]) for key in first})
    if isinstance(first, Sequence):
        return _of_sequences(first, samples)
    raise errors.TypeError(
        f"default_collate: a sample is {type(first).__name__}, "
        "expected tensors, NumPy arrays, numbers, strings, or dicts and sequences of them"
    )


def _stacked(tensors: list[Tensor]) -> Tensor:
    for place, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape:
            found, expected = list(tensor.shape), list(tensors[0].shape)
            raise errors.ValueError(f"default_collate: sample {place} has shape {found}, the first one {expected}")
    stacked: Tensor = _hlx.stack(tensors, 0)
    return stacked


def _of_sequences(first: Sequence[Any], samples: list[Any]) -> Any:
    lengths = {len(one) for one in samples}
    if len(lengths) > 1:
        raise errors.ValueError(f"default_collate: samples have {sorted(lengths)} members, expected one length")
    members = [default_collate(member) for member in zip(*samples, strict=True)]
    is_plain = isinstance(first, tuple) and not hasattr(first, "_fields")
    return members if is_plain else _rebuilt(first, members)
