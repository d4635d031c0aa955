"""Reads the pickle of a checkpoint. It makes tensors, numbers, texts and containers, and calls nothing else."""

from __future__ import annotations

import _codecs
import pickle
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from hlx import errors
from hlx._checkpoint_format import STORAGES, TYPES, strided, tensor_of
from hlx._hlx import Tensor, device, dtype
from hlx._size import Size


class _Storage:
    """The name of a storage's type in a pickle."""

    def __init__(self, name: str | None) -> None:
        self.name = name


class _Held:
    """A storage's elements, as bytes until a tensor says their type, and then as a tensor."""

    def __init__(self, data: bytes, kind: str | None, place: Any) -> None:
        self._data, self._kind, self._place = data, kind, place
        self._tensors: dict[str, Tensor] = {}

    def tensor(self, kind: str | None = None) -> Tensor:
        """The storage as a tensor [N]."""
        name = kind or self._kind
        if name is None:
            raise errors.ValueError("a tensor's type is missing")
        if name not in self._tensors:
            self._tensors[name] = tensor_of(self._data, name, self._place)
        return self._tensors[name]


class _Type:
    """A type of PyTorch, which HLX need not have."""

    def __init__(self, name: str) -> None:
        self.name = name

    def value(self) -> dtype:
        """The type where it is read as itself."""
        return dtype(self.name)


def _rebuilt(held: _Held, offset: int, size: Any, stride: Any, requires_grad: bool, *_hooks: Any) -> Tensor:
    made = strided(held.tensor(), offset, tuple(size), tuple(stride))
    return made.requires_grad_() if requires_grad else made


def _rebuilt_typed(
    held: _Held, offset: int, size: Any, stride: Any, requires_grad: bool, _hooks: Any, kind: Any, *_metadata: Any
) -> Tensor:
    # What is a type of HLX came as such.
    name = TYPES[kind.name if isinstance(kind, _Type) else str(kind).rpartition(".")[2]]
    made = strided(held.tensor(name), offset, tuple(size), tuple(stride))
    return made.requires_grad_() if requires_grad else made


def _rebuilt_parameter(data: Tensor, requires_grad: bool, *_hooks: Any) -> Tensor:
    from hlx.nn.parameter import Parameter

    return Parameter(data, requires_grad)


def _device(kind: str, index: int | None = None) -> device | str:
    """A device; one that HLX has not stays a text, such as "cuda:0"."""
    name = kind if index is None else f"{kind}:{index}"
    try:
        return device(name)
    except errors.Error:
        return name


_ALLOWED: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): Counter,
    ("_codecs", "encode"): _codecs.encode,
    ("__builtin__", "set"): set,
    ("builtins", "set"): set,
    ("__builtin__", "bytearray"): bytearray,
    ("builtins", "bytearray"): bytearray,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuilt,
    ("torch._utils", "_rebuild_tensor_v3"): _rebuilt_typed,
    ("torch._utils", "_rebuild_parameter"): _rebuilt_parameter,
    ("torch", "Size"): Size,
    ("torch", "device"): _device,
    ("torch.storage", "UntypedStorage"): _Storage(None),
}
_ALLOWED |= {("torch", name): _Storage(name) for name in STORAGES}


class Reader(pickle._Unpickler):
    """An unpickler that knows the names of checkpoints and refuses all others."""

    def __init__(self, file: Any, storage: Callable[[str], bytes], place: Callable[[str], Any]) -> None:
        super().__init__(file)
        self._storage, self._place = storage, place
        self._held: dict[str, _Held] = {}

    def find_class(self, module: str, name: str) -> Any:
        """What a name of the pickle stands for."""
        if module == "torch" and name in TYPES:
            try:
                return dtype(name)
            except errors.Error:
                return _Type(name)
        found = _ALLOWED.get((module, name))
        if found is None:
            raise errors.ValueError(
                f"it holds a {module}.{name}; load makes tensors, numbers, texts and containers of these"
            )
        return found

    def persistent_load(self, saved: Any) -> _Held:
        """A storage."""
        kind, storage, key, location, n_elements = saved
        if kind != "storage" or not isinstance(storage, _Storage) or not isinstance(n_elements, int):
            raise errors.ValueError("a storage has an unknown form")
        if key not in self._held:
            data = self._storage(key)
            width = 1 if storage.name is None else STORAGES[storage.name][1]
            if len(data) < n_elements * width:
                raise errors.ValueError(f"storage {key} has {len(data)} bytes, expected {n_elements * width}")
            self._held[key] = _Held(data[: n_elements * width], storage.name, self._place(location))
        return self._held[key]
