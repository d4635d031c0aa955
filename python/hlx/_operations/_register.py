"""Registers the public operations, so that the package puts each of them where PyTorch has it.

A decorator returns its function unchanged: a call of an operation costs no wrapper. Without arguments it
registers the function's own name; with names, those names.
"""

from collections.abc import Callable, MutableMapping
from typing import Any, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])

#: What `hlx.NAME` is.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: What `hlx.Tensor.NAME` is.
METHODS: dict[str, Callable[..., Any]] = {}
#: What the attribute `hlx.Tensor.NAME` computes.
ATTRIBUTES: dict[str, Callable[..., Any]] = {}


def _register(tables: tuple[dict[str, Callable[..., Any]], ...], first: Any, names: tuple[str, ...]) -> Any:
    def register(function: Function, names: tuple[str, ...]) -> Function:
        for table in tables:
            for name in names:
                if name in table:
                    raise AssertionError(f"the operation {name} is registered twice")
                table[name] = function
        return function

    if callable(first):
        return register(first, (first.__name__,))
    return lambda function: register(function, (first, *names))


@overload
def operation(first: Function) -> Function: ...
@overload
def operation(first: str, *names: str) -> Callable[[Function], Function]: ...
def operation(first: Any, *names: str) -> Any:
    """Registers a function of the package that is a method of tensors too."""
    return _register((FUNCTIONS, METHODS), first, names)


@overload
def function(first: Function) -> Function: ...
@overload
def function(first: str, *names: str) -> Callable[[Function], Function]: ...
def function(first: Any, *names: str) -> Any:
    """Registers a function of the package alone."""
    return _register((FUNCTIONS,), first, names)


@overload
def method(first: Function) -> Function: ...
@overload
def method(first: str, *names: str) -> Callable[[Function], Function]: ...
def method(first: Any, *names: str) -> Any:
    """Registers a method of tensors alone."""
    return _register((METHODS,), first, names)


def attribute(*names: str) -> Callable[[Function], Function]:
    """Registers a function of a tensor that is read as an attribute, without a call."""
    register: Callable[[Function], Function] = _register((ATTRIBUTES,), names[0], names[1:])
    return register


def install(namespace: MutableMapping[str, Any], tensor: type) -> None:
    """Puts the registered functions into a namespace and the methods on the class of tensors."""
    namespace.update(FUNCTIONS)
    for name, registered in METHODS.items():
        setattr(tensor, name, registered)
    for name, registered in ATTRIBUTES.items():
        setattr(tensor, name, property(registered))
