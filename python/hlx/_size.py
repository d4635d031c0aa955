"""`hlx.Size`: the shape of a tensor."""

import math
from typing import SupportsIndex, overload


class Size(tuple[int, ...]):
    """A tuple of extents, outermost first.

    >>> hlx.zeros(2, 3).shape
    hlx.Size([2, 3])
    >>> hlx.zeros(2, 3).shape.numel()
    6
    """

    __module__ = "hlx"
    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __repr__(self) -> str:
        return f"hlx.Size({list(self)})"

    @overload
    def __getitem__(self, place: SupportsIndex, /) -> int: ...
    @overload
    def __getitem__(self, place: slice, /) -> "Size": ...
    def __getitem__(self, place: SupportsIndex | slice, /) -> "int | Size":
        if isinstance(place, slice):
            return Size(tuple.__getitem__(self, place))
        return tuple.__getitem__(self, place)

    def __add__(self, other: tuple[int, ...], /) -> "Size":  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))
