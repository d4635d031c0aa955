"""Tensors of random numbers: each draw takes one seed of the generator, and element i depends on it and i alone."""

from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Generator
from hlx._operations._arguments import extents, place
from hlx._operations._register import function, method, operation
from hlx._operations._types import FLOAT32, INT32, Device, Number, Shape, Tensor, dtype


def _finished(made: Tensor, dtype: dtype | None, requires_grad: bool) -> Tensor:
    made = _hlx.to_dtype(made, dtype or _hlx.default_dtype())
    return made.requires_grad_() if requires_grad else made


@function
def rand(
    size: int | Shape = (),
    *more: int,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Draws values uniformly from [0, 1), multiples of 2^-24.

    >>> generator = hlx.manual_seed(0)
    >>> x = hlx.rand(1000)
    >>> bool((0 <= x).all()) and bool((x < 1).all())
    True
    """
    made = _hlx.rand(place(device), extents(size, more), _hlx.next_seed(generator))
    return _finished(made, dtype, requires_grad)


@function
def randn(
    size: int | Shape = (),
    *more: int,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Draws values from the normal distribution of mean 0 and deviation 1.

    >>> generator = hlx.manual_seed(0)
    >>> abs(hlx.randn(10000).mean().item()) < 0.1
    True
    """
    made = _hlx.randn(place(device), extents(size, more), _hlx.next_seed(generator))
    return _finished(made, dtype, requires_grad)


@function
def randint(
    low: int = 0,
    high: int | Shape | None = None,
    size: Shape | None = None,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws whole numbers from `low` (0 if only one number is given) to `high - 1`, as int32.

    >>> generator = hlx.manual_seed(0)
    >>> sorted(set(hlx.randint(1, 7, (1000,)).tolist()))
    [1, 2, 3, 4, 5, 6]
    """
    if high is not None and not isinstance(high, int):
        # `randint(high, size)`.
        size, high = high, None
    if high is None:
        low, high = 0, low
    if size is None:
        raise errors.TypeError("randint: size is missing")
    made = _hlx.randint(place(device), low, high, extents(size, ()), _hlx.next_seed(generator))
    return _finished(made, dtype or INT32, requires_grad)


@function
def rand_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Draws values uniformly from [0, 1) with the shape, type and device of another tensor.

    >>> hlx.rand_like(hlx.zeros(2, 3)).shape
    hlx.Size([2, 3])
    """
    made = _hlx.rand(place(device or input.device), input.shape, _hlx.next_seed(generator))
    return _finished(made, dtype or input.dtype, requires_grad)


@function
def randn_like(
    input: Tensor,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Draws from the normal distribution with the shape, type and device of another tensor.

    >>> hlx.randn_like(hlx.zeros(2, 3)).shape
    hlx.Size([2, 3])
    """
    made = _hlx.randn(place(device or input.device), input.shape, _hlx.next_seed(generator))
    return _finished(made, dtype or input.dtype, requires_grad)


@function
def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """Draws whole numbers from `low` to `high - 1` with the shape, type and device of another tensor.

    >>> hlx.randint_like(hlx.zeros(3), 5, 6).tolist()
    [5.0, 5.0, 5.0]
    """
    low, high = (0, low) if high is None else (low, high)
    made = _hlx.randint(place(device or input.device), low, high, input.shape, _hlx.next_seed(generator))
    return _finished(made, dtype or input.dtype, requires_grad)


@function
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Draws an order of the numbers from 0 to `n - 1`: the places of sorted draws of 48 bits.

    >>> sorted(hlx.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    # Draws have 24 bits; a stable sort by a second one orders those that are equal in the first.
    second = _hlx.argsort(_hlx.rand(place(device), [n], _hlx.next_seed(generator)), 0, False)
    first = _hlx.index_select(_hlx.rand(place(device), [n], _hlx.next_seed(generator)), 0, second)
    order = _hlx.index_select(second, 0, _hlx.argsort(first, 0, False))
    return _finished(order, dtype or INT32, requires_grad)


@function
def normal(
    mean: Tensor | Number,
    std: Tensor | Number = 1.0,
    size: Shape | None = None,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Draws from normal distributions of a mean and a deviation, which may be tensors, or of a size.

    >>> hlx.normal(5.0, 0.0, (2,)).tolist()
    [5.0, 5.0]
    """
    tensors = [value for value in (mean, std) if isinstance(value, Tensor)]
    if not tensors and size is None:
        raise errors.TypeError("normal: size is missing beside two numbers")
    shape = _joint(tensors) if size is None else extents(size, ())
    where = place(device) if not tensors else tensors[0].device
    drawn = _hlx.randn(where, shape, _hlx.next_seed(generator))
    made = _hlx.binary(_hlx.binary(drawn, std, "mul"), mean, "add")
    return _finished(made, dtype or (tensors[0].dtype if tensors else None), requires_grad)


def _joint(tensors: list[Tensor]) -> list[int]:
    from hlx._operations.movement import broadcast_shapes

    return list(broadcast_shapes(*(tensor.shape for tensor in tensors)))


@operation
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Draws 1 with the probability of each element, else 0; or with one probability, of this shape.

    >>> hlx.bernoulli(hlx.tensor([0.0, 1.0])).tolist()
    [0.0, 1.0]
    """
    if p is not None:
        drawn = _hlx.bernoulli(input.device, p, input.shape, _hlx.next_seed(generator))
        return _hlx.to_dtype(drawn, input.dtype)
    uniform = _hlx.rand(input.device, input.shape, _hlx.next_seed(generator))
    return _hlx.to_dtype(_hlx.binary(uniform, _hlx.to_dtype(input, FLOAT32), "lt"), input.dtype)


@operation
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Draws places along the last dimension with probabilities in proportion to the elements.

    >>> hlx.multinomial(hlx.tensor([0.0, 1.0, 0.0]), 2, replacement=True).tolist()
    [1, 1]
    """
    if input.ndim not in (1, 2):
        raise errors.RuntimeError(f"multinomial: the input has shape {list(input.shape)}, expected 1 or 2 dimensions")
    weights = _hlx.to_dtype(input.detach(), FLOAT32)
    rows = weights.reshape(-1, weights.shape[-1])
    if replacement:
        sums = _hlx.cumsum(rows, -1)
        total = _hlx.narrow(sums, -1, rows.shape[1] - 1, 1)
        shape = [rows.shape[0], num_samples]
        drawn = _hlx.binary(_hlx.rand(input.device, shape, _hlx.next_seed(generator)), total, "mul")
        # The first sum above the draw; an element of weight 0 has no sum of its own.
        below = _hlx.binary(_hlx.unsqueeze(sums, 1), _hlx.unsqueeze(drawn, -1), "le")
        places = _hlx.sum_dim(below, [-1], False)
    else:
        if num_samples > rows.shape[1]:
            raise errors.RuntimeError(f"multinomial: num_samples is {num_samples}, expected at most {rows.shape[1]}")
        # The smallest of exponential draws, divided by their weights.
        uniform = _hlx.rand(input.device, list(rows.shape), _hlx.next_seed(generator))
        waits = _hlx.binary(_hlx.unary(_hlx.unary(_hlx.unary(uniform, "neg"), "log1p"), "neg"), rows, "div")
        waits = _hlx.masked_fill(waits, _hlx.binary(rows, 0, "eq"), float("inf"))
        places = _hlx.topk(waits, num_samples, -1, False)[1]
    return _hlx.reshape(places, [*input.shape[:-1], num_samples])


@method
def uniform_(input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with values drawn uniformly from [from, to).

    >>> bool((hlx.empty(8).uniform_(2, 3) >= 2).all())
    True
    """
    drawn = _hlx.rand(input.device, input.shape, _hlx.next_seed(generator))
    values = _hlx.binary(_hlx.binary(drawn, to - from_, "mul"), from_, "add")
    return _hlx.in_place(input, "uniform_", lambda x: _hlx.to_dtype(values, x.dtype))


@method
def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with draws from the normal distribution.

    >>> hlx.empty(2).normal_(5, 0).tolist()
    [5.0, 5.0]
    """
    drawn = _hlx.randn(input.device, input.shape, _hlx.next_seed(generator))
    values = _hlx.binary(_hlx.binary(drawn, std, "mul"), mean, "add")
    return _hlx.in_place(input, "normal_", lambda x: _hlx.to_dtype(values, x.dtype))


@method
def bernoulli_(input: Tensor, p: Tensor | float = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with 1 with a probability, which may be a tensor, else 0.

    >>> hlx.empty(2).bernoulli_(1.0).tolist()
    [1.0, 1.0]
    """
    uniform = _hlx.rand(input.device, input.shape, _hlx.next_seed(generator))
    drawn = _hlx.binary(uniform, p, "lt")
    return _hlx.in_place(input, "bernoulli_", lambda x: _hlx.to_dtype(drawn, x.dtype))


@method
def random_(input: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Fills the tensor with whole numbers from `from_` to `to - 1`.

    >>> hlx.empty(2, dtype=hlx.int32).random_(3, 4).tolist()
    [3, 3]
    """
    if to is None:
        low, high = (0, from_) if from_ else (0, 2**24)
    else:
        low, high = from_, to
    drawn = _hlx.randint(input.device, low, high, input.shape, _hlx.next_seed(generator))
    return _hlx.in_place(input, "random_", lambda x: _hlx.to_dtype(drawn, x.dtype))
