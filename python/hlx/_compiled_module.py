"""`hlx.compile` of a module: its forward and backward passes are recorded, and replayed."""

from __future__ import annotations

import contextlib
import copy
import threading
import weakref
from collections.abc import Hashable, Iterator, Sequence
from typing import Any

from hlx import _hlx, errors
from hlx._compile import _Arguments, _copied, _joined, _Recording, _recording
from hlx._hlx import Tensor
from hlx.autograd import Function
from hlx.nn.modules.module import Module

__all__ = ["CompiledModule"]


class _Call:
    """One call that was replayed, until its backward pass: the graph's memory holds what that needs."""

    def __init__(self, passes: _Passes) -> None:
        self.passes, self.run = passes, passes.run
        self.needs_backward = True


@contextlib.contextmanager
def _leaves_of_their_own(parameters: Sequence[Tensor]) -> Iterator[None]:
    """Has parameters be other leaves with the same memory, without a gradient and hooks.

    Those of a native model are what its layers read: only their gradients are put aside.
    """
    held, natives = [], [parameter for parameter in parameters if hasattr(parameter, "_owner")]
    gradients = [parameter.grad for parameter in natives]
    for parameter in natives:
        parameter.grad = None
    for parameter in parameters:
        if not hasattr(parameter, "_owner"):
            before = _hlx.detach(parameter)
            _hlx.become(before, parameter)
            held.append((parameter, before))
            _hlx.become(parameter, _hlx.detach(parameter).requires_grad_())
    try:
        yield
    finally:
        for parameter, before in held:
            _hlx.become(parameter, before)
        for parameter, gradient in zip(natives, gradients, strict=True):
            parameter.grad = gradient


class _Passes:
    """The recordings of a module's forward pass and of the gradients of its results."""

    def __init__(self, module: Module, arguments: Any, inputs: list[Tensor], kept: list[Any]) -> None:
        #: What the numbers of a key stand for, so that nothing else gets them.
        self._kept = kept
        places = [_hlx.clone(_hlx.contiguous(_hlx.detach(x))) for x in inputs]
        for place, x in zip(places, inputs, strict=True):
            if x.requires_grad:
                place.requires_grad_()
        self.places = places
        self.run = 0
        self.pending: weakref.ref[_Call] | None = None
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        device = next((x.device for x in [*inputs, *self.parameters]), _hlx.get_default_device())
        self._forward, self._backward = _Recording(device), _Recording(device)
        split = _Arguments()

        def forward() -> Any:
            positional, named = _joined(arguments, places)
            return split.outputs(module(*positional, **named))

        self._upstream: list[Tensor] = []
        self._gradients: list[Tensor | None] = []
        with _leaves_of_their_own(self.parameters):
            self.results = self._forward.record(forward)
            self._is_differentiable = [y.requires_grad for y in split.tensors]
            if any(self._is_differentiable):
                self._record_backward([y for y in split.tensors if y.requires_grad])
        # The tape ends here: each replay has its own place on it.
        self.outputs = [_hlx.detach(y) for y in split.tensors]

    def _record_backward(self, roots: list[Tensor]) -> None:
        self._upstream = [_hlx.zeros(y.device, list(y.shape), y.dtype) for y in roots]
        self._backward.record(lambda: _hlx.backward(roots, list(self._upstream), False, False))
        for leaf in [*self.parameters, *(x for x in self.places if x.requires_grad)]:
            self._gradients.append(None if leaf.grad is None else _hlx.detach(leaf.grad))
            leaf.grad = None

    def is_waiting(self) -> bool:
        """Whether the backward pass of the last replay may still come."""
        call = self.pending() if self.pending is not None else None
        return call is not None and call.needs_backward

    def replay(self, inputs: list[Tensor]) -> Any:
        """The results for other inputs, on the tape."""
        for place, x in zip(self.places, inputs, strict=True):
            _copied(place, x)
        self._forward.replay()
        self.run += 1
        results = [_hlx.clone(y) for y in self.outputs]
        if self._upstream:
            call = _Call(self)
            self.pending = weakref.ref(call)
            given = [x for x in inputs if x.requires_grad]
            taped = [y for y, on in zip(results, self._is_differentiable, strict=True) if on]
            made = iter(_Replayed.apply(call, taped, *self.parameters, *given))
            results = [next(made) if on else y for y, on in zip(results, self._is_differentiable, strict=True)]
        return _joined(self.results, results)

    def gradients(self, call: _Call, upstream: tuple[Tensor, ...]) -> list[Tensor | None]:
        """The gradients of a call's parameters and inputs."""
        if call.run != self.run or not call.needs_backward:
            raise errors.RuntimeError("backward: the results of a compiled module are differentiated once")
        for place, given in zip(self._upstream, upstream, strict=True):
            _copied(place, given)
        self._backward.replay()
        call.needs_backward = False
        return [None if g is None else _hlx.clone(g) for g in self._gradients]


class _Replayed(Function):
    """A replay's place on the tape."""

    @staticmethod
    def forward(ctx: Any, call: _Call, results: list[Tensor], *sources: Tensor) -> tuple[Tensor, ...]:
        ctx.call = call
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Any, ...]:
        call: _Call = ctx.call
        return (None, None, *call.passes.gradients(call, upstream))


class CompiledModule(Module):
    """A module whose passes are replayed; `hlx.compile(module)` makes it.

    It shares the module's parameters, whose names in `state_dict` begin with `_orig_mod.` as in PyTorch, and has the
    module's attributes.
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._orig_mod = module
        self.training = module.training
        self.__dict__["_recorded"] = {}
        self.__dict__["_lock"] = threading.RLock()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the module: as it is at first, then by replay."""
        module: Module = self._orig_mod
        if getattr(_recording, "before", None) is not None:
            return module(*args, **kwargs)
        split = _Arguments()
        arguments = split.inputs((args, kwargs))
        key = (tuple(split.key), *_state_of(module))
        with self._lock:
            recorded: dict[Hashable, _Passes | None] = self._recorded
            if key not in recorded:
                recorded[key] = None
                return module(*args, **kwargs)
            passes = recorded[key]
            if passes is None:
                kept = [*module.modules(), *module.parameters(), *module.buffers()]
                passes = recorded[key] = _Passes(module, arguments, split.tensors, kept)
            if passes.is_waiting():
                # Its memory is still needed.
                return module(*args, **kwargs)
            return passes.replay(split.tensors)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            module = self.__dict__.get("_modules", {}).get("_orig_mod")
            if module is None or name == "_orig_mod":
                raise
            return getattr(module, name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return CompiledModule, (self._orig_mod,)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledModule:
        return CompiledModule(copy.deepcopy(self._orig_mod, memo))


def _state_of(module: Module) -> tuple[Hashable, ...]:
    """What decides which launches a call makes, apart from its arguments."""
    modules = tuple((id(part), part.training) for part in module.modules())
    tensors = (*module.parameters(), *module.buffers())
    held = tuple((id(x), x.device, x.dtype, tuple(x.shape), x.requires_grad, x.data_ptr()) for x in tensors)
    return modules, held, _hlx.is_grad_enabled(), _hlx.get_default_device(), _hlx.default_dtype()
