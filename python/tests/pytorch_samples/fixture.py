"""Reads `pytorch_samples.bin`: JSON, and the words that it refers to."""

import json
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy

PATH = Path(__file__).parents[3] / "crates/hlx-autograd/tests/fixtures/pytorch_samples.bin"
COMPOSED = Path(__file__).parents[1] / "fixtures/composed_samples.bin"
SPECIAL = 0x9E3779B97F4A7C15
#: NumPy's types of the fixture's; those that it has not are read as f32 and converted.
STORED = {
    "f32": numpy.float32, "f16": numpy.float16, "bf16": numpy.float32, "i32": numpy.int32, "i64": numpy.int32,
    "i8": numpy.int8, "u8": numpy.uint8, "bool": numpy.bool_,
}  # fmt: skip
FLOATS = {"f32", "f16", "bf16"}


def mixed(words: numpy.ndarray) -> numpy.ndarray:
    """The finaliser of splitmix64."""
    with numpy.errstate(over="ignore"):
        words = (words ^ (words >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return words ^ (words >> numpy.uint64(31))


def hashed(seed: int, n: int) -> numpy.ndarray:
    """The words of a series."""
    start = numpy.uint64((SPECIAL * (seed + 1)) % 2**64)
    with numpy.errstate(over="ignore"):
        return mixed(numpy.arange(n, dtype=numpy.uint64) + start)


def drawn(seed: int, low: float, high: float, n: int, whole: bool) -> numpy.ndarray:
    """n values from low to high (excluded), by the upper 24 bits of the series."""
    unit = (hashed(seed, n) >> numpy.uint64(40)).astype(numpy.float64) * 2.0**-24
    values = unit * (high - low)
    return low + (numpy.floor(values) if whole else values)


class Fixture:
    """The samples, and the words that they refer to."""

    def __init__(self, path: Path = PATH) -> None:
        """Reads a file that a script beside it makes."""
        self.path = path
        data = zlib.decompress(path.read_bytes())
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8 : 8 + length])
        planes = numpy.frombuffer(data, dtype=numpy.uint8, offset=8 + length)
        self.version: str = header["torch"]
        self.samples: list[dict[str, Any]] = header["samples"]
        self.words = numpy.ascontiguousarray(planes.reshape(4, -1).T).reshape(-1).view(numpy.uint32)

    def elements(self, start: int, n: int, dtype: str) -> numpy.ndarray:
        """n elements from a word on, as NumPy has them."""
        words = self.words[start:]
        if dtype == "f32":
            return words[:n].view(numpy.float32)
        if dtype == "f16":
            return words[: (n + 1) // 2].view(numpy.float16)[:n]
        if dtype == "bf16":
            halves = words[: (n + 1) // 2].view(numpy.uint16)[:n]
            return (halves.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)
        return words[:n].view(numpy.int32).astype(STORED[dtype])

    def array(self, entry: dict[str, Any]) -> tuple[numpy.ndarray, list[int]]:
        """A tensor's elements with its shape, and the strides that it has."""
        shape, dtype = entry["s"], entry["t"]
        n = math.prod(shape)
        strides = entry.get("st")
        is_drawn = "c" in entry
        values = self._recalled(entry, entry.get("n", n)) if is_drawn else self.elements(entry["b"], n, dtype)
        if strides is not None and "n" in entry:
            offset = entry.get("of", 0)
            places = numpy.full([], offset, dtype=numpy.int64)
            for extent, stride in zip(shape, strides, strict=True):
                places = places[..., None] + numpy.arange(extent, dtype=numpy.int64) * stride
            values = values[places.reshape(-1)]
        return values.reshape(shape), strides

    def _recalled(self, entry: dict[str, Any], n: int) -> numpy.ndarray:
        # Values of the counter, except for the few that were changed.
        seed, low, high = entry["c"]
        dtype = entry["t"]
        values = drawn(seed, low, high, n, dtype not in FLOATS)
        if dtype in FLOATS:
            values = values.astype(numpy.float32)
        values = rounded(values, dtype)
        if "at" in entry:
            at, changed, n_changed = entry["at"]
            values[self.elements(at, n_changed, "i32")] = self.elements(changed, n_changed, dtype)
        return values


def rounded(values: numpy.ndarray, dtype: str) -> numpy.ndarray:
    """Values in a type: bf16 as the f32 that it is, ties to even."""
    if dtype != "bf16":
        return values.astype(STORED[dtype])
    bits = values.astype(numpy.float32).view(numpy.uint32)
    even = (bits >> numpy.uint32(16)) & numpy.uint32(1)
    with numpy.errstate(over="ignore"):
        up = (bits + numpy.uint32(0x7FFF) + even) & numpy.uint32(0xFFFF0000)
    return numpy.where(numpy.isnan(values), values.astype(numpy.float32), up.view(numpy.float32))
