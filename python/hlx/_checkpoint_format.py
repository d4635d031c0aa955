"""PyTorch's format of checkpoints, without PyTorch: the names in its pickles, and the bytes of tensors.

A checkpoint is an uncompressed zip file: `data.pkl` holds the object, with each tensor as a call of
`torch._utils._rebuild_tensor_v2` on a storage, and `data/0`, `data/1`, .. are the bytes of the storages.
"""

from __future__ import annotations

import json
import math
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor, dtype

#: The storages of PyTorch's types, with their names in safetensors files and the bytes of an element.
STORAGES = {
    "FloatStorage": ("F32", 4),
    "DoubleStorage": ("F64", 8),
    "HalfStorage": ("F16", 2),
    "BFloat16Storage": ("BF16", 2),
    "LongStorage": ("I64", 8),
    "IntStorage": ("I32", 4),
    "ShortStorage": ("I16", 2),
    "CharStorage": ("I8", 1),
    "ByteStorage": ("U8", 1),
    "BoolStorage": ("BOOL", 1),
    "UInt16Storage": ("U16", 2),
    "UInt32Storage": ("U32", 4),
    "UInt64Storage": ("U64", 8),
}

#: The storages that HLX writes; PyTorch has none for uint32, whose tensors name their type beside an untyped one.
WRITTEN = {
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int32": "IntStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "uint32": "UInt32Storage",
}

#: PyTorch's types by name: the storage of each.
TYPES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "uint16": "UInt16Storage",
    "uint32": "UInt32Storage",
    "uint64": "UInt64Storage",
}


def name_of(kind: dtype) -> str:
    """A type's name without the package's."""
    return str(kind).rpartition(".")[2]


def bytes_of(tensor: Tensor) -> bytes:
    """The elements in row-major order, little-endian."""
    data = _hlx.to_safetensors({"": _hlx.contiguous(_hlx.detach(tensor))})
    start = 8 + int.from_bytes(data[:8], "little")
    return data[start : start + tensor.numel() * tensor.element_size()]


def tensor_of(data: bytes, storage: str, device: Any) -> Tensor:
    """A tensor [N] of a storage's bytes, on a device: int64 becomes int32 with a check, float64 is rounded."""
    kind, width = STORAGES[storage]
    n = len(data) // width
    header = {"storage": {"dtype": kind, "shape": [n], "data_offsets": [0, n * width]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return _hlx.from_safetensors(len(text).to_bytes(8, "little") + text + data, device)["storage"]


def strided(storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> Tensor:
    """The elements of a storage [N] with these sizes and strides: a view where its order allows one, else a copy."""
    whole = (offset, *size, *stride)
    if len(size) != len(stride) or any(not isinstance(n, int) or isinstance(n, bool) or n < 0 for n in whole):
        raise errors.ValueError(f"a tensor has the size {size}, the strides {stride} and the offset {offset}")
    n = math.prod(size)
    if n == 0:
        return _hlx.reshape(_hlx.narrow(storage, 0, 0, 0), list(size))
    last = offset + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if last >= storage.numel():
        raise errors.ValueError(f"a tensor ends at element {last} of a storage of {storage.numel()}")
    # The order of the dimensions in memory, the slowest first; those of extent 1 have no say.
    order = sorted(range(len(size)), key=lambda dim: (size[dim] != 1, -stride[dim]))
    expected, is_dense = 1, True
    for dim in reversed(order):
        is_dense &= size[dim] == 1 or stride[dim] == expected
        expected *= size[dim]
    if is_dense:
        held = _hlx.reshape(_hlx.narrow(storage, 0, offset, n), [size[dim] for dim in order])
        return _hlx.permute(held, [order.index(dim) for dim in range(len(size))])
    places: Any = offset
    for dim, (extent, step) in enumerate(zip(size, stride, strict=True)):
        shape = [extent if other == dim else 1 for other in range(len(size))]
        steps = _hlx.tensor([i * step for i in range(extent)], dtype("int32"), storage.device)
        places = _hlx.reshape(steps, shape) + places
    return _hlx.reshape(storage[_hlx.reshape(places, [-1])], list(size))
