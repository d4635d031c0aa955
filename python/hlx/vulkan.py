"""The Vulkan devices of this machine; the counterpart of `torch.cuda`."""

from hlx import _hlx


def device_count() -> int:
    """The number of Vulkan devices.

    >>> hlx.vulkan.device_count() >= 0
    True
    """
    return sum(name != "cpu" for name, _ in _hlx.devices())


def is_available() -> bool:
    """Whether there is one."""
    return device_count() > 0


def get_device_name(device: int = 0) -> str:
    """The hardware's name, or that of a software driver.

    Raises ValueError if there is no such device.
    """
    return str(_hlx.device(f"vulkan:{device}").hardware)


def synchronize(device: "_hlx.device | str | None" = None) -> None:
    """Waits until a device has done all its work; by default the default device.

    >>> hlx.vulkan.synchronize("cpu")
    """
    _hlx.synchronize(device)


def memory_allocated(device: "_hlx.device | str | None" = None) -> int:
    """The bytes that HLX holds on a device.

    >>> hlx.vulkan.memory_allocated("cpu") >= 0
    True
    """
    return int(_hlx.memory(device))
