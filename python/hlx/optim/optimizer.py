"""What all optimizers share: parameter groups, state, hooks."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hlx import _modes, errors
from hlx._hlx import Tensor
from hlx.optim._hooks import Hooks, RemovableHandle
from hlx.optim._packing import packed, unpacked

Group = dict[str, Any]
Parameters = Iterable[Tensor] | Iterable[tuple[str, Tensor]] | Iterable[Group]
Closure = Callable[[], Any]

__all__ = ["Optimizer"]


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A class's `step` with the hooks before and after it."""

    @functools.wraps(step)
    def hooked(self: Optimizer, *arguments: Any, **keywords: Any) -> Any:
        if self._is_stepping:
            # A subclass calls its base's step: the hooks are those of the whole.
            return step(self, *arguments, **keywords)
        for hook in tuple(self._pre_hooks.values()):
            changed = hook(self, arguments, keywords)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise errors.RuntimeError(f"step: a pre-hook returned {changed!r}, expected None or (args, kwargs)")
            arguments, keywords = changed
        self._is_stepping = True
        try:
            result = step(self, *arguments, **keywords)
        finally:
            self._is_stepping = False
        self._n_steps += 1
        for hook in tuple(self._post_hooks.values()):
            hook(self, arguments, keywords)
        return result

    return hooked


class Optimizer:
    """The base of all optimizers, for rules of your own too: `defaults` are the numbers of a group.

    A subclass defines `step`, which reads `param_groups` and keeps what it needs in `state`, by parameter.

    >>> class SignDescent(hlx.optim.Optimizer):
    ...     def step(self, closure=None):
    ...         with hlx.no_grad():
    ...             for group in self.param_groups:
    ...                 for p in group["params"]:
    ...                     p -= group["lr"] * p.grad.sign()
    >>> w = hlx.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = SignDescent([w], {"lr": 0.5})
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.detach()
    tensor([ 0.5000, -1.5000])
    """

    defaults: dict[str, Any]
    param_groups: list[Group]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        step = cls.__dict__.get("step")
        if step is not None:
            cls.step = _with_hooks(step)  # type: ignore[method-assign]

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise errors.TypeError(f"{self._name}: params is a tensor, expected an iterable of tensors or of dicts")
        self.defaults = defaults
        self.param_groups = []
        self._state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self._start_hooks()
        groups: list[Any] = list(params)
        if not groups:
            raise errors.ValueError(f"{self._name}: params is empty, expected at least one tensor")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self._add_group(group)

    def _start_hooks(self) -> None:
        #: Steps that this object has taken, by which a scheduler knows whether it is called too early.
        self._n_steps = 0
        self._is_stepping = False
        self._pre_hooks: Hooks = {}
        self._post_hooks: Hooks = {}

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def state(self) -> Mapping[Tensor, dict[str, Any]]:
        """What the optimizer keeps for each parameter."""
        return self._state

    def step(self, closure: Closure | None = None) -> Any:
        """Updates the parameters by their gradients; `closure` computes the loss anew and is called first."""
        raise errors.NotImplementedError(f"{self._name}: the class has no step")

    def _loss(self, closure: Closure | None) -> Any:
        if closure is None:
            return None
        with _modes.enable_grad():
            return closure()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or with `set_to_none=False` fills them with zeros."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if set_to_none:
                    parameter.grad = None
                else:
                    with _modes.no_grad():
                        parameter.grad.zero_()

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group of parameters; numbers that it does not name are the optimizer's defaults.

        Raises ValueError for a parameter that the optimizer has already.
        """
        self._add_group(param_group)

    def _add_group(self, param_group: Group) -> None:
        if not isinstance(param_group, dict):
            raise errors.TypeError(f"{self._name}: a group is {type(param_group).__name__}, expected a dict")
        group = {**param_group, **self._members(param_group)}
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        known = {id(p) for other in self.param_groups for p in other["params"]}
        own = [id(p) for p in group["params"]]
        if len(set(own)) < len(own) or known & set(own):
            raise errors.ValueError(f"{self._name}: a parameter is named twice, expected each once in one group")
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise errors.ValueError(f"{self._name}: some groups have names of parameters, expected all or none")
        self._check_group(group)
        self.param_groups.append(group)

    def _members(self, group: Group) -> Group:
        """The parameters of a group and, if they come with names, those."""
        if "params" not in group:
            raise errors.ValueError(f"{self._name}: a group has no params")
        given = group["params"]
        if isinstance(given, set):
            raise errors.TypeError(f"{self._name}: params is a set, which has no order; expected a list")
        members = [given] if isinstance(given, Tensor) else list(given)
        named = [isinstance(one, tuple) for one in members]
        found: Group = {"params": [one[1] if is_pair else one for one, is_pair in zip(members, named, strict=True)]}
        if any(named):
            if not all(named):
                raise errors.ValueError(f"{self._name}: some parameters have names, expected all or none")
            found["param_names"] = [one[0] for one in members]
        for parameter in found["params"]:
            if not isinstance(parameter, Tensor):
                kind = type(parameter).__name__
                raise errors.TypeError(f"{self._name}: a parameter is {kind}, expected a tensor")
            if not parameter.is_leaf:
                raise errors.ValueError(f"{self._name}: a parameter is the result of an operation, expected a leaf")
        return found

    def _check_group(self, group: Group) -> None:
        """Fails for numbers of a group that are out of range; a subclass says which."""

    def state_dict(self) -> dict[str, Any]:
        """The state by the places of parameters, and the groups: PyTorch's form."""
        return packed(self.state, self.param_groups)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, of HLX or (with its tensors converted) of PyTorch.

        Nothing is changed unless all of it fits. Raises ValueError for groups of other sizes.
        """
        state, groups = unpacked(self._name, state_dict, self.param_groups)
        self._set_state(state)
        self.param_groups[:] = groups

    def _set_state(self, state: dict[Any, dict[str, Any]]) -> None:
        self._state = defaultdict(dict, state)

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` before each step; it may return changed ones as a pair."""
        return RemovableHandle(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` after each step."""
        return RemovableHandle(self._post_hooks, hook)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "param_groups": self.param_groups, "state": dict(self.state)}

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.defaults, self.param_groups = saved["defaults"], saved["param_groups"]
        self._state = defaultdict(dict)
        self._start_hooks()
        self._set_state(saved["state"])

    def __repr__(self) -> str:
        lines = [f"{self._name} ("]
        for place, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {place}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name not in ("params", "param_names")]
        return "\n".join([*lines, ")"])
