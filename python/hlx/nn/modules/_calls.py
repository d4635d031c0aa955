"""The call of a module: `forward`, with the hooks around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hlx import errors
from hlx.nn._hooks import BackwardHooks, Hook, RemovableHandle
from hlx.nn.modules._states import State


def _undefined(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise errors.NotImplementedError(f"{type(self).__name__}: forward is not defined")


class Called(State):
    """Adds the call to what a module holds."""

    _forward_pre_hooks: dict[int, Hook]
    _forward_hooks: dict[int, Hook]
    _backward_pre_hooks: dict[int, Hook]
    _backward_hooks: dict[int, Hook]

    def __init__(self) -> None:
        super().__init__()
        self._forward_pre_hooks, self._forward_hooks = {}, {}
        self._backward_pre_hooks, self._backward_hooks = {}, {}

    #: Computes the module's result; a class of your own defines it.
    forward: Callable[..., Any] = _undefined

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not (self._forward_pre_hooks or self._forward_hooks or self._backward_hooks or self._backward_pre_hooks):
            return self.forward(*args, **kwargs)
        return self._call_with_hooks(args, kwargs)

    def _call_with_hooks(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for hook in list(self._forward_pre_hooks.values()):
            args, kwargs = _before(self, hook, args, kwargs)
        back = None
        if self._backward_hooks or self._backward_pre_hooks:
            hooks = list(self._backward_pre_hooks.values()), list(self._backward_hooks.values())
            back = BackwardHooks(self, *hooks)
            args = back.enter(args)
        output = self.forward(*args, **kwargs)
        for hook in list(self._forward_hooks.values()):
            with_kwargs = (kwargs,) if hook.with_kwargs else ()
            returned = hook.call(self, args, *with_kwargs, output)
            output = output if returned is None else returned
        return output if back is None else back.leave(output)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, args)` before `forward`; what it returns, if not None, takes the arguments' place.

        With `with_kwargs` it is `hook(module, args, kwargs)`, which returns both or None.
        """
        return RemovableHandle(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Calls `hook(module, args, output)` after `forward`; what it returns, if not None, takes the output's place.

        With `with_kwargs` it is `hook(module, args, kwargs, output)`. `always_call=True` is refused.
        """
        if always_call:
            raise errors.NotImplementedError("register_forward_hook: always_call is True, expected False")
        return RemovableHandle(self._forward_hooks, Hook(hook, with_kwargs), prepend)

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` before the module's backward pass; it may return other gradients."""
        return RemovableHandle(self._backward_pre_hooks, Hook(hook), prepend)

    def register_full_backward_hook(
        self, hook: Callable[[Any, Any, Any], Any], prepend: bool = False
    ) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` when the gradients of the inputs are computed.

        Both are tuples, with None for what has no gradient. What it returns, if not None, takes the place of the
        inputs' gradients.
        """
        return RemovableHandle(self._backward_hooks, Hook(hook), prepend)


def _before(
    module: Called, hook: Hook, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if not hook.with_kwargs:
        returned = hook.call(module, args)
        if returned is None:
            return args, kwargs
        return (returned if isinstance(returned, tuple) else (returned,)), kwargs
    returned = hook.call(module, args, kwargs)
    if returned is None:
        return args, kwargs
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise errors.RuntimeError(
            f"forward pre-hook: it returned {type(returned).__name__}, expected None or a tuple of args and kwargs"
        )
    return returned
