"""Contracts as dicts: the fields that they may have, and their JSON form, which the native layer encodes."""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hlx import errors

# The name of docs/contracts.md, then the other name that is accepted for it.
_FIELDS: dict[int, dict[str, str | None]] = {
    900: {"contract": None, "entry_point": None, "stage": "shader_stage", "spirv": "spirv_binary"},
    901: {
        "contract": None,
        "name": "kernel_name",
        "shader": "shader_handle",
        "workgroup_size": None,
        "workgroups": None,
        "specialization": "specialization_constants",
        "push_constants": None,
        "inputs": None,
        "outputs": None,
    },
    902: {"contract": None, "name": "pipeline_name", "kernels": None, "links": None, "outputs": None},
}
_REQUIRED = {900: ("spirv",), 901: ("name", "shader", "outputs"), 902: ("name", "kernels")}
_PORT_FIELDS = ("name", "binding", "dtype", "shape", "tensor")

# Formats of struct by the kinds of words; padding is a word of zeros.
_FORMATS = {"u32": "I", "i32": "i", "f32": "f", "bool": "I", None: "I"}

Interface = Mapping[str, Any]


def split(value: Mapping[Any, Any]) -> tuple[int, dict[str, Any]]:
    """Returns a contract's number and its fields: of `{"901": {..}}`, `{901: {..}}` or `{"contract": 901, ..}`."""
    if "contract" in value:
        return _number(value["contract"]), dict(value)
    if len(value) != 1:
        raise errors.ValueError(
            f'a contract is {{"900": ..}}, {{"901": ..}} or {{"902": ..}}, found a dict with the keys {list(value)}'
        )
    ((key, fields),) = value.items()
    number = _number(key)
    if not isinstance(fields, Mapping):
        raise errors.TypeError(f"contract {number}: expected a dict of its fields, found {type(fields).__name__}")
    return number, dict(fields)


def _number(key: Any) -> int:
    number = int(key) if isinstance(key, str) and key.isdecimal() else key
    if number not in _FIELDS:
        raise errors.ValueError(f"contract {key!r}, expected 900 (shader), 901 (kernel) or 902 (pipeline)")
    return int(number)


