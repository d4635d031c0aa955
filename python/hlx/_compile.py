"""`hlx.compile`: a function of tensors whose launches are recorded once per shape and replayed."""

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


class _Plan:
    """How arguments are split into tensors and the rest, and put together again."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.key: list[Hashable] = []

    def split(self, value: Any) -> Any:
        """The value with numbers in the place of tensors that change from call to call."""
        if isinstance(value, Tensor):
            if value.requires_grad:
                # A parameter: the graph reads and differentiates this very tensor.
                self.key.append(("parameter", id(value)))
                return value
            self.key.append((tuple(value.shape), value.dtype, value.device))
            self.tensors.append(value)
            return _Place(len(self.tensors) - 1)
        if isinstance(value, (tuple, list)):
            self.key.append((type(value), len(value)))
            parts = [self.split(part) for part in value]
            if hasattr(value, "_fields"):
                return type(value)(*parts)
            return type(value)(parts)
        if isinstance(value, dict):
            self.key.append((dict, *value))
            return {name: self.split(part) for name, part in value.items()}
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


class _Recorded:
    """One recording: the tensors that inputs are copied to, the graph, and what it returns."""

    def __init__(self, function: Callable[..., Any], arguments: Any, inputs: list[Tensor]) -> None:
        self.inputs = [_hlx.clone(_hlx.contiguous(x)) for x in inputs]
        self.before: list[Callable[[], None]] = []
        self.replays = 0
        device = inputs[0].device if inputs else _hlx.get_default_device()
        self.graph = _hlx.RecordedGraph(device)
        _recording.before = self.before
        _hlx.note_counters()
        finished = False
        self.graph.start(others_wait=True)
        try:
            positional, named = _joined(arguments, self.inputs)
            outputs = _Plan()
            self.results = outputs.split(_detached(function(*positional, **named)))
            self.outputs = outputs.tensors
            finished = True
        finally:
            self.counters = _hlx.noted_counters()
            _recording.before = None
            self.graph.end(finished)

    def replay(self, inputs: list[Tensor]) -> Any:
        for place, x in zip(self.inputs, inputs, strict=True):
            _hlx.copy_(place, x)
        for prepare in self.before:
            prepare()
        for counter in self.counters:
            _hlx.set_counter(counter, self.replays)
        self.graph.replay(1)
        self.replays += 1
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
    """
    if function is None:
        return compile
    recorded: dict[Hashable, _Recorded | None] = {}
    lock = threading.RLock()

    @functools.wraps(function)
    def compiled(*positional: Any, **named: Any) -> Any:
        if getattr(_recording, "before", None) is not None:
            # Within another recording it is a part of that one.
            return function(*positional, **named)
        plan = _Plan()
        arguments = plan.split((positional, named))
        key = (tuple(plan.key), _hlx.is_grad_enabled(), _hlx.get_default_device(), _hlx.default_dtype())
        with lock:
            if key not in recorded:
                recorded[key] = None
                return _detached(function(*positional, **named))
            found = recorded[key]
            if found is None:
                found = recorded[key] = _Recorded(function, arguments, plan.tensors)
                compiled.launches = found.graph.__len__  # type: ignore[attr-defined]
            return found.replay(plan.tensors)

    compiled.launches = lambda: 0  # type: ignore[attr-defined]
    return compiled
