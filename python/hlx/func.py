"""Functions of modules: a call with other parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn.modules.module import Module

__all__ = ["functional_call"]

State = Mapping[str, Tensor]


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: State | Sequence[State],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with tensors in the place of parameters and buffers, by their names; the module stays as it is.

    Gradients flow to the tensors. A parameter that the module has under several names is replaced under all of them,
    unless `tie_weights` is False. With `strict` every parameter and buffer is given. `args` is a tuple, or one
    argument. Raises KeyError for a name that the module has not.

    >>> layer = hlx.nn.Linear(2, 1, bias=False)
    >>> fast = {"weight": hlx.tensor([[1.0, 2.0]], requires_grad=True)}
    >>> y = hlx.func.functional_call(layer, fast, (hlx.ones(1, 2),))
    >>> y.item(), layer.weight.shape
    (3.0, hlx.Size([1, 2]))
    """
    given = _merged(parameter_and_buffer_dicts)
    places = _places(module)
    unknown = next((name for name in given if name not in places), None)
    if unknown is not None:
        raise errors.KeyError(f"functional_call: the module has no parameter or buffer {unknown!r}")
    missing = next((name for name in places if name not in given), None)
    if strict and missing is not None:
        raise errors.KeyError(f"functional_call: {missing!r} is not given")
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(places, _tied(places, given) if tie_weights else given):
        return module(*positional, **(kwargs or {}))


def _merged(dicts: State | Sequence[State]) -> dict[str, Tensor]:
    if isinstance(dicts, Mapping):
        dicts = [dicts]
    merged: dict[str, Tensor] = {}
    for one in dicts:
        twice = next((name for name in one if name in merged), None)
        if twice is not None:
            raise errors.ValueError(f"functional_call: {twice!r} is given twice")
        merged |= one
    for name, tensor in merged.items():
        if not isinstance(tensor, Tensor):
            raise errors.TypeError(f"functional_call: {name!r} is a {type(tensor).__name__}, expected a tensor")
    return merged


#: The table of a module that holds a tensor, and its name there.
Place = tuple[dict[str, Any], str]


def _places(module: Module) -> dict[str, Place]:
    """Where each parameter and buffer is held, by its whole name."""
    found: dict[str, Place] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        tables: tuple[dict[str, Any], ...] = (part._parameters, part._buffers)
        for table in tables:
            for name, tensor in table.items():
                if tensor is not None:
                    found[f"{prefix}.{name}" if prefix else name] = (table, name)
    return found


def _tied(places: dict[str, Place], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors for all names of what is given under one of them."""
    by_id = {id(places[name][0][places[name][1]]): tensor for name, tensor in given.items()}
    return {name: by_id[id(table[own])] for name, (table, own) in places.items() if id(table[own]) in by_id} | given


@contextmanager
def _replaced(places: dict[str, Place], given: dict[str, Tensor]) -> Iterator[None]:
    before = [(*places[name], places[name][0][places[name][1]]) for name in given]
    try:
        for name, tensor in given.items():
            table, own = places[name]
            table[own] = tensor
        yield
    finally:
        for table, own, tensor in before:
            table[own] = tensor
