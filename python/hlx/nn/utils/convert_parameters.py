"""Parameters as one vector."""

from collections.abc import Iterable

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx._modes import no_grad

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Joins the elements of several tensors in a vector.

    >>> hlx.nn.utils.parameters_to_vector([hlx.ones(2), hlx.zeros(1, 1)])
    tensor([1., 1., 0.])
    """
    return _hlx.cat([_hlx.reshape(one, [-1]) for one in parameters], 0)


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copies the elements of a vector into several tensors, in order.

    >>> w = hlx.nn.Parameter(hlx.zeros(2))
    >>> hlx.nn.utils.vector_to_parameters(hlx.tensor([1.0, 2.0]), [w])
    >>> w.tolist()
    [1.0, 2.0]
    """
    found, start = list(parameters), 0
    total = sum(one.numel() for one in found)
    if vec.ndim != 1 or vec.numel() < total:
        raise errors.ValueError(f"vector_to_parameters: the vector has shape {list(vec.shape)}, expected [{total}]")
    with no_grad():
        for one in found:
            part = _hlx.narrow(vec, 0, start, one.numel())
            _hlx.copy_(one, _hlx.reshape(part, list(one.shape)))
            start += one.numel()
