"""Settings of PyTorch's cuDNN backend; they change nothing here, as `hlx.backends` says."""

#: Whether there is one.
enabled = False
#: Whether algorithms are chosen by trial: never.
benchmark = False
#: Whether results are the same in each run: always.
deterministic = True
#: Whether products are rounded to TF32: never.
allow_tf32 = False


def is_available() -> bool:
    """False: HLX has its own kernels.

    >>> hlx.backends.cudnn.is_available()
    False
    """
    return False
