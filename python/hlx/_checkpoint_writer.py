"""Writes an object as the pickle of a checkpoint, in the words that PyTorch's reader takes."""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict
from typing import Any

from hlx import _hlx, errors
from hlx._checkpoint_format import WRITTEN, bytes_of, name_of
from hlx._hlx import Tensor, device, dtype
from hlx._size import Size

KINDS = (
    "expected tensors, numbers, texts, bytes, None, and lists, tuples, sets and dicts of these; save a module's or an "
    "optimizer's state_dict()"
)


class Writer:
    """Collects the words of a pickle (protocol 2) and the bytes of the storages beside it."""

    def __init__(self) -> None:
        self.storages: list[bytes] = []
        self._out = bytearray(b"\x80\x02")
        #: The numbers of what was written, by id; and what was written, which keeps the ids.
        self._memo: dict[int, int] = {}
        self._kept: list[Any] = []
        self._n_memo = 0
        self._globals: dict[tuple[str, str], int] = {}
        #: Storages by address, type and number of elements: parameters that are tied stay so.
        self._places: dict[tuple[int, dtype, int], int] = {}
        self._path: list[str] = []
        self._open: set[int] = set()

    def finished(self, value: Any) -> bytes:
        """The pickle of an object."""
        self._value(value)
        self._out += b"."
        return bytes(self._out)

    def _value(self, value: Any) -> None:
        simple = _simple(value)
        if simple is not None:
            self._out += simple
            return
        if id(value) in self._memo:
            self._get(self._memo[id(value)])
            return
        write = _WRITERS.get(type(value))
        if isinstance(value, Tensor):
            write = Writer._tensor
        if write is None:
            raise errors.TypeError(f"save: {self._where()} is a {type(value).__qualname__}, {KINDS}")
        if id(value) in self._open:
            raise errors.ValueError(f"save: {self._where()} contains itself")
        self._open.add(id(value))
        write(self, value)
        self._open.discard(id(value))

    def _where(self) -> str:
        return f"obj{''.join(self._path)}" if self._path else "obj"

    def _within(self, part: str, value: Any) -> None:
        self._path.append(part)
        self._value(value)
        self._path.pop()

    def _put(self, value: Any) -> None:
        """Notes what was written last, so that it is referred to where it comes again."""
        self._memo[id(value)] = self._number()
        self._kept.append(value)

    def _number(self) -> int:
        number = self._n_memo
        self._n_memo += 1
        self._out += b"q" + bytes([number]) if number < 256 else b"r" + struct.pack("<I", number)
        return number

    def _get(self, number: int) -> None:
        self._out += b"h" + bytes([number]) if number < 256 else b"j" + struct.pack("<I", number)

    def _global(self, module: str, name: str) -> None:
        number = self._globals.get((module, name))
        if number is not None:
            self._get(number)
            return
        self._out += f"c{module}\n{name}\n".encode()
        self._globals[module, name] = self._number()

    def _text(self, value: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self._out += b"X" + struct.pack("<I", len(data)) + data
        self._put(value)

    def _bytes(self, value: bytes) -> None:
        # Protocol 2 has no bytes: they are a text whose characters are encoded again.
        self._global("_codecs", "encode")
        data = value.decode("latin1").encode("utf-8")
        self._out += b"(X" + struct.pack("<I", len(data)) + data
        self._out += b"X" + struct.pack("<I", 6) + b"latin1" + b"tR"
        self._put(value)

    def _list(self, value: list[Any]) -> None:
        self._out += b"]"
        self._put(value)
        self._out += b"("
        for place, part in enumerate(value):
            self._within(f"[{place}]", part)
        self._out += b"e"

    def _tuple(self, value: tuple[Any, ...]) -> None:
        self._out += b"("
        for place, part in enumerate(value):
            self._within(f"[{place}]", part)
        self._out += b"t"
        self._put(value)

    def _items(self, value: dict[Any, Any]) -> None:
        self._out += b"("
        for key, part in value.items():
            self._within(f"[{key!r}]", key)
            self._within(f"[{key!r}]", part)
        self._out += b"u"

    def _dict(self, value: dict[Any, Any]) -> None:
        self._out += b"}"
        self._put(value)
        self._items(value)

    def _ordered(self, value: OrderedDict[Any, Any]) -> None:
        self._global("collections", "OrderedDict")
        self._out += b")R"
        self._put(value)
        self._items(value)
        if value.__dict__:
            self._within(".__dict__", value.__dict__)
            self._out += b"b"

    def _counter(self, value: Counter[Any]) -> None:
        self._global("collections", "Counter")
        self._out += b"("
        self._within("", dict(value))
        self._out += b"tR"
        self._put(value)

    def _set(self, value: set[Any]) -> None:
        self._global("__builtin__", "set")
        self._out += b"(](" if value else b"(]"
        for part in value:
            self._within("", part)
        self._out += b"etR" if value else b"tR"
        self._put(value)

    def _size(self, value: Size) -> None:
        self._global("torch", "Size")
        self._out += b"("
        self._value(tuple(value))
        self._out += b"tR"
        self._put(value)

    def _device(self, value: device) -> None:
        self._global("torch", "device")
        self._out += b"("
        self._value(value.type)
        if value.index is not None:
            self._value(value.index)
        self._out += b"tR"
        self._put(value)

    def _dtype(self, value: dtype) -> None:
        self._global("torch", name_of(value))

    def _tensor(self, value: Tensor) -> None:
        # A parameter is a tensor, and the flag that it requires a gradient.
        is_parameter = type(value) is not Tensor
        if is_parameter:
            self._global("torch._utils", "_rebuild_parameter")
            self._out += b"("
        requires_grad = value.requires_grad
        self._bare_tensor(_hlx.detach(value), requires_grad and not is_parameter)
        if is_parameter:
            self._value(requires_grad)
            self._hooks()
            self._out += b"tR"
        self._put(value)

    def _bare_tensor(self, value: Tensor, requires_grad: bool) -> None:
        kind = name_of(value.dtype)
        storage = WRITTEN[kind]
        untyped = storage == "UInt32Storage"
        self._global("torch._utils", "_rebuild_tensor_v3" if untyped else "_rebuild_tensor_v2")
        self._out += b"(("
        self._value("storage")
        self._global("torch.storage" if untyped else "torch", "UntypedStorage" if untyped else storage)
        self._value(str(self._storage(value)))
        self._value("cpu")
        self._value(value.numel() * (value.element_size() if untyped else 1))
        self._out += b"tQ"
        stride: list[int] = []
        below = 1
        for extent in reversed(value.shape):
            stride.insert(0, below)
            below *= max(extent, 1)
        for part in (0, tuple(value.shape), tuple(stride), requires_grad):
            self._value(part)
        self._hooks()
        if untyped:
            self._global("torch", kind)
        self._out += b"tR"

    def _hooks(self) -> None:
        self._global("collections", "OrderedDict")
        self._out += b")R"

    def _storage(self, value: Tensor) -> int:
        """The number of the storage with these elements."""
        held = _hlx.contiguous(value)
        key = (held.data_ptr(), held.dtype, held.numel())
        if key[0] and key in self._places:
            return self._places[key]
        self.storages.append(bytes_of(held))
        self._kept.append(held)
        if key[0]:
            self._places[key] = len(self.storages) - 1
        return len(self.storages) - 1


def _simple(value: Any) -> bytes | None:
    """The words of None, truth values and numbers."""
    if value is None:
        return b"N"
    if type(value) is bool:
        return b"\x88" if value else b"\x89"
    if type(value) is float:
        return b"G" + struct.pack(">d", value)
    if type(value) is not int:
        return None
    if 0 <= value < 256:
        return b"K" + bytes([value])
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data if len(data) < 256 else b"\x8b" + struct.pack("<I", len(data)) + data


_WRITERS: dict[type, Any] = {
    str: Writer._text,
    bytes: Writer._bytes,
    list: Writer._list,
    tuple: Writer._tuple,
    dict: Writer._dict,
    OrderedDict: Writer._ordered,
    Counter: Writer._counter,
    set: Writer._set,
    Size: Writer._size,
    device: Writer._device,
    dtype: Writer._dtype,
}
