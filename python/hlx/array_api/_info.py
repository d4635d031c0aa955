"""What `__array_namespace_info__` tells about devices and data types."""

from __future__ import annotations

import hlx
from hlx import errors

from ._dtypes import BOOL, DEFAULT_INTEGER, DEFAULT_REAL, KINDS, REAL, SIGNED, UNSIGNED, Dtype


class Info:
    """The namespace of inspection functions."""

    def capabilities(self) -> dict[str, bool | int | None]:
        """What the library can do: at most 8 dimensions."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> hlx.device:
        """The device of new arrays in this thread, with its number."""
        return hlx.zeros((), device=hlx.get_default_device()).device

    def default_dtypes(self, *, device: hlx.device | None = None) -> dict[str, Dtype]:
        """The types of new arrays. There are no complex numbers, so that key is missing."""
        return {"real floating": DEFAULT_REAL, "integral": DEFAULT_INTEGER, "indexing": DEFAULT_INTEGER}

    def dtypes(
        self, *, device: hlx.device | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, Dtype]:
        """The standard's types that HLX has, by name; all devices have the same."""
        everything = BOOL | SIGNED | UNSIGNED | REAL
        if kind is None:
            return everything
        kinds = (kind,) if isinstance(kind, str) else kind
        unknown = [name for name in kinds if name not in KINDS]
        if unknown:
            raise errors.ValueError(f"dtypes: no kind {unknown[0]!r}, expected one of {', '.join(KINDS)}")
        return {name: dtype for name, dtype in everything.items() if any(name in KINDS[one] for one in kinds)}

    def devices(self) -> tuple[hlx.device, ...]:
        """The CPU device, and every Vulkan device found."""
        found = [hlx.device("cpu")]
        found += [hlx.device(f"vulkan:{i}") for i in range(hlx.vulkan.device_count())]
        default = self.default_device()
        return tuple(found if default in found else [*found, default])


def __array_namespace_info__() -> Info:
    """Returns the inspection functions of this namespace."""
    return Info()
