"""The Vulkan devices of this machine; the counterpart of `torch.cuda`."""

from hlx import _hlx


def device_count() -> int:
    """The number of Vulkan devices.

    >>> hlx.vulkan.device_count() >= 0
    True
    """
    return sum(name != "cpu" for name, _ in _hlx.devices())


def is_available() -> bool:
    """Whether there is one.

    >>> hlx.vulkan.is_available() == (hlx.vulkan.device_count() > 0)
    True
    """
    return device_count() > 0


def get_device_name(device: int = 0) -> str:
    """The hardware's name, or that of a software driver.

    Raises RuntimeError if there is no such device.

    >>> names = [hlx.vulkan.get_device_name(i) for i in range(hlx.vulkan.device_count())]
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


def empty_cache(device: "_hlx.device | str | None" = None) -> None:
    """Gives memory that no tensor uses back to a device.

    >>> hlx.vulkan.empty_cache("cpu")
    """
    _hlx.empty_cache(device)
