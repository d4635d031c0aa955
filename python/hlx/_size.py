"""`hlx.Size`: the shape of a tensor."""

import math


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

    def __getitem__(self, place):  # type: ignore[no-untyped-def, override]
        found = tuple.__getitem__(self, place)
        return Size(found) if isinstance(place, slice) else found

    def __add__(self, other):  # type: ignore[no-untyped-def, override]
        return Size(tuple.__add__(self, tuple(other)))
