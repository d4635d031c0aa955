"""Gradients: `backward`, `grad`, and operations of your own."""

from collections.abc import Sequence
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx._modes import enable_grad, inference_mode, no_grad, set_grad_enabled

__all__ = [
    "Function",
    "FunctionCtx",
    "backward",
    "enable_grad",
    "grad",
    "inference_mode",
    "no_grad",
    "set_grad_enabled",
]


def _listed(tensors: Tensor | Sequence[Tensor]) -> list[Tensor]:
    return [tensors] if isinstance(tensors, Tensor) else list(tensors)


def _upstream(outputs: list[Tensor], given: Any, operation: str) -> list[Tensor | None]:
    if given is None:
        return [None] * len(outputs)
    found = [given] if isinstance(given, Tensor) else list(given)
    if len(found) != len(outputs):
        raise errors.RuntimeError(f"{operation}: {len(found)} gradients for {len(outputs)} tensors")
    return found


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensor | Sequence[Tensor] | None = None,
    *,
    shards: int = 1,
) -> None:
    """Adds the gradients of the tensors' sum, each weighted by its `grad_tensors`, to what the leaves hold.

    With `shards` the gradients of parameters are sums over that many equal parts of the batch, added pairwise, as in
    `hlx train`: its bits, and more work side by side. `with_samples` says where the samples of a batch lie; a language
    model does so itself. Raises ValueError for shards that do not divide the batch, or a batch that is not known.

    >>> x = hlx.tensor([1.0, 2.0], requires_grad=True)
    >>> hlx.autograd.backward([x.sum(), (x * x).sum()])
    >>> x.grad
    tensor([3., 5.])
    """
    roots = _listed(tensors)
    given = _upstream(roots, grad_tensors, "backward")
    keep = create_graph if retain_graph is None else retain_graph
    if shards != 1:
        _check_shards(shards, keep, inputs)
    if inputs is None:
        _hlx.backward(roots, given, keep, create_graph, shards)
        return
    leaves = _listed(inputs)
    for leaf, found in zip(leaves, _hlx.gradients(roots, leaves, given, keep, create_graph), strict=True):
        if found is not None:
            before = leaf.grad
            leaf.grad = found if before is None else before + found


