"""Modules that hold others: in a sequence, in a list, by name."""

from __future__ import annotations

import operator
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self, SupportsIndex, overload

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn.modules.module import Module

__all__ = ["ModuleDict", "ModuleList", "Sequential"]


class _Listed(Module):
    """Modules under the names "0", "1", .. with a list's methods."""

    def _all(self) -> list[Module]:
        return list(self._modules.values())  # type: ignore[arg-type]

    def _set_all(self, modules: Iterable[Module]) -> None:
        found = list(modules)
        self._modules.clear()
        for i, module in enumerate(found):
            self.add_module(str(i), module)

    def _name(self, index: SupportsIndex) -> str:
        place, n = operator.index(index), len(self._modules)
        if not -n <= place < n:
            raise errors.IndexError(f"{self._get_name()}: index {place} is out of range, expected {-n} to {n - 1}")
        return list(self._modules)[place % n]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def __contains__(self, module: object) -> bool:
        return any(module is one for one in self)

    def __setitem__(self, index: SupportsIndex, module: Module) -> None:
        setattr(self, self._name(index), module)

    def __delitem__(self, index: SupportsIndex | slice) -> None:
        if isinstance(index, slice):
            names = list(self._modules)[index]
        else:
            names = [self._name(index)]
        for name in names:
            del self._modules[name]
        if all(name.isdigit() for name in self._modules):
            self._set_all(self._all())

    def append(self, module: Module) -> Self:
        """Adds a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Adds modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Adds a module before the one of an index."""
        n = len(self)
        if not -n <= index <= n:
            raise errors.IndexError(f"{self._get_name()}: index {index} is out of range, expected {-n} to {n}")
        modules = self._all()
        modules.insert(index, module)
        self._set_all(modules)
        return self

    def pop(self, key: int | slice = -1) -> Any:
        """Takes out a module, by default the last, and returns it."""
        found: Any = self[key]  # type: ignore[index] # pyright: ignore
        del self[key]
        return found


class Sequential(_Listed):
    """Calls modules one after the other, each with the result of the one before.

    >>> model = hlx.nn.Sequential(hlx.nn.Linear(4, 8), hlx.nn.ReLU(), hlx.nn.Linear(8, 2))
    >>> model
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
      (2): Linear(in_features=8, out_features=2, bias=True)
    )
    >>> model(hlx.ones(3, 4)).shape
    hlx.Size([3, 2])
    """

    @overload
    def __init__(self, *args: Module) -> None: ...
    @overload
    def __init__(self, arg: Mapping[str, Module], /) -> None: ...
    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            self._set_all(args)

    def forward(self, input: Any) -> Any:
        """Calls the modules in order."""
        for module in self:
            input = module(input)
        return input

    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(list(self._modules.items())[index]))  # type: ignore[arg-type]
        return self._modules[self._name(index)]

    def __add__(self, other: Sequential) -> Sequential:
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        return Sequential(*list(self) * times)


class ModuleList(_Listed):
    """Holds modules in a list, which registers them.

    >>> layers = hlx.nn.ModuleList(hlx.nn.Linear(2, 2) for _ in range(3))
    >>> len(layers), list(layers.state_dict())[:2]
    (3, ['0.weight', '0.bias'])
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self._set_all(() if modules is None else modules)

    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Module: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self._all()[index])
        return self._modules[self._name(index)]

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:  # type: ignore[misc]
        return self.extend(modules)

    def __repr__(self) -> str:
        runs: list[tuple[int, int, str]] = []
        for i, module in enumerate(self):
            text = repr(module)
            if runs and runs[-1][2] == text:
                runs[-1] = (runs[-1][0], i, text)
            else:
                runs.append((i, i, text))
        lines = [
            f"  ({first}): {text}" if first == last else f"  ({first}-{last}): {last - first + 1} x {text}"
            for first, last, text in ((a, b, text.replace("\n", "\n  ")) for a, b, text in runs)
        ]
        return f"{self._get_name()}()" if not lines else "\n".join([f"{self._get_name()}(", *lines, ")"])


class ModuleDict(Module):
    """Holds modules by name, which registers them, in the order in which they came.

    >>> heads = hlx.nn.ModuleDict({"a": hlx.nn.Linear(2, 1), "b": hlx.nn.Identity()})
    >>> list(heads), "a" in heads
    (['a', 'b'], True)
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        if key not in self._modules:
            raise errors.KeyError(f"{self._get_name()}: there is no module {key!r}")
        return self._modules[key]  # type: ignore[return-value]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Takes out all modules."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Takes out a module and returns it."""
        found = self[key]
        del self._modules[key]
        return found

    def keys(self) -> KeysView[str]:
        """The names."""
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """The names with their modules."""
        return self._modules.items()  # type: ignore[return-value]

    def values(self) -> ValuesView[Module]:
        """The modules."""
        return self._modules.values()  # type: ignore[return-value]

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Adds modules, which take the place of those of the same name."""
        for name, module in modules.items() if isinstance(modules, Mapping | ModuleDict) else modules:
            self[name] = module


def shown(value: Any) -> str:
    """What a list of parameters says of one of its values."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    size = "x".join(str(extent) for extent in value.shape)
    place = "" if value.device.type == "cpu" else f" ({value.device})"
    kind = type(value).__name__
    return f"{kind} containing: [{value.dtype} of size {size}{place}]"
