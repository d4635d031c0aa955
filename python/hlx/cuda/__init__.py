"""What programs for PyTorch read of `torch.cuda`: HLX has no CUDA, its GPUs are `hlx.vulkan`'s.

>>> "cuda" if hlx.cuda.is_available() else "cpu"
'cpu'
"""

from typing import Any, NoReturn

from hlx import errors
from hlx.cuda import amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "get_device_name",
    "is_available",
    "is_bf16_supported",
    "manual_seed",
    "manual_seed_all",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """False: HLX computes on `"vulkan"` and `"cpu"`.

    >>> hlx.cuda.is_available()
    False
    """
    return False


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False, as there is no CUDA device.

    >>> hlx.cuda.is_bf16_supported()
    False
    """
    return False


def device_count() -> int:
    """0, as there is no CUDA device.

    >>> hlx.cuda.device_count()
    0
    """
    return 0


def manual_seed(seed: int) -> None:
    """Does nothing, as in PyTorch without CUDA: `hlx.manual_seed` seeds all devices.

    >>> hlx.cuda.manual_seed(1)
    """


def manual_seed_all(seed: int) -> None:
    """Does nothing, as in PyTorch without CUDA: `hlx.manual_seed` seeds all devices.

    >>> hlx.cuda.manual_seed_all(1)
    """


def empty_cache() -> None:
    """Does nothing, as in PyTorch without CUDA; `hlx.vulkan.empty_cache` gives memory back.

    >>> hlx.cuda.empty_cache()
    """


def _refuse(operation: str) -> NoReturn:
    raise errors.RuntimeError(f"cuda.{operation}: HLX has no CUDA device; hlx.vulkan has its GPUs")


def synchronize(device: Any = None) -> NoReturn:
    """Raises RuntimeError, as there is no CUDA device: `hlx.vulkan.synchronize` waits for a device.

    >>> try:
    ...     hlx.cuda.synchronize()
    ... except hlx.errors.RuntimeError as error:
    ...     print(error)
    cuda.synchronize: HLX has no CUDA device; hlx.vulkan has its GPUs
    """
    _refuse("synchronize")


def current_device() -> NoReturn:
    """Raises RuntimeError, as there is no CUDA device: `hlx.get_default_device()` is the device of new tensors.

    >>> hlx.get_default_device()
    device(type='cpu')
    """
    _refuse("current_device")


def set_device(device: Any) -> NoReturn:
    """Raises RuntimeError, as there is no CUDA device: `hlx.set_default_device` sets the device of new tensors.

    >>> hlx.set_default_device("cpu")
    """
    _refuse("set_device")


def get_device_name(device: Any = None) -> NoReturn:
    """Raises RuntimeError, as there is no CUDA device: `hlx.vulkan.get_device_name` has the names of GPUs.

    >>> hlx.cuda.device_count()
    0
    """
    _refuse("get_device_name")
