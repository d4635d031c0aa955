"""The state of a module: `state_dict` and `load_state_dict`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx._modes import no_grad
from hlx.nn._hooks import Hook, RemovableHandle
from hlx.nn.modules._tree import Tree
from hlx.nn.parameter import Parameter


class IncompatibleKeys(NamedTuple):
    """The keys that a module has and a state has not, and the other way round."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


_EXTRA = "_extra_state"


class State(Tree):
    """Adds the state to what a module holds."""

    _state_dict_pre_hooks: dict[int, Hook]
    _state_dict_hooks: dict[int, Hook]
    _load_state_dict_pre_hooks: dict[int, Hook]
    _load_state_dict_post_hooks: dict[int, Hook]

    def __init__(self) -> None:
        super().__init__()
        self._state_dict_pre_hooks, self._state_dict_hooks = {}, {}
        self._load_state_dict_pre_hooks, self._load_state_dict_post_hooks = {}, {}

    def get_extra_state(self) -> Any:
        """What a class of your own has in its state beside tensors, under the key `_extra_state`."""
        raise errors.NotImplementedError(f"{type(self).__name__}: get_extra_state is not defined")

    def set_extra_state(self, state: Any) -> None:
        """Takes what `get_extra_state` returned."""
        raise errors.NotImplementedError(f"{type(self).__name__}: set_extra_state is not defined")

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before this module's part of a `state_dict` is made."""
        return RemovableHandle(self._state_dict_pre_hooks, Hook(hook))

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)`, which may change the state, when it is made."""
        return RemovableHandle(self._state_dict_hooks, Hook(hook))

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls a hook before this module loads its part of a state, which it may change.

        It is `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)`.
        """
        return RemovableHandle(self._load_state_dict_pre_hooks, Hook(hook))

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` when a state is loaded; it may change the lists of keys."""
        return RemovableHandle(self._load_state_dict_post_hooks, Hook(hook))

    def _own_state(self) -> dict[str, Tensor]:
        """The parameters and persistent buffers of this module alone."""
        kept = {name: value for name, value in self._buffers.items() if name not in self._non_persistent_buffers_set}
        return {name: value for name, value in {**self._parameters, **kept}.items() if value is not None}

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        for name, value in self._own_state().items():
            destination[prefix + name] = value if keep_vars else value.detach()
        if type(self).get_extra_state is not State.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """The parameters and persistent buffers by their dotted names.

        The tensors share the memory of the module's, without the tape unless `keep_vars` is true.
        """
        found: dict[str, Any] = {} if destination is None else destination
        for hook in list(self._state_dict_pre_hooks.values()):
            hook.call(self, prefix, keep_vars)
        self._save_to_state_dict(found, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in list(self._state_dict_hooks.values()):
            hook.call(self, found, prefix, {})
        return found

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copies a state into the parameters and buffers, and returns the keys that did not fit.

        With `assign` the state's tensors take the place of the module's. PyTorch's tensors and arrays are taken,
        too. Raises TypeError if the state is no mapping, RuntimeError for tensors of other shapes and, if `strict`,
        for keys that do not fit.
        """
        if not isinstance(state_dict, Mapping):
            raise errors.TypeError(f"load_state_dict: the state is {type(state_dict).__name__}, expected a mapping")
        missing: list[str] = []
        unexpected: list[str] = []
        wrong: list[str] = []
        state = dict(state_dict)
        metadata = {"assign_to_params_buffers": assign}
        self._load_below(state, "", metadata, strict, missing, unexpected, wrong)
        if strict:
            wrong = [*_named("missing keys", missing), *_named("unexpected keys", unexpected), *wrong]
        if wrong:
            raise errors.RuntimeError(f"load_state_dict of {type(self).__name__}: {'; '.join(wrong)}")
        return IncompatibleKeys(missing, unexpected)

    def _load_below(self, state: dict[str, Any], prefix: str, *arguments: Any) -> None:
        for hook in list(self._load_state_dict_pre_hooks.values()):
            hook.call(self, state, prefix, *arguments)
        self._load_from_state_dict(state, prefix, *arguments)
        for name, module in self._modules.items():
            if module is not None:
                module._load_below(state, f"{prefix}{name}.", *arguments)
        incompatible = IncompatibleKeys(arguments[2], arguments[3])
        for hook in list(self._load_state_dict_post_hooks.values()):
            hook.call(self, incompatible)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Loads what this module alone has; keys that do not fit and errors go into the lists."""
        own = self._own_state()
        for name, value in own.items():
            key = prefix + name
            if key not in state_dict:
                missing_keys.append(key)
            elif (error := self._load_one(name, value, state_dict[key], local_metadata)) is not None:
                error_msgs.append(f"{key} {error}")
        takes_extra = type(self).set_extra_state is not State.set_extra_state
        if takes_extra and prefix + _EXTRA in state_dict:
            self.set_extra_state(state_dict[prefix + _EXTRA])
        elif takes_extra:
            missing_keys.append(prefix + _EXTRA)
        known = {*own, _EXTRA} if takes_extra else set(own)
        for key in state_dict:
            if key.startswith(prefix):
                first, dot, _ = key[len(prefix) :].partition(".")
                if first not in (self._modules if dot else known):
                    unexpected_keys.append(key)

    def _load_one(self, name: str, value: Tensor, given: Any, metadata: dict[str, Any]) -> str | None:
        assign = metadata.get("assign_to_params_buffers", False)
        try:
            found = given if isinstance(given, Tensor) else _hlx.tensor(given, None, value.device)
        except errors.Error as error:
            return f"is no tensor: {error}"
        # A number that was saved with one dimension is one all the same.
        if value.ndim == 0 and list(found.shape) == [1]:
            found = found.reshape(())
        if found.shape != value.shape:
            return f"has shape {list(found.shape)}, expected {list(value.shape)}"
        with no_grad():
            if not assign:
                _hlx.copy_(value.detach(), _hlx.to_dtype(_hlx.to(found, value.device), value.dtype))
            elif isinstance(value, Parameter):
                kept = isinstance(found, Parameter) and found.requires_grad == value.requires_grad
                self._parameters[name] = found if kept else Parameter(found, value.requires_grad)  # type: ignore[assignment]
            else:
                self._buffers[name] = found
        return None


def _named(what: str, keys: list[str]) -> list[str]:
    return [f"{what} {', '.join(keys)}"] if keys else []
