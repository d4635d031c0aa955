"""The methods that the array API standard adds to `hlx.Tensor`; the namespace itself is `hlx.array_api`.

The namespace is imported by the first call, so that `import hlx` does not pay for it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from . import errors
from ._hlx import Tensor

#: The versions of the standard whose functions `hlx.array_api` has.
VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")


def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> ModuleType:
    """Returns `hlx.array_api`, the namespace of the array API standard.

    Raises a ValueError for a version that the namespace does not implement.

    >>> x = hlx.ones(3)
    >>> xp = x.__array_namespace__()
    >>> xp.sum(x)
    tensor(3.)
    """
    if api_version is not None and api_version not in VERSIONS:
        expected = ", ".join(VERSIONS)
        raise errors.ValueError(f"__array_namespace__: no version {api_version!r}, expected one of {expected}")
    from . import array_api

    return array_api


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """Copies the tensor to `device`, or returns it if it is there: the standard's name for `Tensor.to`.

    HLX has one stream per device, so `stream` must be None.

    >>> hlx.ones(2).to_device("cpu").device
    device(type='cpu')
    """
    if stream is not None:
        raise errors.ValueError(f"to_device: stream is {stream!r}, expected None: a device has one stream")
    return self.to(device)


def __complex__(self: Tensor, /) -> complex:
    """The tensor's only element as a Python complex number without an imaginary part."""
    return complex(self.item())


def attach(tensor: type[Tensor]) -> None:
    """Gives the methods of this file to the class of tensors."""
    for method in (__array_namespace__, to_device, __complex__):
        setattr(tensor, method.__name__, method)
