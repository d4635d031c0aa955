"""Limits on gradients."""

import math
from collections.abc import Iterable

from hlx import _flat, _hlx, errors
from hlx._hlx import Tensor
from hlx._modes import no_grad
from hlx._operations._types import FLOAT32

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _listed(tensors: Tensors) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _gradients(parameters: Tensors) -> list[Tensor]:
    return [one.grad for one in _listed(parameters) if one.grad is not None]


def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Computes the norm of all elements of several tensors, as the norm of their norms.

    `foreach` means nothing here.

    >>> hlx.nn.utils.get_total_norm([hlx.tensor([3.0]), hlx.tensor([4.0])])
    tensor(5.)
    """
    found = _listed(tensors)
    if not found:
        return _hlx.tensor(0.0)
    order = float(norm_type)
    with no_grad():
        norms = [_hlx.to(_hlx.norm(_hlx.to_dtype(one, FLOAT32), order, [], False), found[0].device) for one in found]
        total: Tensor = _hlx.norm(_hlx.stack(norms, 0), order, [], False)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise errors.RuntimeError(f"get_total_norm: the norm of order {order} is {total.item()}, expected a finite one")
    return total


def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients by `max_norm / (total_norm + 1e-6)` where that is below 1.

    >>> w = hlx.nn.Parameter(hlx.zeros(1))
    >>> w.grad = hlx.tensor([4.0])
    >>> hlx.nn.utils.clip_grads_with_norm_(w, 1.0, hlx.tensor(8.0))
    >>> w.grad
    tensor([0.5000])
    """
    with no_grad():
        scale = _hlx.clamp_max(_hlx.binary(float(max_norm), _hlx.binary(total_norm, 1e-6, "add"), "div"), 1.0)
        for gradient in _gradients(parameters):
            gradient.mul_(_hlx.to(scale, gradient.device))


def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients so that the norm of all of them is at most `max_norm`, and returns what it was.

    The gradients of all parameters of an optimizer, or of a language model, lie in one piece of memory: their norm of
    order 2 is one reduction, as in `hlx train`. Others have the norm of their norms. `foreach` means nothing here.

    >>> w = hlx.nn.Parameter(hlx.zeros(2))
    >>> w.grad = hlx.tensor([3.0, 4.0])
    >>> hlx.nn.utils.clip_grad_norm_(w, 1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    found = _listed(parameters)
    if norm_type == 2.0 and max_norm > 0.0 and not error_if_nonfinite:
        holder = _flat.holder_of([one for one in found if one.grad is not None])
        if holder is not None:
            return holder.clip_grad_norm_(max_norm)
    total = get_total_norm(_gradients(found), norm_type, error_if_nonfinite)
    clip_grads_with_norm_(found, max_norm, total)
    return total


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Brings every element of the gradients within [-clip_value, clip_value].

    >>> w = hlx.nn.Parameter(hlx.zeros(2))
    >>> w.grad = hlx.tensor([3.0, -0.5])
    >>> hlx.nn.utils.clip_grad_value_(w, 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    bound, found = float(clip_value), _listed(parameters)
    holder = _flat.holder_of([one for one in found if one.grad is not None]) if bound > 0.0 else None
    if holder is not None:
        holder.clip_grad_value_(bound)
        return
    with no_grad():
        for gradient in _gradients(found):
            gradient.clamp_(-bound, bound)
