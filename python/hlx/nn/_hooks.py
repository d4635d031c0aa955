"""Hooks: functions that a module calls before and after its own, forward and backward."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hlx._hlx import Tensor
from hlx.autograd import Function

_NUMBERS = itertools.count()


class Hook:
    """A hook with what was said when it was registered."""

    call: Callable[..., Any]
    with_kwargs: bool

    __slots__ = ("call", "with_kwargs")

    def __init__(self, call: Callable[..., Any], with_kwargs: bool = False) -> None:
        """Keeps both."""
        self.call, self.with_kwargs = call, with_kwargs


class RemovableHandle:
    """What `register_..hook` returns: `remove()` takes the hook away, as does the end of a `with`."""

    id: int

    def __init__(self, hooks: dict[int, Hook], hook: Hook, prepend: bool = False) -> None:
        """Puts a hook behind the others, or before them."""
        self._hooks, self.id = hooks, next(_NUMBERS)
        others = dict(hooks) if prepend else {}
        if prepend:
            hooks.clear()
        hooks[self.id] = hook
        hooks.update(others)

    def remove(self) -> None:
        """Takes the hook away; nothing happens if it is gone."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.remove()


class _Watched(Function):
    """Passes tensors on, and their gradients through a function of all of them."""

    @staticmethod
    def forward(ctx: Any, watch: Callable[[tuple[Tensor | None, ...]], Any], *tensors: Tensor) -> Any:
        ctx.watch = watch
        ctx.set_materialize_grads(False)
        return tuple(tensor.detach() for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> Any:
        return (None, *ctx.watch(gradients))


def _watched(values: Any, watch: Callable[[tuple[Tensor | None, ...]], Any]) -> tuple[Any, bool]:
    """The tensors with gradients among values, watched together; and whether there are any."""
    listed = [values] if isinstance(values, Tensor) else list(values)
    places = [i for i, value in enumerate(listed) if isinstance(value, Tensor) and value.requires_grad]
    if not places:
        return values, False

    def spread(gradients: tuple[Tensor | None, ...]) -> list[Tensor | None]:
        given: list[Tensor | None] = [None] * len(listed)
        for i, gradient in zip(places, gradients, strict=True):
            given[i] = gradient
        changed = watch(tuple(given))
        return [changed[i] for i in places]

    for i, tensor in zip(places, _Watched.apply(spread, *(listed[i] for i in places)), strict=True):
        listed[i] = tensor
    if isinstance(values, Tensor):
        return listed[0], True
    return (tuple(listed) if isinstance(values, tuple) else listed), True


class BackwardHooks:
    """One call of a module with hooks on its way back: gradients of the output come first, those of the input last."""

    def __init__(self, module: Any, before: list[Hook], after: list[Hook]) -> None:
        """Keeps the hooks of a call."""
        self._module, self._before, self._after = module, before, after
        self._upstream: tuple[Tensor | None, ...] = ()
        self._has_inputs = False
        self._n_inputs = 0

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Watches the inputs."""
        self._n_inputs = len(args)
        watched, self._has_inputs = _watched(args, self._at_inputs)
        return watched  # type: ignore[no-any-return]

    def leave(self, output: Any) -> Any:
        """Watches the outputs, a tensor or a sequence of them; others are passed on."""
        if not isinstance(output, Tensor | tuple | list):
            return output
        return _watched(output, self._at_outputs)[0]

    def _at_outputs(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        for hook in self._before:
            gradients = _replaced(hook.call(self._module, gradients), gradients)
        self._upstream = gradients
        if not self._has_inputs:
            for hook in self._after:
                hook.call(self._module, (None,) * self._n_inputs, gradients)
        return gradients

    def _at_inputs(self, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
        for hook in self._after:
            gradients = _replaced(hook.call(self._module, gradients, self._upstream), gradients)
        return gradients


def _replaced(returned: Any, gradients: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    if returned is None:
        return gradients
    return returned if isinstance(returned, tuple) else (returned,)
