"""Forms in place of activations: `NAME_(input, ..)` is `NAME(input, .., inplace=True)`."""

import inspect
from collections.abc import Callable
from typing import Any

from hlx._operations._types import Tensor
from hlx.nn._functional import activations


def _form(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    name = function.__name__

    def in_place(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        return function(input, *arguments, **keywords, inplace=True)

    signature = inspect.signature(function)
    left = [parameter for parameter in signature.parameters.values() if parameter.name != "inplace"]
    in_place.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__annotations__ = {key: kind for key, kind in function.__annotations__.items() if key != "inplace"}
    values = ", 0.0, 0.0" if name == "threshold" else ""
    in_place.__doc__ = (
        f"As `{name}`, into the tensor's own memory; returns the tensor.\n\n"
        f"    >>> x = hlx.tensor([-1.0, 2.0])\n    >>> hlx.nn.functional.{name}_(x{values}) is x\n    True\n    "
    )
    return in_place


celu_: Callable[..., Tensor] = _form(activations.celu)
elu_: Callable[..., Tensor] = _form(activations.elu)
hardtanh_: Callable[..., Tensor] = _form(activations.hardtanh)
leaky_relu_: Callable[..., Tensor] = _form(activations.leaky_relu)
rrelu_: Callable[..., Tensor] = _form(activations.rrelu)
selu_: Callable[..., Tensor] = _form(activations.selu)
threshold_: Callable[..., Tensor] = _form(activations.threshold)
