"""The methods of tensors that belong to gradients."""

from collections.abc import Sequence

from hlx import _hlx, autograd
from hlx._hlx import Tensor


def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
    """Adds the gradients of this tensor, weighted by `gradient`, to what the leaves hold.

    Raises RuntimeError for a tensor of several elements without a `gradient`, or a graph that an earlier pass has
    freed.

    >>> x = hlx.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """
    autograd.backward(self, gradient, retain_graph, create_graph, inputs)


def detach_(self: Tensor) -> Tensor:
    """Takes the tensor off the tape, and returns it.

    >>> x = hlx.ones(2, requires_grad=True)
    >>> x.detach_().requires_grad
    False
    """
    return _hlx.become(self, self.detach())


METHODS = {"backward": backward, "detach_": detach_}
