"""Modules that hold parameters: in a list, by name."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, SupportsIndex, overload

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn.modules.container import shown
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Buffer, Parameter

__all__ = ["ParameterDict", "ParameterList"]


def _kept(value: Any) -> Any:
    """A tensor becomes a parameter; parameters, buffers and other values stay what they are."""
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter | Buffer) else value


class ParameterList(Module):
    """Holds parameters in a list, which registers them; tensors that are given become parameters.

    >>> weights = hlx.nn.ParameterList([hlx.ones(2), hlx.ones(3)])
    >>> list(weights.state_dict()), len(weights)
    (['0', '1'], 2)
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def _name(self, index: SupportsIndex) -> str:
        place = operator.index(index)
        if not -self._size <= place < self._size:
            raise errors.IndexError(
                f"ParameterList: index {place} is out of range, expected {-self._size} to {self._size - 1}"
            )
        return str(place % self._size)

    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._name(index))

    def __setitem__(self, index: SupportsIndex, value: Any) -> None:
        setattr(self, self._name(index), _kept(value))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(self._size)])

    def __iadd__(self, values: Iterable[Any]) -> Self:
        return self.extend(values)

    def append(self, value: Any) -> Self:
        """Adds a parameter at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Adds parameters at the end."""
        if isinstance(values, Tensor) or not isinstance(values, Iterable):
            raise errors.TypeError(f"ParameterList: values is {type(values).__name__}, expected several")
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(f"  ({i}): {shown(value)}" for i, value in enumerate(self))


class ParameterDict(Module):
    """Holds parameters by name, which registers them; tensors that are given become parameters.

    >>> weights = hlx.nn.ParameterDict({"left": hlx.ones(2), "right": hlx.ones(3)})
    >>> list(weights), weights["left"].requires_grad
    (['left', 'right'], True)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise errors.KeyError(f"ParameterDict: there is no parameter {key!r}")
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key not in self._keys and hasattr(self, key):
            raise errors.KeyError(f"ParameterDict: the attribute {key!r} exists")
        self._keys[key] = None
        setattr(self, key, _kept(value))

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """A new one with the same parameters."""
        return type(self)(dict(self.items()))

    def clear(self) -> None:
        """Takes out all parameters."""
        for key in list(self._keys):
            del self[key]

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, which is set first if there is none."""
        if key not in self._keys:
            self[key] = default
        return self[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The parameter of a name, or a default."""
        return self[key] if key in self._keys else default

    def pop(self, key: str) -> Any:
        """Takes out a parameter and returns it."""
        found = self[key]
        del self._keys[key]
        delattr(self, key)
        return found

    def popitem(self) -> tuple[str, Any]:
        """Takes out the last parameter and returns it with its name."""
        if not self._keys:
            raise errors.KeyError("ParameterDict: popitem of an empty one")
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new one with a value under each name."""
        return type(self)((key, default) for key in keys)

    def keys(self) -> Iterable[str]:
        """The names."""
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        """The names with their parameters."""
        return [(key, self[key]) for key in self._keys]

    def values(self) -> Iterable[Any]:
        """The parameters."""
        return [self[key] for key in self._keys]

    def update(self, parameters: Any) -> None:
        """Adds parameters from a mapping or pairs, which take the place of those of the same name."""
        pairs = parameters.items() if isinstance(parameters, Mapping | ParameterDict) else parameters
        for key, value in pairs:
            self[key] = value

    def __or__(self, other: ParameterDict) -> ParameterDict:
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other: ParameterDict) -> Self:
        self.update(other)
        return self

    def extra_repr(self) -> str:
        """One line for each parameter."""
        return "\n".join(f"  ({key}): {shown(value)}" for key, value in self.items())
