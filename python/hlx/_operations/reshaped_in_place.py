"""Views in place: the tensor becomes a view of itself with other dimensions; no element moves."""

from hlx import _hlx, errors
from hlx._operations import movement
from hlx._operations._register import method
from hlx._operations._types import Tensor


def _become(name: str, input: Tensor, view: Tensor) -> Tensor:
    if input.requires_grad and input.is_leaf and _hlx.is_grad_enabled():
        raise errors.RuntimeError(f"{name}: the tensor is a leaf that requires a gradient; use {name[:-1]}")
    return _hlx.become(input, view)


@method
def squeeze_(input: Tensor, dim: int | tuple[int, ...] | None = None) -> Tensor:
    """Removes dimensions of extent 1 from the tensor itself, as `squeeze`; raises RuntimeError for a parameter."""
    return _become("squeeze_", input, movement.squeeze(input) if dim is None else movement.squeeze(input, dim))


@method
def unsqueeze_(input: Tensor, dim: int) -> Tensor:
    """Gives the tensor itself a dimension of extent 1, as `unsqueeze`; raises RuntimeError for a parameter."""
    return _become("unsqueeze_", input, movement.unsqueeze(input, dim))


@method("transpose_", "swapaxes_", "swapdims_")
def transpose_(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two dimensions of the tensor itself, as `transpose`; raises RuntimeError for a parameter."""
    return _become("transpose_", input, movement.transpose(input, dim0, dim1))


@method
def t_(input: Tensor) -> Tensor:
    """Swaps both dimensions of the tensor itself, as `t`; raises RuntimeError for a parameter."""
    return _become("t_", input, movement.t(input))
