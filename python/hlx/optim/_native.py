"""Optimizers whose step is the native layer's: one launch over the flat buffers of all parameters."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from hlx import _flat, _hlx, errors
from hlx._compile import before_replay
from hlx._hlx import Tensor
from hlx.optim import _checks
from hlx.optim._packing import unpacked
from hlx.optim.optimizer import Closure, Group, Optimizer, Parameters

FLOAT32 = _hlx.dtype("float32")


class NativeState(Protocol):
    """What `hlx._hlx.OptimizerState` has."""

    @property
    def steps(self) -> int:
        """The steps taken."""

    def step(self, lr: float, settings: dict[str, Any], groups: list[tuple[float, float]]) -> None:
        """Updates all parameters; each group has a factor of the rate and a weight decay."""

    def prepare(self, lr: float, settings: dict[str, Any], groups: list[tuple[float, float]]) -> None:
        """Begins a step: uploads its numbers."""

    def update(self) -> None:
        """Launches the step that `prepare` began."""

    def zero_grad(self) -> None:
        """Removes all gradients."""

    def buffers(self) -> list[str]:
        """The names of the state's buffers, such as `mean`."""

    def state(self) -> dict[str, Tensor]:
        """The state's tensors, by the names of a checkpoint: `mean/NAME`."""

    def load_state(self, tensors: dict[str, Tensor], step: int) -> None:
        """Restores a state; what is not given is zeros."""

    def holds_gradients(self, tensors: Sequence[Tensor]) -> bool:
        """Whether these are all that hold a gradient here."""

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Scales all gradients down to a norm and returns their norm before."""

    def clip_grad_value_(self, clip_value: float) -> None:
        """Holds each element of all gradients within a limit."""

    def parameters_digest(self) -> str:
        """The SHA-256 over the parameters."""

    def digest(self) -> str:
        """The SHA-256 over the state."""


def new_state(
    kind: str, parameters: list[tuple[str, Tensor]], settings: dict[str, Any], groups: list[dict[str, Any]]
) -> NativeState:
    """Makes the native state, which moves values and gradients into flat buffers; the one place that names it.

    The parameters of a language model are in such buffers already, and stay there.
    """
    owners = [getattr(parameter, "_owner", None) for _, parameter in parameters]
    if any(owner is not owners[0] for owner in owners):
        raise errors.ValueError(
            f"{kind}: some parameters belong to a language model and others do not; make an optimizer for each"
        )
    return _hlx.OptimizerState(kind, parameters, settings, groups, owners[0])


class NativeOptimizer(Optimizer):
    """The base of HLX's own optimizers.

    A group has its own `lr` and `weight_decay`. All other numbers are one per optimizer; they may change between
    steps, for all groups alike.
    """

    defaults: dict[str, Any]
    param_groups: list[Group]
    #: The native layer's name of the rule; an instance may have another.
    _kind: str
    #: The state's buffers: HLX's names, and PyTorch's.
    _buffers: ClassVar[dict[str, str]]
    #: The numbers of a group that the rule reads, besides the rate and the weight decay.
    _settings: ClassVar[tuple[str, ...]]
    #: Those of them that decide which buffers the state has, by being zero or not.
    _shaping: ClassVar[tuple[str, ...]] = ()

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        super().__init__(params, defaults)
        self._build()

    def _trained(self) -> Iterator[tuple[str, Tensor, int]]:
        """The parameters that require a gradient, with their names and groups."""
        place = 0
        for number, group in enumerate(self.param_groups):
            names = group.get("param_names")
            for index, parameter in enumerate(group["params"]):
                if parameter.requires_grad:
                    # Those of a language model have their names there.
                    name = getattr(parameter, "_full_name", None) or (names[index] if names else str(place))
                    yield name, parameter, number
                place += 1

    def _build(self) -> None:
        """Makes the native state of the parameters that are trained now, without steps."""
        self._tell_models()
        trained = list(self._trained())
        self._check_trained(trained)
        members: dict[tuple[int, str], list[int]] = {}
        for index, (name, parameter, number) in enumerate(trained):
            members.setdefault((number, self._decay_of(name, parameter)), []).append(index)
        #: The native layer's groups: the place of the group here, and which of its numbers is the weight decay.
        self._active = list(members)
        self._parameters = [(name, parameter) for name, parameter, _ in trained]
        self._flags = self._requiring()
        _, settings, numbers = self._numbers()
        self._shape = [bool(settings[name]) for name in self._shaping]
        groups = [
            {"parameters": indices, "lr_factor": lr_factor, "weight_decay": weight_decay}
            for indices, (lr_factor, weight_decay) in zip(members.values(), numbers, strict=True)
        ]
        self._native = new_state(self._kind, self._parameters, settings, groups)
        _flat.register(self)

    def _tell_models(self) -> None:
        """Has language models know which of their parameters are frozen now."""
        members = (parameter for group in self.param_groups for parameter in group["params"])
        for reference in {id(one): one for one in (getattr(each, "_module", None) for each in members)}.values():
            model = None if reference is None else reference()
            if model is not None:
                model._follow_flags()

    def _decay_of(self, name: str, parameter: Tensor) -> str:
        """Which number of its group is the weight decay of a parameter."""
        return "weight_decay"

    def _check_trained(self, trained: list[tuple[str, Tensor, int]]) -> None:
        if not trained:
            raise errors.ValueError(f"{self._name}: no parameter requires a gradient")
        device, seen = trained[0][1].device, set()
        for name, parameter, _ in trained:
            if parameter.dtype != FLOAT32:
                raise errors.TypeError(f"{self._name}: parameter {name} is {parameter.dtype}, expected hlx.float32")
            if parameter.device != device:
                raise errors.ValueError(
                    f"{self._name}: parameter {name} is on {parameter.device}, expected {device} as the first one"
                )
            if name in seen:
                raise errors.ValueError(f"{self._name}: two parameters are named {name}")
            seen.add(name)

    def _requiring(self) -> list[bool]:
        return [parameter.requires_grad for group in self.param_groups for parameter in group["params"]]

    def _numbers(self) -> tuple[float, dict[str, Any], list[tuple[float, float]]]:
        """The rate, the rule's numbers, and the factor and weight decay of each of the native layer's groups."""
        groups = [self.param_groups[number] for number, _ in self._active]
        settings = {name: groups[0][name] for name in self._settings}
        for (number, _), group in zip(self._active[1:], groups[1:], strict=True):
            for name, value in settings.items():
                if group[name] != value:
                    raise errors.ValueError(
                        f"{self._name}: group {number} has {name} {group[name]}, expected {value} as in group "
                        f"{self._active[0][0]}: only lr and weight_decay are numbers of a group"
                    )
        rates = [_checks.at_least(f"{self._name}: lr", group["lr"]) for group in groups]
        # A rate of zero has no factors, so that the first other rate is the base.
        base = next((rate for rate in rates if rate), 1.0)
        decays = [float(group[decay]) for group, (_, decay) in zip(groups, self._active, strict=True)]
        settings["weight_decay"] = float(groups[0]["weight_decay"])
        factors = [rate / base for rate in rates]
        return (base if any(rates) else 0.0), settings, list(zip(factors, decays, strict=True))

    def _check_group(self, group: Group) -> None:
        _checks.at_least(f"{self._name}: lr", group["lr"])
        _checks.at_least(f"{self._name}: weight_decay", group["weight_decay"])
        self._check_settings(group)

    def _check_settings(self, group: Group) -> None:
        """Fails for numbers of the rule that are out of range."""

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group of parameters, whose state begins with zeros; other numbers than rate and decay are the same.

        After the first step the group joins at the optimizer's count of steps, with Adam's bias corrections of that
        step; PyTorch counts anew for it. Raises ValueError for a parameter that the optimizer has already.
        """
        before = dict(vars(self), param_groups=self.param_groups[:])
        self._add_group(param_group)
        try:
            self._rebuild()
        except errors.Error:
            vars(self).update(before)
            raise

    def step(self, closure: Closure | None = None) -> Any:
        """Updates all parameters by one launch; `closure` computes the loss anew and is called first.

        Raises RuntimeError if a parameter that requires a gradient has none.
        """
        loss = self._loss(closure)
        lr, settings, groups = self._numbers()
        if self._is_other(settings):
            self._rebuild()
            lr, settings, groups = self._numbers()
        if before_replay(functools.partial(self._prepare, self._native)):
            # hlx.compile records the launches; a replay reads the rate and the other numbers anew.
            self._native.update()
        else:
            self._native.step(lr, settings, groups)
        return loss

    def _prepare(self, recorded: NativeState) -> None:
        """Begins the step of a replay."""
        if recorded is not self._native:
            raise errors.RuntimeError(
                f"{self._name}.step: its parameters or buffers are others than when the step was compiled; "
                "compile it anew"
            )
        recorded.prepare(*self._numbers())

    def _rebuild(self) -> None:
        """Follows parameters and buffers that are new or gone since the last step; new ones begin with zeros."""
        state, steps = dict(self.state), self._native.steps
        self._build()
        if steps:
            self._load(state, steps)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Removes the gradients of all parameters, or with `set_to_none=False` fills them with zeros."""
        if set_to_none:
            self._native.zero_grad()
        super().zero_grad(set_to_none)

    def clip_grad_norm_(self, max_norm: float) -> Tensor:
        """Scales all gradients by `min(1, max_norm / (norm + 1e-6))` and returns their norm before.

        It is `hlx.nn.utils.clip_grad_norm_` of all trained parameters, by one launch over their flat buffer.
        """
        return self._native.clip_grad_norm_(max_norm)

    def clip_grad_value_(self, clip_value: float) -> None:
        """Holds each element of all gradients within `[-clip_value, clip_value]`, by one launch."""
        self._native.clip_grad_value_(clip_value)

    def parameters_digest(self) -> str:
        """The SHA-256 over names, shapes and values of the trained parameters, as `hlx digest` states it of a run.

        The names are those of `params=model.named_parameters()`, else the places of the parameters.
        """
        return self._native.parameters_digest()

    def digest(self) -> str:
        """The SHA-256 over the state and the number of steps."""
        return self._native.digest()

    @property
    def state(self) -> Mapping[Tensor, dict[str, Any]]:
        """The state of each trained parameter after the first step, under PyTorch's names: a copy of the tensors."""
        steps = self._native.steps
        found: dict[Tensor, dict[str, Any]] = {}
        if steps:
            tensors = self._native.state()
            found = {parameter: {"step": steps} for _, parameter in self._parameters}
            by_name = dict(self._parameters)
            for key, tensor in tensors.items():
                buffer, name = key.split("/", 1)
                known_as = self._known_as(buffer, name, by_name[name])
                if known_as is not None:
                    found[by_name[name]][known_as] = tensor
        return found

    def _known_as(self, buffer: str, name: str, parameter: Tensor) -> str | None:
        """PyTorch's name of a buffer of the state for a parameter; None where it is not used."""
        return self._buffers[buffer]

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned, of HLX or (with its tensors converted) of PyTorch.

        Nothing is changed unless all of it fits. Raises ValueError for groups of other sizes.
        """
        # The native layer reads tensors of any device.
        state, groups = unpacked(self._name, state_dict, self.param_groups, moves=False)
        before = self.param_groups[:]
        # The numbers first: they decide which buffers the state has.
        self.param_groups[:] = groups
        try:
            for group in groups:
                self._check_group(group)
            self._set_state(state)
        except errors.Error:
            self.param_groups[:] = before
            raise

    def _set_state(self, state: dict[Any, dict[str, Any]]) -> None:
        known = [state[parameter] for _, parameter in self._parameters if parameter in state]
        steps = {self._steps_of(own) for own in known}
        if len(steps) > 1:
            raise errors.ValueError(f"{self._name}.load_state_dict: steps are {sorted(steps)}, expected one number")
        _, settings, _ = self._numbers()
        is_new = self._native.steps and not steps - {0}
        if is_new or self._is_other(settings):
            self._build()
        if steps - {0}:
            self._load(state, steps.pop())

    def _is_other(self, settings: dict[str, Any]) -> bool:
        """Whether parameters or buffers are others than those of the native state."""
        return self._requiring() != self._flags or [bool(settings[name]) for name in self._shaping] != self._shape

    def _steps_of(self, own: dict[str, Any]) -> int:
        """The steps of a parameter's state: PyTorch's SGD does not count them, but its momentum has begun."""
        step = own.get("step")
        if step is None:
            return 1 if own else 0
        return int(step.item() if isinstance(step, Tensor) else step)

    def _load(self, state: Mapping[Any, dict[str, Any]], steps: int) -> None:
        """Loads a state by parameters; what it does not have begins with zeros."""
        tensors = {}
        for buffer in self._native.buffers():
            for name, parameter in self._parameters:
                known_as = self._known_as(buffer, name, parameter)
                saved = state.get(parameter, {}).get(known_as or buffer)
                if saved is not None:
                    tensors[f"{buffer}/{name}"] = saved
        self._native.load_state(tensors, steps)

    def __setstate__(self, saved: dict[str, Any]) -> None:
        self.defaults, self.param_groups = saved["defaults"], saved["param_groups"]
        self.__dict__.update(saved["own"])
        self._start_hooks()
        self._build()
        self._set_state(saved["state"])

    def __getstate__(self) -> dict[str, Any]:
        own = {name: value for name, value in vars(self).items() if name in self._own}
        return {**super().__getstate__(), "own": own}

    #: Attributes of an instance beside those of the bases, which a pickle has.
    _own: ClassVar[tuple[str, ...]] = ()
