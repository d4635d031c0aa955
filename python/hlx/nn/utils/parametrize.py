"""Parameters that are functions of others: `register_parametrization`."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx._modes import no_grad
from hlx.nn.modules.container import ModuleDict, ModuleList
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Buffer, Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
]


class _Cache(threading.local):
    """What `cached` keeps on a thread, and how many of its blocks are open."""

    def __init__(self) -> None:
        self.blocks = 0
        self.values: dict[tuple[int, str], Tensor] = {}


_cache = _Cache()


@contextlib.contextmanager
def cached() -> Iterator[None]:
    """Computes each parametrized tensor once within the block, though it is read several times.

    >>> layer = hlx.nn.utils.parametrizations.weight_norm(hlx.nn.Linear(2, 2))
    >>> with hlx.nn.utils.parametrize.cached():
    ...     print(layer.weight is layer.weight)
    True
    """
    _cache.blocks += 1
    try:
        yield
    finally:
        _cache.blocks -= 1
        if not _cache.blocks:
            _cache.values = {}


class ParametrizationList(ModuleList):
    """The functions of a tensor in their order, and what they are computed of: `original`, or `original0`, .."""

    original: Tensor
    is_tensor: bool
    ntensors: int

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise errors.ValueError("ParametrizationList: there are no parametrizations, expected at least one")
        super().__init__(modules)
        self.unsafe = unsafe
        with no_grad():
            made = _inverse(original, modules)
        self.is_tensor = isinstance(made, Tensor)
        self.ntensors = 1 if isinstance(made, Tensor) else len(made)
        if isinstance(made, Tensor):
            self._keep("original", original, made)
        else:
            for place, one in enumerate(made):
                is_trained = isinstance(original, Parameter) and original.requires_grad
                one = one.detach() if one is not original else _hlx.clone(_hlx.detach(one))
                kept = Parameter(one, is_trained) if isinstance(original, Parameter) else Buffer(one)
                setattr(self, f"original{place}", kept)
        if not unsafe:
            self._expect_like(original)

    def _keep(self, name: str, original: Tensor, made: Tensor) -> None:
        """Registers the tensor itself, so that optimizers that have it go on with it."""
        if made is not original:
            _expect_same("right_inverse returned", made, original)
            with no_grad():
                _hlx.copy_(original.detach(), made)
        setattr(self, name, original if isinstance(original, Parameter) else Buffer(original))

    def _expect_like(self, original: Tensor) -> None:
        with no_grad():
            found = self()
        if not isinstance(found, Tensor):
            raise errors.ValueError(
                f"register_parametrization: the result is a {type(found).__name__}, expected a tensor"
            )
        _expect_same("a parametrization returned", found, original)

    @property
    def originals(self) -> list[Tensor]:
        """What the tensor is computed of."""
        names = ["original"] if self.is_tensor else [f"original{place}" for place in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Sets the originals so that the tensor is `value`, by the `right_inverse` of each parametrization."""
        with no_grad():
            made = _inverse(value, list(self))
            found = [made] if isinstance(made, Tensor) else list(made)
            if len(found) != self.ntensors:
                raise errors.ValueError(f"right_inverse: {len(found)} tensors, expected {self.ntensors}")
            for own, one in zip(self.originals, found, strict=True):
                _expect_same("right_inverse returned", one, own)
            for own, one in zip(self.originals, found, strict=True):
                _hlx.copy_(own.detach(), one)

    def forward(self) -> Any:
        """Computes the tensor."""
        first, *others = list(self)
        value = first(*self.originals)
        for one in others:
            value = one(value)
        return value


def _inverse(value: Tensor, modules: Sequence[Module]) -> Any:
    """What the parametrizations compute a value of; itself where they have no `right_inverse`."""
    made: Any = value
    for one in reversed(modules):
        if hasattr(one, "right_inverse"):
            made = one.right_inverse(made)
    if not isinstance(made, Tensor) and not isinstance(made, Sequence):
        raise errors.ValueError(
            f"right_inverse returned a {type(made).__name__}, expected a tensor or a sequence of tensors"
        )
    return made


