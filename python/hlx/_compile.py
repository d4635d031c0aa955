"""`hlx.compile`: a function of tensors, or a module, whose launches are recorded once per shape and replayed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Hashable
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor

#: What is being recorded on a thread: what has to run before each replay.
_recording = threading.local()


def before_replay(function: Callable[[], None]) -> bool:
    """Has `function` run before each replay of the graph that this thread records; False if it records none.

    For what belongs to a step and is no launch, such as the upload of a learning rate.
    """
    listed: list[Callable[[], None]] | None = getattr(_recording, "before", None)
    if listed is None:
        return False
    listed.append(function)
    return True


class _Arguments:
    """How arguments or results are split into tensors and the rest, and what of them a recording holds for."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.key: list[Hashable] = []
        #: Tensors that the key knows by their ids: while they are kept, no others have these.
        self.kept: list[Tensor] = []

    def split(self, value: Any) -> Any:
        """The value with numbers in the place of tensors that change from call to call; parameters stay."""
        return self._split(value, lambda x: not x.requires_grad)

    def inputs(self, value: Any) -> Any:
        """The value with numbers in the place of all tensors except parameters."""
        return self._split(value, lambda x: True)

    outputs = inputs

    def _split(self, value: Any, changes: Callable[[Tensor], bool]) -> Any:
        if isinstance(value, Tensor):
            if not changes(value):
                # The graph reads and differentiates this very tensor.
                self.key.append(("parameter", id(value)))
                self.kept.append(value)
                return value
            self.key.append((tuple(value.shape), value.dtype, value.device, value.requires_grad))
            self.tensors.append(value)
            return _Place(len(self.tensors) - 1)
        if isinstance(value, (tuple, list)):
            self.key.append((type(value), len(value)))
            parts = [self._split(part, changes) for part in value]
            if hasattr(value, "_fields"):
                return type(value)(*parts)
            return type(value)(parts)
        if isinstance(value, dict):
            self.key.append((dict, *value))
            return {name: self._split(part, changes) for name, part in value.items()}
        try:
            hash(value)
        except TypeError:
            found = type(value).__name__
            raise errors.TypeError(
                f"compile: an argument is a {found}, expected tensors, and values that can be hashed"
            ) from None
        self.key.append((type(value), value))
        return value


class _Place:
    """The place of a tensor among the arguments or results."""

    def __init__(self, place: int) -> None:
        self.place = place


