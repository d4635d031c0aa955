"""The tensors that a module registers: parameters, and buffers."""

from typing import Any

from hlx import _hlx
from hlx._exchange import rebuilt
from hlx._hlx import Tensor

__all__ = ["Buffer", "Parameter"]


def _rebuilt(kind: type[Tensor], data: bytes, device: str, requires_grad: bool, attributes: dict[str, Any]) -> Tensor:
    """A parameter or buffer from its pickle."""
    made = _wrapped(kind, rebuilt(data, device, False), requires_grad)
    made.__dict__.update(attributes)
    return made


def _wrapped(kind: type[Tensor], data: Tensor, requires_grad: bool) -> Tensor:
    made = Tensor.__new__(kind, data)
    return made.requires_grad_() if requires_grad else made


class _Registered(Tensor):
    """A tensor whose class is kept by pickle and deepcopy."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = _hlx.to_safetensors({"tensor": _hlx.detach(self)})
        return _rebuilt, (type(self), data, str(self.device), self.requires_grad, dict(self.__dict__))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made = _wrapped(type(self), _hlx.clone(_hlx.detach(self)), self.requires_grad)
        made.__dict__.update(self.__dict__)
        if self.requires_grad and self.grad is not None:
            made.grad = _hlx.clone(_hlx.detach(self.grad))
        memo[id(self)] = made
        return made


class Parameter(_Registered):
    """A tensor that a module registers as its parameter when it is assigned to an attribute.

    It shares the memory of the tensor that is given, and requires a gradient unless told otherwise.

    >>> hlx.nn.Parameter(hlx.ones(2))
    Parameter containing:
    tensor([1., 1.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> "Parameter":
        """Makes a parameter of a tensor's memory; without a tensor, an empty one."""
        made = super().__new__(cls, _hlx.tensor([]) if data is None else data)
        return made.requires_grad_() if requires_grad else made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    __str__ = __repr__


class Buffer(_Registered):
    """A tensor that a module registers as a buffer when it is assigned to an attribute.

    It shares the memory of the tensor that is given. With `persistent=False` it is not in the `state_dict`.

    >>> module = hlx.nn.Module()
    >>> module.steps = hlx.nn.Buffer(hlx.zeros(1))
    >>> module.state_dict()
    {'steps': tensor([0.])}
    """

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> "Buffer":
        """Makes a buffer of a tensor's memory; without a tensor, an empty one."""
        made = super().__new__(cls, _hlx.tensor([]) if data is None else data)
        made.persistent = persistent
        return made