def _expect_same(what: str, found: Tensor, expected: Tensor) -> None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        raise errors.ValueError(
            f"register_parametrization: {what} {list(found.shape)} of {found.dtype}, expected {list(expected.shape)} "
            f"of {expected.dtype}"
        )


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a module has parametrized tensors, or that of a name.

    >>> hlx.nn.utils.parametrize.is_parametrized(hlx.nn.Linear(2, 2))
    False
    """
    found = module._modules.get("parametrizations")
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def _read(module: Any, name: str) -> Any:
    if not _cache.blocks:
        return module.parametrizations[name]()
    key = (id(module), name)
    if key not in _cache.values:
        _cache.values[key] = module.parametrizations[name]()
    return _cache.values[key]


def _property(name: str) -> property:
    """The attribute that computes a parametrized tensor, and takes another value for it."""
    return property(
        lambda module: _read(module, name), lambda module, value: module.parametrizations[name].right_inverse(value)
    )


def _rebuilt(kind: type[Module], names: tuple[str, ...]) -> Module:
    """A module without its contents, of the class that `_parametrized_class` makes."""
    made = kind.__new__(kind)
    made.__class__ = _parametrized_class(kind)
    for name in names:
        setattr(type(made), name, _property(name))
    return made


def _reduce(module: Any, protocol: Any) -> Any:
    return _rebuilt, (type(module).__bases__[0], tuple(module.parametrizations)), module.__dict__


def _parametrized_class(kind: type[Module]) -> type[Module]:
    """A class for one module, whose parametrized tensors are properties of it."""
    body = {"__reduce_ex__": _reduce, "__module__": kind.__module__, "_is_parametrized": True}
    return type(f"Parametrized{kind.__name__}", (kind,), body)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Makes a parameter or buffer of a module a function of itself: reading it computes `parametrization(original)`.

    The original is at `module.parametrizations[tensor_name].original`. A `right_inverse` of the parametrization says
    what it is computed of, one tensor or several, and takes values that are assigned. Several parametrizations of a
    tensor are applied in order. Unless `unsafe`, the result has the original's shape and type. Returns the module.
    Raises ValueError if there is no such tensor, or the result does not fit.

    >>> class Symmetric(hlx.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = hlx.nn.Linear(3, 3)
    >>> layer = hlx.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> hlx.equal(layer.weight, layer.weight.T)
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
        return module
    tables: Any = (module._parameters, module._buffers)
    table = next((one for one in tables if one.get(tensor_name) is not None), None)
    if table is None:
        raise errors.ValueError(
            f"register_parametrization: {type(module).__name__} has no parameter, buffer or parametrized tensor "
            f"{tensor_name!r}"
        )
    made = ParametrizationList([parametrization], table[tensor_name], unsafe)
    del table[tensor_name]
    if not getattr(type(module), "_is_parametrized", False):
        module.__class__ = _parametrized_class(type(module))
        module.parametrizations = ModuleDict()
    module.parametrizations[tensor_name] = made
    setattr(type(module), tensor_name, _property(tensor_name))
    return module


def _append(module: Module, name: str, parametrization: Module, unsafe: bool) -> None:
    """Adds a parametrization behind those of a tensor."""
    found: ParametrizationList = module.parametrizations[name]
    with no_grad():
        before = getattr(module, name)
        if not unsafe:
            _expect_same("a parametrization returned", parametrization(before), before)
            inverse = getattr(parametrization, "right_inverse", None)
            if inverse is not None:
                value = inverse(before)
                _expect_same("right_inverse returned", value, before)
                found.right_inverse(value)
    found.append(parametrization)
    found.unsafe = found.unsafe or unsafe


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Makes a parametrized tensor a parameter or buffer again: with its value now, or else with that of its original.

    Raises ValueError for a tensor that is not parametrized, or for several originals where the value is not kept.

    >>> layer = hlx.nn.utils.parametrizations.weight_norm(hlx.nn.Linear(2, 2))
    >>> layer = hlx.nn.utils.parametrize.remove_parametrizations(layer, "weight")
    >>> [name for name, _ in layer.named_parameters()]
    ['bias', 'weight']
    """
    if not is_parametrized(module, tensor_name):
        raise errors.ValueError(f"remove_parametrizations: {type(module).__name__}.{tensor_name} is not parametrized")
    found: ParametrizationList = module.parametrizations[tensor_name]
    kept = found.originals[0]
    if not leave_parametrized and not found.is_tensor:
        raise errors.ValueError(
            f"remove_parametrizations: {tensor_name} has {found.ntensors} originals, expected leave_parametrized=True"
        )
    if leave_parametrized:
        with no_grad():
            value = getattr(module, tensor_name)
            if found.is_tensor and value.shape == kept.shape and value.dtype == kept.dtype:
                _hlx.copy_(kept.detach(), value)
            elif isinstance(kept, Parameter):
                kept = Parameter(_hlx.clone(_hlx.detach(value)), kept.requires_grad)
            else:
                kept = _hlx.clone(value)
    kind = type(module)
    delattr(kind, tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = kind.__bases__[0]
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    return module