def named(number: int, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields under their names of docs/contracts.md; refuses others, two for one, and missing ones."""
    known = _FIELDS[number]
    names = {other: name for name, other in known.items() if other} | {name: name for name in known}
    found: dict[str, Any] = {}
    for field, value in fields.items():
        name = names.get(field)
        if name is None:
            expected = ", ".join(f"{name} ({other})" if other else name for name, other in known.items())
            raise errors.ValueError(f'contract {number}: unknown field "{field}", expected {expected}')
        if name in found:
            raise errors.ValueError(f'contract {number}: "{known[name]}" and "{name}" are the same field')
        found[name] = value
    for name in _REQUIRED[number]:
        if name not in found:
            other = f' or "{known[name]}"' if known[name] else ""
            raise errors.ValueError(f'contract {number}: the field "{name}"{other} is missing')
    return found


def shader(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a shader's JSON form."""
    spirv = fields["spirv"]
    if not isinstance(spirv, str):  # A string is base64 already, as in the JSON form.
        try:
            spirv = base64.b64encode(memoryview(spirv).cast("B")).decode()
        except TypeError:
            found = type(spirv).__name__
            raise errors.TypeError(f"contract 900: spirv is {found}, expected bytes") from None
    return {
        "contract": 900,
        "entry_point": fields.get("entry_point", "main"),
        "stage": fields.get("stage", "compute"),
        "spirv": spirv,
    }


def extents(where: str, value: Any, count: int | None = None) -> list[int]:
    """Returns a list of numbers that are no booleans and not negative."""
    is_list = isinstance(value, Iterable) and not isinstance(value, (str, bytes, Mapping))
    found = list(value) if is_list else None
    if found is None or not all(is_integer(extent) for extent in found):
        raise errors.TypeError(f"{where} is {value!r}, expected a list of integers")
    if count is not None and len(found) != count:
        raise errors.ValueError(f"{where} is {found}, expected {count} integers")
    if any(extent < 0 for extent in found):
        raise errors.ValueError(f"{where} is {found}, expected no negative number")
    return found


def workgroups_for(shape: Sequence[int], size: Sequence[int]) -> list[int]:
    """Returns the workgroups that cover a shape: its last dimension in x, the one before in y, the others in z."""
    *rest, rows, columns = [1, 1, *shape]
    covered = (columns, rows, math.prod(rest))
    return [-(-extent // each) for extent, each in zip(covered, size, strict=True)]


def pack(where: str, values: Any, kinds: Sequence[str | None]) -> bytes:
    """Returns the words of scalars: bytes as they are, or one number for each kind that is not padding (None)."""
    if isinstance(values, (bytes, bytearray, memoryview)):
        found = bytes(values)
        if len(found) != 4 * len(kinds):
            raise errors.ValueError(f"{where}: {len(found)} bytes, the shader's block has {4 * len(kinds)}")
        return found
    try:
        numbers = list(values)
    except TypeError:
        raise errors.TypeError(f"{where}: {type(values).__name__}, expected bytes or a list of numbers") from None
    declared = [kind for kind in kinds if kind is not None]
    if len(numbers) != len(declared):
        raise errors.ValueError(
            f"{where}: {len(numbers)} numbers, the shader's block has {len(declared)} ({', '.join(declared)})"
        )
    rest = iter(numbers)
    return b"".join(_word(where, 0 if kind is None else next(rest), kind) for kind in kinds)


def _word(where: str, value: Any, kind: str | None) -> bytes:
    if isinstance(value, Mapping):  # {"u32": 7}, as in the JSON form.
        value = _checked_kind(where, value, kind)
    try:
        return struct.pack("<" + _FORMATS[kind], bool(value) if kind == "bool" else value)
    except (struct.error, OverflowError, TypeError):
        raise errors.ValueError(f"{where}: {value!r} is no {kind}") from None


def _checked_kind(where: str, value: Mapping[str, Any], kind: str | None) -> Any:
    if len(value) != 1:
        raise errors.ValueError(f"{where}: {dict(value)}, expected one number by its kind")
    ((found, number),) = value.items()
    if found != kind:
        raise errors.ValueError(f"{where}: {dict(value)} is {found}, the shader's is {kind}")
    is_named = kind == "f32" and isinstance(number, str)
    return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(number, number) if is_named else number


def scalars(packed: bytes, kinds: Sequence[str | None]) -> list[dict[str, Any]]:
    """Returns packed words as the JSON form has them: `{"u32": 7}`."""
    found = struct.unpack("<" + "".join(_FORMATS[kind] for kind in kinds), packed)
    return [_scalar(value, kind or "u32") for value, kind in zip(found, kinds, strict=True)]


def _scalar(value: Any, kind: str) -> dict[str, Any]:
    if kind == "bool":
        return {"bool": bool(value)}
    if kind == "f32" and not math.isfinite(value):
        return {"f32": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
    return {kind: value}


def specialization(where: str, value: Any, interface: Callable[[], Interface]) -> list[dict[str, Any]]:
    """Returns specialization constants in the order of their ids, of `{id: value}` or a list as the JSON form has."""
    if isinstance(value, (list, tuple)):
        constants = [port(f"{where}: specialization", one, ("id", "value")) for one in value]
        return sorted(constants, key=lambda constant: place(constant.get("id")))
    if not isinstance(value, Mapping) or not all(is_integer(key) or str(key).isdecimal() for key in value):
        raise errors.TypeError(f"{where}: specialization is {value!r}, expected {{id: value}} or a list of them")
    found = []
    for id, number in sorted((int(key), number) for key, number in value.items()):
        kind = interface()["constants"].get(id, (None, None))[1]
        if kind is None:
            raise errors.ValueError(f"{where}: specialization constant {id}: the shader has none of this id")
        word = pack(f"{where}: specialization constant {id}", [number], [kind])
        found.append({"id": id, "value": scalars(word, [kind])[0]})
    return found


def is_integer(value: Any) -> bool:
    """Whether it is an integer, and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def place(value: Any) -> int:
    """An id or a binding to sort by; what is no integer is refused when the contract is encoded."""
    return value if is_integer(value) else 0


def push_constants(where: str, value: Any, interface: Callable[[], Interface]) -> list[Any]:
    """Returns the words of push constants as the JSON form has them, of numbers, bytes, or that form."""
    is_list = isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview, str))
    if is_list and all(isinstance(word, Mapping) for word in value):
        return list(value)
    kinds = interface()["push_constants"]
    return scalars(pack(f"{where}: push constants", value, kinds), kinds)


def port(where: str, value: Any, fields: Sequence[str] = _PORT_FIELDS) -> dict[str, Any]:
    """Returns a copy of an input's or output's dict; refuses fields that it does not have."""
    if not isinstance(value, Mapping):
        raise errors.TypeError(f"{where} is {value!r}, expected a dict of {', '.join(fields)}")
    for field in value:
        if field not in fields:
            raise errors.ValueError(f'{where}: unknown field "{field}", expected {", ".join(fields)}')
    return dict(value)
