"""The tree of modules: attributes that register parameters, buffers and submodules, and the ways to go over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn.parameter import Buffer, Parameter

if TYPE_CHECKING:
    from hlx.nn.modules.module import Module

_TABLES = ("_parameters", "_buffers", "_modules")


class Tree:
    """What a module holds: each attribute that is a parameter, a buffer or a module is in a table of its own."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _non_persistent_buffers_set: set[str]
    _modules: dict[str, Module | None]

    def __init__(self) -> None:
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_buffers", {})
        object.__setattr__(self, "_non_persistent_buffers_set", set())
        object.__setattr__(self, "_modules", {})

    def __getattr__(self, name: str) -> Any:
        held = self.__dict__
        for table in _TABLES:
            if table in held and name in held[table]:
                return held[table][name]
        raise errors.AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__
        if isinstance(value, Parameter):
            self._expect_ready(name)
            self._forget(name, but="_parameters")
            self.register_parameter(name, value)
        elif isinstance(value, Tree):
            self._expect_ready(name)
            self._forget(name, but="_modules")
            held["_modules"][name] = value
        elif name in held.get("_parameters", ()):
            self._set_in("_parameters", name, value, None, "a Parameter or None")
        elif name in held.get("_modules", ()):
            self._set_in("_modules", name, value, None, "a Module or None")
        elif isinstance(value, Buffer):
            self._expect_ready(name)
            self._forget(name, but="_buffers")
            self.register_buffer(name, value, value.persistent)
        elif name in held.get("_buffers", ()):
            self._set_in("_buffers", name, value, Tensor, "a Tensor or None")
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        if not self._forget(name):
            object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        own = [*object.__dir__(self), *self._parameters, *self._buffers, *self._modules]
        return sorted(name for name in own if not name[:1].isdigit())

    def _set_in(self, table: str, name: str, value: Any, kind: type | None, expected: str) -> None:
        if value is not None and not (kind and isinstance(value, kind)):
            raise errors.TypeError(
                f"{type(self).__name__}.{name}: assigned {type(value).__name__}, expected {expected}"
            )
        self.__dict__[table][name] = value

    def _expect_ready(self, name: str) -> None:
        if "_parameters" not in self.__dict__:
            raise errors.AttributeError(f"{type(self).__name__}.{name}: assigned before super().__init__() was called")

    def _forget(self, name: str, but: str = "") -> bool:
        """Takes a name out of the tables, and says whether it was there."""
        found = False
        for table in _TABLES:
            if table != but and name in self.__dict__.get(table, ()):
                del self.__dict__[table][name]
                found = True
        if but != "_buffers":
            self._non_persistent_buffers_set.discard(name)
        if but:
            self.__dict__.pop(name, None)
        return found

    def _expect_name(self, operation: str, name: str, table: str) -> None:
        self._expect_ready(name)
        if not isinstance(name, str) or "." in name or not name:
            raise errors.KeyError(f"{operation}: the name is {name!r}, expected a word without a dot")
        if hasattr(self, name) and name not in self.__dict__[table]:
            raise errors.KeyError(f"{operation}: the attribute {name!r} exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Adds a parameter as an attribute; None reserves the name."""
        self._expect_ready(name)
        if param is not None and not isinstance(param, Parameter):
            raise errors.TypeError(
                f"register_parameter: {name} is {type(param).__name__}, expected a Parameter or None"
            )
        if param is not None and param.grad_fn is not None:
            raise errors.ValueError(f"register_parameter: {name} is the result of an operation, expected a leaf")
        self._expect_name("register_parameter", name, "_parameters")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Adds a tensor that is no parameter as an attribute; in the `state_dict` if it is persistent."""
        self._expect_name("register_buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise errors.TypeError(f"register_buffer: {name} is {type(tensor).__name__}, expected a Tensor or None")
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Adds a module as an attribute."""
        if module is not None and not isinstance(module, Tree):
            raise errors.TypeError(f"add_module: {name} is {type(module).__name__}, expected a Module or None")
        self._expect_name("add_module", name, "_modules")
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as `add_module`."""
        self.add_module(name, module)

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Goes over this module and all below it with their names, each once."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self  # type: ignore[misc]
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Goes over this module and all below it, each once."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Goes over the modules directly below with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Goes over the modules directly below, each once."""
        for _, module in self.named_children():
            yield module

    def _named_members(
        self, members: Callable[[Module], Any], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        for module_prefix, module in modules:
            for name, member in members(module):
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{module_prefix}.{name}" if module_prefix else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Goes over the parameters with their names, in the order of their registration."""
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Goes over the parameters."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Goes over the buffers with their names."""
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Goes over the buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; this one for an empty name."""
        found: Any = self
        for name in target.split(".") if target else ():
            if name not in found._modules or found._modules[name] is None:
                raise errors.AttributeError(
                    f"get_submodule: {type(found).__name__} has no module {name!r} (of {target!r})"
                )
            found = found._modules[name]
        return found  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name."""
        return self._got("get_parameter", target, "_parameters", "parameter")  # type: ignore[no-any-return]

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name."""
        return self._got("get_buffer", target, "_buffers", "buffer")  # type: ignore[no-any-return]

    def _got(self, operation: str, target: str, table: str, word: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        found = module.__dict__[table].get(name)
        if found is None:
            raise errors.AttributeError(f"{operation}: {type(module).__name__} has no {word} {name!r} (of {target!r})")
        return found
