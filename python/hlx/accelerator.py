"""The accelerator of this machine under PyTorch's names: the best Vulkan device.

>>> place = hlx.accelerator.current_accelerator() if hlx.accelerator.is_available() else "cpu"
>>> hlx.zeros(2, device=place).sum().item()
0.0
"""

from hlx import _hlx, vulkan

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]


def is_available() -> bool:
    """Whether there is a Vulkan device.

    >>> hlx.accelerator.is_available() == hlx.vulkan.is_available()
    True
    """
    return vulkan.is_available()


def device_count() -> int:
    """The number of Vulkan devices.

    >>> hlx.accelerator.device_count() == hlx.vulkan.device_count()
    True
    """
    return vulkan.device_count()


def current_accelerator(check_available: bool = False) -> _hlx.device | None:
    """The device `"vulkan"`, which is the best one; None if `check_available` finds none.

    >>> hlx.accelerator.current_accelerator().type
    'vulkan'
    """
    return None if check_available and not is_available() else _hlx.device("vulkan")


def synchronize(device: _hlx.device | str | None = None) -> None:
    """Waits until a device has done all its work; by default the default device.

    >>> hlx.accelerator.synchronize("cpu")
    """
    _hlx.synchronize(device)