def _check_shards(shards: int, keep: bool, inputs: Any) -> None:
    if not isinstance(shards, int) or shards < 1:
        raise errors.ValueError(f"backward: shards is {shards!r}, expected a whole number above 0")
    if keep or inputs is not None:
        raise errors.ValueError("backward: shards go without retain_graph, create_graph and inputs")


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of the outputs' sum by the inputs; nothing is added to `grad` of leaves.

    With `create_graph` they can be differentiated again. Raises RuntimeError for an input that the outputs do
    not depend on, unless `allow_unused`, which gives None. `only_inputs` is True.

    >>> x = hlx.tensor(2.0, requires_grad=True)
    >>> (slope,) = hlx.autograd.grad(x**3, x, create_graph=True)
    >>> slope.item()
    12.0
    >>> hlx.autograd.grad(slope, x)
    (tensor(12.),)
    """
    if not only_inputs:
        raise errors.NotImplementedError("grad: only_inputs is False, expected True; backward() adds to all leaves")
    if is_grads_batched:
        raise errors.NotImplementedError("grad: is_grads_batched=True has no form in HLX")
    roots, by = _listed(outputs), _listed(inputs)
    for tensor in by:
        if not tensor.requires_grad:
            raise errors.RuntimeError("grad: an input does not require a gradient")
    given = _upstream(roots, grad_outputs, "grad")
    keep = create_graph if retain_graph is None else retain_graph
    found = _hlx.gradients(roots, by, given, keep, create_graph)
    if materialize_grads:
        return tuple(_hlx.binary(x, 0, "mul") if g is None else g for g, x in zip(found, by, strict=True))
    if not allow_unused and any(gradient is None for gradient in found):
        place = next(i for i, gradient in enumerate(found) if gradient is None)
        raise errors.RuntimeError(f"grad: the outputs do not depend on input {place}; allow_unused=True gives None")
    return tuple(found)


class FunctionCtx:
    """What `forward` of a Function leaves for its `backward`."""

    def __init__(self) -> None:
        self.needs_input_grad: tuple[bool, ...] = ()
        self._saved: tuple[Tensor | None, ...] = ()
        self._without_gradient: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves tensors, which `backward` finds in `saved_tensors`."""
        self._saved = tensors

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The tensors that `save_for_backward` was given; None where it was given None."""
        return self._saved  # type: ignore[return-value]

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Says that some outputs have no gradient."""
        self._without_gradient = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` gets zeros, and not None, for outputs that nothing depends on."""
        self._materialize = value


class Function:
    """An operation of your own: `forward` computes it, `backward` its gradients.

    Both are static methods with a context first. `backward` is made of operations on tensors, so that it can be
    differentiated again.

    >>> class Cube(hlx.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return x**3
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (x,) = ctx.saved_tensors
    ...         return 3 * x**2 * grad
    >>> x = hlx.tensor(2.0, requires_grad=True)
    >>> Cube.apply(x).backward()
    >>> x.grad
    tensor(12.)
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the outputs; the context comes first, unless the class has `setup_context`."""
        raise errors.NotImplementedError("Function: forward is not defined")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Returns a gradient for each argument of `forward`, None where it has none."""
        raise errors.NotImplementedError("Function: backward is not defined")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Computes the operation and puts it on the tape."""
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        with no_grad():
            setup = getattr(cls, "setup_context", None)
            outputs = cls.forward(*args) if setup else cls.forward(ctx, *args)
            if setup:
                setup(ctx, args, outputs)
        if not (_hlx.is_grad_enabled() and any(ctx.needs_input_grad)):
            return outputs
        if isinstance(outputs, Tensor):
            return _taped(cls, ctx, args, [outputs])[0]
        taped = _taped(cls, ctx, args, list(outputs))
        return type(outputs)(taped) if type(outputs) in (tuple, list) else tuple(taped)


def _gradients(cls: type[Function], ctx: FunctionCtx, upstream: list[Tensor | None], n: int) -> list[Any]:
    """What `backward` returns for each argument, checked."""
    returned = cls.backward(ctx, *upstream)
    found = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(found) < n or any(gradient is not None for gradient in found[n:]):
        raise errors.RuntimeError(f"{cls.__name__}: backward returned {len(found)} gradients, expected {n}")
    return found[:n]


def _taped(cls: type[Function], ctx: FunctionCtx, args: tuple[Any, ...], outputs: list[Any]) -> list[Any]:
    """The outputs at their place on the tape: several go there as parts of one tensor."""
    places = [i for i, needed in enumerate(ctx.needs_input_grad) if needed]
    inputs = [args[i] for i in places]
    without = {id(tensor) for tensor in ctx._without_gradient}
    taped = [i for i, y in enumerate(outputs) if _is_differentiable(y, without)]
    if not taped:
        return outputs
    shapes = [outputs[i].shape for i in taped]
    sizes = [shape.numel() for shape in shapes]

    def derivative(upstream: Tensor) -> list[Tensor | None]:
        parts: list[Tensor | None] = [None] * len(outputs)
        start = 0
        for i, shape, size in zip(taped, shapes, sizes, strict=True):
            flat = upstream if len(taped) == 1 else _hlx.narrow(upstream, 0, start, size)
            parts[i] = _hlx.reshape(flat, shape)
            start += size
        if ctx._materialize:
            for i, y in enumerate(outputs):
                if parts[i] is None and isinstance(y, Tensor):
                    parts[i] = _hlx.zeros(y.device, y.shape, y.dtype)
        found = _gradients(cls, ctx, parts, len(args))
        return [found[i] for i in places]

    if len(taped) == 1:
        joined = outputs[taped[0]]
    else:
        joined = _hlx.cat([_hlx.reshape(outputs[i].detach(), [-1]) for i in taped], 0)
    made = _hlx.custom(cls.__name__, inputs, joined, derivative)
    results = list(outputs)
    start = 0
    for i, shape, size in zip(taped, shapes, sizes, strict=True):
        results[i] = made if len(taped) == 1 else _hlx.reshape(_hlx.narrow(made, 0, start, size), shape)
        start += size
    return results


def _is_differentiable(output: Any, without: set[int]) -> bool:
    return isinstance(output, Tensor) and output.dtype.is_floating_point and id(output) not in without
