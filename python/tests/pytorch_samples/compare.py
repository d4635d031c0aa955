"""Compares a tensor with PyTorch's result."""

import math
from typing import Any, NamedTuple

import numpy

import hlx

from .fixture import FLOATS, Fixture, hashed, mixed

#: The elements of a long float result that are written (`KEPT` of `sample_encoding.py`).
KEPT = 48
#: The smallest normal f32: below it HLX has zeros.
TINY = 2.0**-126
NAMES = {
    hlx.float32: "f32", hlx.float16: "f16", hlx.bfloat16: "bf16", hlx.int32: "i32", hlx.uint32: "u32",
    hlx.int8: "i8", hlx.uint8: "u8", hlx.bool: "bool",
}  # fmt: skip


class Tolerance(NamedTuple):
    """How far a float may be from PyTorch's: a part of it, of the largest beside it, and in any case."""

    of_value: float
    of_largest: float
    absolute: float

    def rounded_to(self, dtype: str) -> "Tolerance":
        """Widened to half a unit of a 16-bit type, and once more for its rounded steps."""
        unit = {"f16": 1 / 1024, "bf16": 1 / 128}.get(dtype, 0.0)
        return self._replace(of_value=max(self.of_value, unit))


class Different(Exception):
    """What differs."""


def values_of(x: hlx.Tensor) -> numpy.ndarray:
    """The elements as float64, in row-major order."""
    x = x.detach()
    x = x.float() if x.dtype == hlx.bfloat16 else x
    return numpy.asarray(x.cpu()).reshape(-1).astype(numpy.float64)


def compare(fixture: Fixture, found: hlx.Tensor, expected: dict[str, Any], tolerance: Tolerance) -> None:
    """Raises `Different` unless a tensor has PyTorch's type, shape and values."""
    name, wanted_type = NAMES[found.dtype], expected["t"]
    if not (name == wanted_type or (wanted_type == "i64" and name in ("i32", "u32"))):
        raise Different(f"has elements of {name}, expected {wanted_type}")
    if list(found.shape) != expected["s"]:
        raise Different(f"has shape {list(found.shape)}, expected {expected['s']}")
    values = values_of(found)
    if "h" in expected:
        if str(_hash_of(values, name in FLOATS)) != expected["h"]:
            raise Different(f"has other elements: {values[:12]}")
        return
    tolerance = tolerance.rounded_to(wanted_type)
    if "p" not in expected:
        wanted = fixture.elements(expected["b"], values.size, wanted_type).astype(numpy.float64)
        finite = numpy.abs(wanted[numpy.isfinite(wanted)])
        _all_close(values, wanted, finite.max(initial=0.0), tolerance)
        return
    wanted = fixture.elements(expected["b"], KEPT, "f32").astype(numpy.float64)
    places = (hashed(KEPT, KEPT) % numpy.uint64(values.size)).astype(numpy.int64)
    _all_close(values[places], wanted, expected["p"][2], tolerance)
    _compare_sums(values, expected, tolerance)


def _all_close(found: numpy.ndarray, wanted: numpy.ndarray, largest: float, tolerance: Tolerance) -> None:
    with numpy.errstate(invalid="ignore", over="ignore"):
        equal = (found == wanted) | (numpy.isnan(found) & numpy.isnan(wanted))
        allowed = tolerance.of_value * numpy.abs(wanted) + tolerance.of_largest * largest
        close = numpy.abs(found - wanted) <= allowed + tolerance.absolute + 2.0 * TINY
    wrong = numpy.nonzero(~(equal | close))[0]
    if wrong.size:
        i = int(wrong[0])
        raise Different(f"element {i} is {found[i]:e}, expected {wanted[i]:e}")


def _compare_sums(values: numpy.ndarray, expected: dict[str, Any], tolerance: Tolerance) -> None:
    """Compares the sums over all elements that `sampled` of `sample_encoding.py` makes."""
    words, finite = hashed(1, values.size), numpy.isfinite(values)
    kinds = numpy.select([values == math.inf, values == -math.inf], [1, 2], 3).astype(numpy.uint64)
    with numpy.errstate(over="ignore"):
        others = (words * kinds)[~finite].sum(dtype=numpy.uint64)
    if str(others) != expected["q"]:
        raise Different("has NaN or infinity in other places")
    signs = 1.0 - 2.0 * (words & numpy.uint64(1)).astype(numpy.float64)
    signed = float((numpy.where(finite, values, 0.0) * signs).sum())
    total, wanted, largest = expected["p"]
    n = int(finite.sum())
    allowed = tolerance.of_value * total + tolerance.of_largest * largest * n + (tolerance.absolute + TINY) * n
    if abs(signed - wanted) > allowed:
        raise Different(f"has the signed sum {signed:e}, expected {wanted:e}")


def _hash_of(values: numpy.ndarray, is_float: bool) -> int:
    """The hash of integers, or of the bits of copied floats (`hash_of` of `sample_encoding.py`)."""
    if is_float:
        bits = numpy.where(numpy.isnan(values), numpy.float32("nan"), values.astype(numpy.float32))
        bits = numpy.where(numpy.abs(bits) < TINY, numpy.float32(0), bits).astype(numpy.float32)
        words = bits.view(numpy.uint32).astype(numpy.uint64)
    else:
        words = values.astype(numpy.int64).view(numpy.uint64)
    with numpy.errstate(over="ignore"):
        return int((mixed(words) * (hashed(2, words.size) | numpy.uint64(1))).sum(dtype=numpy.uint64))
