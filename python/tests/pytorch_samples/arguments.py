"""Makes a sample's arguments: tensors with the strides that PyTorch's have, numbers, types, slices."""

import itertools
from typing import Any

import numpy

import hlx

from .fixture import Fixture

DTYPES = {
    "f32": hlx.float32, "f16": hlx.float16, "bf16": hlx.bfloat16, "i32": hlx.int32, "i64": hlx.int32,
    "i8": hlx.int8, "u8": hlx.uint8, "bool": hlx.bool,
}  # fmt: skip
#: What these keywords say has no meaning here.
PLACEMENT = {"layout", "memory_format", "pin_memory"}


def made(fixture: Fixture, values: numpy.ndarray, dtype: str, device: str) -> hlx.Tensor:
    """A contiguous tensor of NumPy's values."""
    return hlx.tensor(values.copy(order="C"), dtype=DTYPES[dtype], device=device)


def _memory(shape: list[int], strides: list[int]) -> tuple[list[int], list[int]] | None:
    """The axes outermost first and the extents of a memory whose views these strides make; else None."""
    order = [axis for axis in range(len(shape)) if strides[axis] > 0 and shape[axis] > 1]
    order.sort(key=lambda axis: -strides[axis])
    for outer, inner in itertools.pairwise(order):
        if strides[outer] % strides[inner] or strides[outer] // strides[inner] < shape[inner]:
            return None
    if not order:
        return None
    extents = [shape[order[0]]]
    extents += [strides[outer] // strides[inner] for outer, inner in itertools.pairwise(order)]
    return order, [*extents, strides[order[-1]]]


def _strided(fixture: Fixture, values: numpy.ndarray, dtype: str, strides: list[int], device: str) -> hlx.Tensor:
    """A view with strides, or a contiguous tensor where they make elements overlap without being 0."""
    shape = list(values.shape)
    memory = _memory(shape, strides)
    if memory is None:
        return made(fixture, values, dtype, device)
    order, extents = memory
    filled = numpy.full(extents, 1 if dtype == "bool" else 77, dtype=values.dtype)
    rest = [axis for axis in range(len(shape)) if axis not in order]
    picked = numpy.transpose(values, [*order, *rest])[(..., *[0] * len(rest))]
    filled[(*[slice(0, shape[axis]) for axis in order], 0)] = picked
    view = made(fixture, filled, dtype, device).select(-1, 0)
    for place, axis in enumerate(order):
        view = view.narrow(place, 0, shape[axis])
    ranked = sorted(order)
    view = view.permute([order.index(axis) for axis in ranked])
    for axis in rest:
        view = view.unsqueeze(axis)
    return view.expand(shape)


class Arguments:
    """The arguments of a sample, and its leaves in the fixture's order."""

    def __init__(self, fixture: Fixture, sample: dict[str, Any], device: str) -> None:
        """Makes them on a device."""
        self._fixture, self._device = fixture, device
        self.leaves: list[hlx.Tensor] = []
        self.positional = [self._made(value) for value in sample["a"]]
        keywords = sample.get("k") or {}
        named = {name: self._made(keywords[name]) for name in sorted(keywords)}
        self.keywords = {name: value for name, value in named.items() if name not in PLACEMENT}
        if "device" in self.keywords:
            self.keywords["device"] = device

    def _made(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._made(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "t" in value:
            return self._tensor(value)
        if "d" in value:
            return DTYPES[value["d"]]
        if "f" in value:
            return float(value["f"])
        if "sl" in value:
            return slice(*value["sl"])
        return Ellipsis if "e" in value else value.get("x")

    def _tensor(self, entry: dict[str, Any]) -> hlx.Tensor:
        values, strides = self._fixture.array(entry)
        if strides is None or values.size <= 1:
            tensor = made(self._fixture, values, entry["t"], self._device)
        else:
            tensor = _strided(self._fixture, values, entry["t"], strides, self._device)
        if "g" in entry:
            tensor = tensor.detach().requires_grad_()
            self.leaves.append(tensor)
        return tensor
