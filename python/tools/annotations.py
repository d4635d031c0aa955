"""Renders signatures of Python functions for stubs, in which methods hide the names of built-in types."""

import collections.abc
import inspect
import math
import types
import typing
from collections.abc import Callable
from typing import Any

import numpy

from hlx import _hlx
from hlx._operations import _types

#: The types that signatures name, which a reader knows better than what they stand for.
ALIASES = {name: getattr(_types, name) for name in ("Number", "Operand", "Shape", "Dims", "Device")}

#: What is written in another way, and aliases of natives.pyi.
SPECIAL = {types.ModuleType: "types.ModuleType", numpy.ndarray: "_Array"}


def render(annotation: Any) -> str:
    """An annotation as a stub names it."""
    for name, alias in ALIASES.items():
        if annotation == alias:
            return f"_{name}"
    if annotation is None or annotation is types.NoneType:
        return "None"
    if annotation is ...:
        return "..."
    if isinstance(annotation, str):
        return annotation
    if isinstance(annotation, list):
        return f"[{', '.join(render(one) for one in annotation)}]"
    if isinstance(annotation, typing.TypeVar):
        return annotation.__name__
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is typing.Literal:
        return f"typing.Literal[{', '.join(repr(one) for one in arguments)}]"
    if origin is not None:
        return f"{_name(origin)}[{', '.join(render(one) for one in arguments) or '()'}]"
    return _name(annotation)


def _union(arguments: tuple[Any, ...]) -> str:
    """A union; one that has the members of an alias and more names the alias."""
    rest = list(arguments)
    names = []
    for name, alias in sorted(ALIASES.items(), key=lambda item: -len(typing.get_args(item[1]))):
        members = typing.get_args(alias)
        if typing.get_origin(alias) in (typing.Union, types.UnionType) and all(one in rest for one in members):
            names.append(f"_{name}")
            rest = [one for one in rest if one not in members]
    return " | ".join(names + [render(one) for one in rest])


def _name(annotation: Any) -> str:
    module, name = getattr(annotation, "__module__", ""), getattr(annotation, "__qualname__", None)
    if name is None:
        name = getattr(annotation, "_name", None) or str(annotation)
    if annotation in SPECIAL:
        return SPECIAL[annotation]
    if module in ("hlx", "hlx._hlx") and getattr(_hlx, name, None) is annotation:
        # The class of tensors has attributes of these names.
        return f"_{name}" if name in ("device", "dtype") else name
    return f"{module}.{name}"


def render_signature(function: Callable[..., Any], *, is_method: bool = False, is_typed: bool = True) -> str:
    """A function's parameters and its result: `(input: Tensor, dim: builtins.int = -1) -> Tensor`."""
    # Modules that annotations name and the package imports only when they are used.
    hints = typing.get_type_hints(function, localns={"numpy": numpy}) if is_typed else {}
    signature = inspect.signature(function)
    parts: list[str] = []
    last = None
    for place, parameter in enumerate(signature.parameters.values()):
        if last is inspect.Parameter.POSITIONAL_ONLY and parameter.kind is not last:
            parts.append("/")
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and last not in (
            parameter.kind,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            parts.append("*")
        last = parameter.kind
        hint = None if is_method and place == 0 else hints.get(parameter.name, Any)
        parts.append(_parameter(parameter, hint))
    if last is inspect.Parameter.POSITIONAL_ONLY:
        parts.append("/")
    result = render(hints["return"]) if "return" in hints else "typing.Any"
    return f"({', '.join(parts)}) -> {result}"


def _parameter(parameter: inspect.Parameter, hint: Any) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = stars + parameter.name
    if hint is not None:
        text += f": {'typing.Any' if hint is Any else render(hint)}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _default(value: Any) -> str:
    is_plain = value is None or isinstance(value, bool | int | str)
    if isinstance(value, float):
        is_plain = math.isfinite(value)
    if isinstance(value, tuple):
        return f"({''.join(f'{_default(one)}, ' for one in value)})"
    return repr(value) if is_plain else "..."


__all__ = ["collections", "render", "render_signature"]
