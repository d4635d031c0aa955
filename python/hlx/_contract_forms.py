"""Contracts as dicts in either form: adds what was left out, and gives fields their names of docs/contracts.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hlx import _contract_fields as _fields
from hlx import _hlx, errors


@dataclass(frozen=True, slots=True)
class Given:
    """What a contract refers to."""

    objects: _hlx.ObjectStore
    handle: Callable[[Any], str]
    """The handle of a value that stands in a handle's place."""
    resolve: Callable[[str], Any]


def contract(value: Mapping[Any, Any], given: Given) -> dict[str, Any]:
    """Returns the JSON form of a contract."""
    number, fields = _fields.split(value)
    found = _fields.named(number, fields)
    if number == 900:
        return _fields.shader(found)
    if number == 902:
        return _pipeline(found, given)
    kernel = _kernel(found, given)
    for one in kernel["inputs"]:
        if one["shape"] is None:
            raise errors.ValueError(f"{kernel['name']}: input `{one['name']}` has neither a tensor nor a shape")
    return kernel


def _kernel(fields: Mapping[str, Any], given: Given) -> dict[str, Any]:
    """A kernel's JSON form, with what was left out."""
    name = str(fields["name"])
    shader = given.handle(fields["shader"])
    interface: dict[str, Any] = {}

    def reflected() -> dict[str, Any]:
        if not interface:
            interface.update(_hlx.shader_interface(given.objects, name, shader))
        return interface

    inputs = [_input(name, place, one, given) for place, one in enumerate(_list(name, "inputs", fields))]
    outputs = _list(name, "outputs", fields)
    outputs = [_output(name, place, len(inputs), one) for place, one in enumerate(outputs)]
    size = fields.get("workgroup_size") or reflected()["workgroup_size"]
    size = _fields.extents(f"{name}: workgroup_size", size, 3)
    groups = fields.get("workgroups")
    if groups is None and outputs and 0 not in size:
        groups = _fields.workgroups_for(outputs[0]["shape"], size)
    return {
        "contract": 901,
        "name": name,
        "shader": shader,
        "workgroup_size": size,
        "workgroups": _fields.extents(f"{name}: workgroups", groups or [0, 0, 0], 3),
        "specialization": _fields.specialization(name, fields.get("specialization") or [], reflected),
        "push_constants": _fields.push_constants(name, fields.get("push_constants") or [], reflected),
        "inputs": sorted(inputs, key=lambda one: _fields.place(one["binding"])),
        "outputs": sorted(outputs, key=lambda one: _fields.place(one["binding"])),
    }


def _list(name: str, field: str, fields: Mapping[str, Any]) -> list[Any]:
    value = fields.get(field, [])
    if not isinstance(value, (list, tuple)):
        raise errors.TypeError(f"{name}: {field} is {type(value).__name__}, expected a list")
    return list(value)


def _input(name: str, place: int, value: Any, given: Given) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        value = {"tensor": value}
    found = _fields.port(f"{name}: input {place}", value)
    tensor = found.get("tensor")
    if tensor is not None:
        tensor = given.handle(tensor)
    if tensor is not None and not ("dtype" in found and "shape" in found):
        content = given.objects.content(tensor)
        if content is None:
            raise errors.ValueError(f"{name}: input {place}: {tensor} holds bytes, expected a tensor")
        found = {"dtype": content[0], "shape": content[1]} | found
    return {
        "name": found.get("name", f"input{place}"),
        "binding": found.get("binding", place),
        "dtype": _dtype(found.get("dtype", "f32")),
        "shape": _fields.extents(f"{name}: input {place}: shape", found["shape"]) if "shape" in found else None,
        "tensor": tensor,
    }


def _output(name: str, place: int, n_inputs: int, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        value = {"shape": value}
    found = _fields.port(f"{name}: output {place}", value, ("name", "binding", "dtype", "shape"))
    if "shape" not in found:
        raise errors.ValueError(f'{name}: output {place}: the field "shape" is missing')
    return {
        "name": found.get("name", f"output{place}"),
        "binding": found.get("binding", n_inputs + place),
        "dtype": _dtype(found.get("dtype", "f32")),
        "shape": _fields.extents(f"{name}: output {place}: shape", found["shape"]),
    }


_DTYPES = {"hlx.float32": "f32", "hlx.int32": "i32", "hlx.uint32": "u32"}


def _dtype(value: Any) -> str:
    """A dtype's name in contracts: of that name, or of `hlx.float32`."""
    text = value if isinstance(value, str) else repr(value)
    return _DTYPES.get(text, _DTYPES.get(f"hlx.{text}", text))


def _pipeline(fields: Mapping[str, Any], given: Given) -> dict[str, Any]:
    """A pipeline's JSON form, with what was left out."""
    name = str(fields["name"])
    kernels = [_member(name, place, one, given) for place, one in enumerate(_list(name, "kernels", fields))]
    links = [_link(name, one) for one in _list(name, "links", fields)]
    for link in links:
        _complete(kernels, link)
    outputs = [_port(name, one) for one in _list(name, "outputs", fields)]
    if "outputs" not in fields and kernels:
        last = len(kernels) - 1
        outputs = [{"kernel": last, "name": output["name"]} for output in kernels[last]["outputs"]]
    for place, kernel in enumerate(kernels):
        for one in kernel["inputs"]:
            if one["shape"] is None:
                raise errors.ValueError(
                    f"{name}: input `{one['name']}` of kernel {place} has neither a tensor nor a link"
                )
    return {
        "contract": 902,
        "name": name,
        "kernels": kernels,
        "links": sorted(links, key=lambda link: (_fields.place(link["to"]["kernel"]), str(link["to"]["name"]))),
        "outputs": outputs,
    }


def _member(name: str, place: int, value: Any, given: Given) -> dict[str, Any]:
    """A kernel of a pipeline: a dict, or the handle of one."""
    if isinstance(value, str):
        value = given.resolve(value)
    if not isinstance(value, Mapping):
        raise errors.TypeError(f"{name}: kernel {place} is {type(value).__name__}, expected a kernel (901)")
    number, fields = _fields.split(value) if "contract" in value or len(value) == 1 else (901, dict(value))
    if number != 901:
        raise errors.ValueError(f"{name}: kernel {place} is contract {number}, expected 901")
    return _kernel(_fields.named(901, fields), given)


def _link(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping) or set(value) != {"from", "to"}:
        raise errors.ValueError(f'{name}: a link is {value!r}, expected {{"from": [0, "c"], "to": [1, "a"]}}')
    return {"from": _port(name, value["from"]), "to": _port(name, value["to"])}


def _port(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping) and set(value) == {"kernel", "name"}:
        return dict(value)
    if isinstance(value, (list, tuple)) and len(value) == 2:
        return {"kernel": value[0], "name": value[1]}
    raise errors.ValueError(f'{name}: {value!r}, expected a kernel and a name: [0, "c"]')


def _complete(kernels: Sequence[dict[str, Any]], link: dict[str, Any]) -> None:
    """Gives a linked input without a shape the shape and dtype of the output."""

    def found(port: dict[str, Any], field: str) -> dict[str, Any] | None:
        is_kernel = isinstance(port["kernel"], int) and 0 <= port["kernel"] < len(kernels)
        ports = kernels[port["kernel"]][field] if is_kernel else []
        return next((one for one in ports if one["name"] == port["name"]), None)

    source, target = found(link["from"], "outputs"), found(link["to"], "inputs")
    if source and target and target["shape"] is None:
        target["shape"], target["dtype"] = source["shape"], source["dtype"]
