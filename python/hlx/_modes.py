"""The modes: whether a thread's operations go on the tape, and the type of new tensors of floats."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from hlx import _hlx, errors
from hlx._hlx import dtype

F = TypeVar("F", bound=Callable[..., Any])


class _GradMode:
    """A mode as a context or a decorator, with or without parentheses."""

    _enabled = True

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        """A context, or the function within one."""
        mode = super().__new__(cls)
        if not callable(function):
            return mode
        mode._before = []
        return mode(function)

    def __init__(self, function: Callable[..., Any] | None = None) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_hlx.set_grad_enabled(self._enabled))

    def __exit__(self, *exception: object) -> None:
        _hlx.set_grad_enabled(self._before.pop())

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def within(*arguments: Any, **keywords: Any) -> Any:
            before = _hlx.set_grad_enabled(self._enabled)
            try:
                return function(*arguments, **keywords)
            finally:
                _hlx.set_grad_enabled(before)

        return within  # type: ignore[return-value]


class no_grad(_GradMode):
    """Keeps the operations of this thread off the tape, as a context or a decorator.

    >>> x = hlx.ones(2, requires_grad=True)
    >>> with hlx.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    _enabled = False


class inference_mode(no_grad):
    """The same as `no_grad`.

    >>> with hlx.inference_mode():
    ...     print(hlx.is_grad_enabled())
    False
    """


class enable_grad(_GradMode):
    """Puts the operations of this thread on the tape, within `no_grad` too.

    >>> x = hlx.ones(2, requires_grad=True)
    >>> with hlx.no_grad(), hlx.enable_grad():
    ...     print((x * 2).requires_grad)
    True
    """


class set_grad_enabled:
    """Sets whether the operations of this thread go on the tape, at once; as a context, until it ends.

    >>> x = hlx.ones(2, requires_grad=True)
    >>> with hlx.set_grad_enabled(False):
    ...     print((x * 2).requires_grad)
    False
    """

    def __init__(self, mode: bool) -> None:
        self._mode = bool(mode)
        self._before = _hlx.set_grad_enabled(self._mode)

    def __enter__(self) -> None:
        _hlx.set_grad_enabled(self._mode)

    def __exit__(self, *exception: object) -> None:
        _hlx.set_grad_enabled(self._before)


def get_default_dtype() -> dtype:
    """The type of new tensors of Python's floats: float32, unless `set_default_dtype` has set another.

    >>> hlx.get_default_dtype()
    hlx.float32
    """
    return _hlx.default_dtype()


def set_default_dtype(d: dtype) -> None:
    """Sets the type of new tensors of Python's floats on this thread: float32, float16 or bfloat16.

    >>> hlx.set_default_dtype(hlx.float16)
    >>> hlx.tensor([1.0]).dtype
    hlx.float16
    >>> hlx.set_default_dtype(hlx.float32)
    """
    if not d.is_floating_point or d == dtype("float64"):
        raise errors.TypeError(f"set_default_dtype: is {d}, expected float32, float16 or bfloat16")
    _hlx.set_default_dtype(d)
