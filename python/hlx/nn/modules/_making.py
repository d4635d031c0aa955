"""What layers make when they are constructed."""

import math
from collections.abc import Sequence

from hlx import _hlx, errors
from hlx._hlx import Tensor, dtype
from hlx._operations._arguments import place
from hlx._operations._types import INT32, Device
from hlx.nn import init
from hlx.nn.parameter import Parameter


def filled(shape: Sequence[int], value: float, device: Device = None, dtype: dtype | None = None) -> Tensor:
    """A tensor of one value, of the default type unless one is named."""
    kind = _hlx.default_dtype() if dtype is None else dtype
    return _hlx.full(place(device), list(shape), value, kind)


def parameter(shape: Sequence[int], value: float, device: Device = None, dtype: dtype | None = None) -> Parameter:
    """A parameter of one value."""
    return Parameter(filled(shape, value, device, dtype))


def counter(device: Device = None) -> Tensor:
    """An integer 0."""
    return _hlx.zeros(place(device), [], INT32)


def uniform_by_inputs(weight: Tensor, bias: Tensor | None, inputs: int | None = None) -> None:
    """PyTorch's initial values of linear maps and convolutions: within 1 / sqrt(inputs)."""
    n = math.prod(weight.shape[1:]) if inputs is None else inputs
    if n > 0:
        bound = 1 / math.sqrt(n)
        init.uniform_(weight, -bound, bound)
        if bias is not None:
            init.uniform_(bias, -bound, bound)


def each(owner: str, name: str, value: int | Sequence[int], n: int) -> tuple[int, ...]:
    """One number for each dimension."""
    numbers = (value,) * n if isinstance(value, int) else tuple(value)
    if len(numbers) != n:
        raise errors.ValueError(f"{owner}: {name} is {value}, expected a number or {n} of them")
    return numbers
