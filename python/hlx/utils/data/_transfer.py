"""Batches on their way from a worker: a pickle, and beside it the memory of large tensors and arrays."""

from __future__ import annotations

import io
import math
import os
import pickle
import struct
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

from hlx import _hlx
from hlx._exchange import from_numpy
from hlx._hlx import Tensor

#: From this many bytes on memory is sent beside the pickle, and received where the tensor will have it.
LARGE = 1 << 16
#: The formats that a memoryview can have, by the names of dtypes; tensors of 16 bits are pickled as elsewhere.
FORMATS: dict[str, Any] = {
    "float32": "f",
    "int32": "i",
    "uint32": "I",
    "int8": "b",
    "uint8": "B",
    "bool": "?",
}


class Message:
    """A value as bytes: the pickle, behind the lengths of the memory beside it.

    Memory that `is_fresh` belongs to nobody else, and is read when it is sent; else it is copied at once.
    """

    def __init__(self, value: Any, is_fresh: bool = False) -> None:
        self.is_fresh = is_fresh
        self.memory: list[memoryview] = []
        file = io.BytesIO()
        _Pickler(file, 5, True, self._is_small).dump(value)
        lengths = [len(part) for part in self.memory]
        self.head = struct.pack(f"<Q{len(lengths)}Q", len(lengths), *lengths) + file.getvalue()

    def _is_small(self, buffer: pickle.PickleBuffer) -> bool:
        """Whether memory stays within the pickle; else it is listed."""
        raw = buffer.raw()
        if len(raw) < LARGE:
            return True
        self.memory.append(raw if self.is_fresh else memoryview(bytes(raw)))
        return False

    def send(self, link: Connection) -> None:
        """Writes the message to a link."""
        link.send_bytes(self.head)
        for part in self.memory:
            if hasattr(os, "writev"):
                done = 0
                while done < len(part):
                    done += os.write(link.fileno(), part[done:])
            else:
                link.send_bytes(part)


def receive(link: Connection) -> Any:
    """Reads a message; raises EOFError or OSError if the link is closed."""
    head = link.recv_bytes()
    (n,) = struct.unpack_from("<Q", head)
    lengths = struct.unpack_from(f"<{n}Q", head, 8)
    memory = [_read(link, length) for length in lengths]
    return pickle.loads(memoryview(head)[8 + 8 * n :], buffers=memory)


def _read(link: Connection, length: int) -> memoryview:
    view = memoryview(_space(length))
    if not hasattr(os, "readv"):
        link.recv_bytes_into(view)
        return view
    done = 0
    while done < length:
        n = os.readv(link.fileno(), [view[done:]])
        if n == 0:
            raise EOFError
        done += n
    return view


def _space(length: int) -> Any:
    """Memory to be written: that of NumPy is not filled first."""
    try:
        import numpy
    except ModuleNotFoundError:
        return bytearray(length)
    return numpy.empty(length, numpy.uint8)


class _Pickler(ForkingPickler):
    """Pickles tensors of the CPU as their memory; what has gradients, and other devices, as elsewhere."""

    def reducer_override(self, value: Any) -> Any:
        """How a tensor is rebuilt."""
        if type(value) is not Tensor or value.requires_grad or value.device.type != "cpu":
            return NotImplemented
        name = str(value.dtype).removeprefix("hlx.")
        if name not in FORMATS or not value.numel():
            return NotImplemented
        view = memoryview(value)
        if not view.c_contiguous:
            return NotImplemented
        return _rebuilt, (pickle.PickleBuffer(view), name, tuple(value.shape))


def _rebuilt(data: Any, name: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of received memory, which NumPy's arrays share with it."""
    flat = memoryview(data).cast("B").cast(FORMATS[name])
    if len(data) >= LARGE and type(flat.obj).__module__ == "numpy":
        import numpy

        return from_numpy(numpy.frombuffer(flat, flat.format).reshape(shape))
    assert len(flat) == math.prod(shape)
    made: Tensor = _hlx.reshape(_hlx.tensor(flat, _hlx.dtype(name), "cpu"), list(shape))
    return made
