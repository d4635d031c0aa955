"""The exceptions of HLX: each is `hlx.Error` and a built-in class, and its message is one line.

>>> try:
...     hlx.zeros(2, 3) + hlx.zeros(4)
... except hlx.Error as error:
...     print(error)
add: shapes [2, 3] and [4] do not broadcast
"""

import builtins


class Error(Exception):
    """What every exception of HLX is, beside its built-in class."""

    __module__ = "hlx"


class ValueError(Error, builtins.ValueError):
    """An argument has the right type and a value that does not fit, such as a shape."""


class TypeError(Error, builtins.TypeError):
    """An argument has the wrong type, or a tensor the wrong dtype."""


class IndexError(Error, builtins.IndexError):
    """A dimension or a place is out of range."""


class RuntimeError(Error, builtins.RuntimeError):
    """The tape or the device cannot do what was asked."""


class MemoryError(Error, builtins.MemoryError):
    """The device has no memory for a tensor."""


class BufferError(Error, builtins.BufferError):
    """A tensor's memory cannot be shared in the way that was asked."""


class NotImplementedError(Error, builtins.NotImplementedError):
    """PyTorch has this form, and HLX has not."""


class KeyError(Error, builtins.KeyError):
    """A name that is missing, or cannot be used."""

    def __str__(self) -> str:
        # Python's own quotes the message.
        return Error.__str__(self)


class AttributeError(Error, builtins.AttributeError):
    """An attribute that an object does not have."""


class Interrupted(builtins.KeyboardInterrupt):
    """Ctrl-C, or SIGTERM, has stopped `hlx.train` or `hlx.verify`; `run` is the run, which can be resumed.

    It is no `hlx.Error`, so that `except Exception` lets it through, as it does with `KeyboardInterrupt`.
    """

    def __init__(self, message: str, run: object = None) -> None:
        super().__init__(message)
        self.run = run
