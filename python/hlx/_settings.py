"""PyTorch's settings of precision and determinism, of which HLX has one choice each."""

from hlx import errors

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_float32_matmul_precision",
    "set_float32_matmul_precision",
    "use_deterministic_algorithms",
]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Does nothing for True, as all algorithms are deterministic. Raises ValueError for False.

    >>> hlx.use_deterministic_algorithms(True)
    """
    if not mode:
        raise errors.ValueError("use_deterministic_algorithms: mode is False, expected True: there are no others")


def are_deterministic_algorithms_enabled() -> bool:
    """True, always.

    >>> hlx.are_deterministic_algorithms_enabled()
    True
    """
    return True


def set_float32_matmul_precision(precision: str) -> None:
    """Changes nothing: products of float32 keep its precision, which "high" and "medium" only permit to lower.

    Raises ValueError for another word than PyTorch's three.

    >>> hlx.set_float32_matmul_precision("high")
    """
    if precision not in ("highest", "high", "medium"):
        raise errors.ValueError(
            f"set_float32_matmul_precision: precision is {precision!r}, expected 'highest', 'high' or 'medium'"
        )


def get_float32_matmul_precision() -> str:
    """The precision of products of float32: "highest", always.

    >>> hlx.get_float32_matmul_precision()
    'highest'
    """
    return "highest"
