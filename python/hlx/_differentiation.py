"""The methods of tensors that belong to gradients."""

from collections.abc import Sequence

from hlx import _hlx, autograd, errors
from hlx._hlx import Tensor


def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
    *,
    shards: int = 1,
) -> None:
    """Adds the gradients of this tensor, weighted by `gradient`, to what the leaves hold.

    With `shards` the gradients of parameters are sums over that many parts of the batch (`hlx.autograd.backward`).
    Raises RuntimeError for a tensor of several elements without a `gradient`, or a graph that an earlier pass has
    freed.

    >>> x = hlx.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    autograd.backward(self, gradient, retain_graph, create_graph, inputs, shards=shards)


def detach_(self: Tensor) -> Tensor:
    """Takes the tensor off the tape, and returns it.

    >>> x = hlx.ones(2, requires_grad=True)
    >>> x.detach_().requires_grad
    False
    """
    return _hlx.become(self, self.detach())


def with_samples(self: Tensor, axis: int = 0) -> Tensor:
    """The same tensor with its samples along an axis, one index each, for `backward` with `shards`.

    Operations carry it on. Raises ValueError for an axis that the tensor has not.

    >>> x = hlx.tensor([[1.0], [2.0], [3.0], [4.0]]).with_samples()
    >>> w = hlx.ones(1, requires_grad=True)
    >>> (x * w).sum().backward(shards=2)
    >>> w.grad
    tensor([10.])
    """
    n = self.ndim
    if not -n <= axis < n:
        raise errors.ValueError(f"with_samples: axis is {axis}, and the tensor has {n} dimensions")
    return _hlx.with_samples(self, axis % n)


METHODS = {"backward": backward, "detach_": detach_, "with_samples": with_samples}