def _joined(value: Any, tensors: list[Tensor]) -> Any:
    """The value with tensors in the places of their numbers."""
    if isinstance(value, _Place):
        return tensors[value.place]
    if isinstance(value, (tuple, list)):
        parts = [_joined(part, tensors) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {name: _joined(part, tensors) for name, part in value.items()}
    return value


def _copied(place: Tensor, x: Tensor) -> None:
    """Copies a tensor's values into the memory of one that a recording reads."""
    _hlx.copy_(_hlx.detach(place), _hlx.detach(x))


class _Recording:
    """The launches of one function, with what belongs before each replay."""

    def __init__(self, device: _hlx.device) -> None:
        self._graph = _hlx.RecordedGraph(device)
        self._before: list[Callable[[], None]] = []
        self._counters: list[Tensor] = []
        self._replays = 0

    def record(self, function: Callable[[], Any]) -> Any:
        """Calls the function, whose launches are recorded, and returns its result."""
        _recording.before = self._before
        _hlx.note_counters()
        finished = False
        self._graph.start(others_wait=True)
        try:
            result = function()
            finished = True
        finally:
            self._counters = _hlx.noted_counters()
            _recording.before = None
            self._graph.end(finished)
        return result

    def __len__(self) -> int:
        return len(self._graph)

    def replay(self) -> None:
        """Launches what was recorded."""
        for prepare in self._before:
            prepare()
        for counter in self._counters:
            _hlx.set_counter(counter, self._replays)
        self._graph.replay(1)
        self._replays += 1


class _Recorded:
    """One recording: the tensors that inputs are copied to, the graph, and what it returns."""

    def __init__(self, function: Callable[..., Any], arguments: Any, inputs: list[Tensor]) -> None:
        self.inputs = [_hlx.clone(_hlx.contiguous(x)) for x in inputs]
        self.recording = _Recording(inputs[0].device if inputs else _hlx.get_default_device())
        outputs = _Arguments()

        def recorded() -> Any:
            positional, named = _joined(arguments, self.inputs)
            return outputs.split(_detached(function(*positional, **named)))

        self.results = self.recording.record(recorded)
        self.outputs = outputs.tensors

    def replay(self, inputs: list[Tensor]) -> Any:
        for place, x in zip(self.inputs, inputs, strict=True):
            _hlx.copy_(place, x)
        self.recording.replay()
        # The graph writes the same memory each time.
        return _joined(self.results, [_hlx.clone(y) for y in self.outputs])


def _detached(value: Any) -> Any:
    """The results without their history, which a replay does not make."""
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, (tuple, list)):
        parts = [_detached(part) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    if isinstance(value, dict):
        return {name: _detached(part) for name, part in value.items()}
    return value


def compile(function: Callable[..., Any] | None = None) -> Any:
    """Records the launches of a function of tensors, and replays them in later calls: a decorator, too.

    The first call with arguments of new shapes, types, devices or other values runs the function as it is, the
    second records it, and later ones copy their tensors to those of the recording and replay it. Launches that do
    not depend on each other then run side by side, chains of element-wise operations are one launch, and memory is
    planned. What is returned has no history: call `backward` within the function.

    Python's own effects (printing, appending to a list) happen in the first two calls alone. A function that waits
    for the device (`item`, masks in an index) or draws numbers (`randn`) is refused while it is recorded; dropout
    draws a new mask in every replay. `launches()` of the result is the number of launches of its last recording, 0
    before there is one.

    >>> @hlx.compile
    ... def scaled(x, factor):
    ...     return (x * factor).exp().sum()
    >>> [scaled(hlx.tensor([0.0, 1.0]), 0.0).item() for _ in range(3)]
    [2.0, 2.0, 2.0]

    Of a module it makes another one with the same parameters, whose results have their history: its forward and
    backward passes are two recordings. A call before the backward pass of the last one computes as the module does.
    The results are differentiated once, without `create_graph`, by the module's parameters and by the arguments.
    Gradients that are added to existing ones are summed up before, so the last bits of such sums may differ.

    >>> model = hlx.compile(hlx.nn.Linear(2, 1))
    >>> for _ in range(3):
    ...     model.zero_grad()
    ...     model(hlx.ones(4, 2)).sum().backward()
    >>> model.weight.grad
    tensor([[4., 4.]])
    """
    if function is None:
        return compile
    from hlx._compiled_module import CompiledModule
    from hlx.nn.modules.module import Module

    if isinstance(function, Module):
        return function if isinstance(function, CompiledModule) else CompiledModule(function)
    #: By arguments: the recording, and the tensors that the key knows by their ids.
    recorded: dict[Hashable, tuple[_Recorded | None, list[Tensor]]] = {}
    lock = threading.RLock()

    @functools.wraps(function)
    def compiled(*positional: Any, **named: Any) -> Any:
        if getattr(_recording, "before", None) is not None:
            # Within another recording it is a part of that one.
            return function(*positional, **named)
        plan = _Arguments()
        arguments = plan.split((positional, named))
        modes = (_hlx.is_grad_enabled(), _hlx.autocast_types(), _hlx.get_default_device(), _hlx.default_dtype())
        key = (tuple(plan.key), *modes)
        with lock:
            if key not in recorded:
                recorded[key] = None, plan.kept
                return _detached(function(*positional, **named))
            found, kept = recorded[key]
            if found is None:
                found = _Recorded(function, arguments, plan.tensors)
                recorded[key] = found, kept
                compiled.launches = found.recording.__len__  # type: ignore[attr-defined]
            return found.replay(plan.tensors)

    compiled.launches = lambda: 0  # type: ignore[attr-defined]
    return compiled
