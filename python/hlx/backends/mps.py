"""PyTorch's backend for Apple's GPUs, which HLX reaches by Vulkan, if at all."""


def is_available() -> bool:
    """False: HLX computes on `"vulkan"` and `"cpu"`.

    >>> hlx.backends.mps.is_available()
    False
    """
    return False


def is_built() -> bool:
    """False, as `is_available`.

    >>> hlx.backends.mps.is_built()
    False
    """
    return False
