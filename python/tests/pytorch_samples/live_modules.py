"""Carries out the samples of PyTorch's `module_db` by PyTorch in f64 and by `hlx.nn`, and compares. Needs PyTorch."""

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

import hlx

from .compare import Different, Tolerance, _all_close, values_of
from .judge import FAILED, PASSED, REFUSED, Verdict, plain
from .modules import FORWARD, GRADIENT

#: What became of a sample that PyTorch draws by its own generator, or cannot carry out.
RANDOM, NOT_IN_PYTORCH = "random", "PyTorch fails"


def samples() -> Iterator[tuple[str, Any, bool]]:
    """The name, the sample and whether it trains, of the modules that both have."""
    for info in module_db:
        name = info.module_cls.__name__
        if not info.module_cls.__module__.startswith("torch.nn.") or not hasattr(hlx.nn, name):
            continue
        for training in (True, False) if info.train_and_eval_differ else (True,):
            torch.manual_seed(0)
            given = info.module_inputs_func(
                info, device="cpu", dtype=torch.float32, requires_grad=True, training=training
            )
            for sample in given:
                yield name, sample, training


def missing() -> list[str]:
    """The modules of `module_db` that HLX does not have."""
    found = {info.module_cls for info in module_db}
    names = {
        cls.__name__ for cls in found if cls.__module__.startswith("torch.nn.") and "quantizable" not in cls.__module__
    }
    return sorted(name for name in names if not hasattr(hlx.nn, name))


def fill(module: torch.nn.Module) -> None:
    """Replaces parameters and buffers of floats by draws; variances and weights of losses are positive."""
    is_loss = type(module).__name__.endswith("Loss")
    for name, value in module.state_dict().items():
        if value.dtype.is_floating_point:
            low = 0.5 if is_loss or name.endswith("running_var") else -0.5
            value.copy_(torch.rand_like(value) + low)


def converted(value: Any, device: str) -> Any:
    """An argument of PyTorch as HLX's."""
    if isinstance(value, torch.Tensor):
        return hlx.tensor(value.detach().numpy(), device=device).requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(hlx, str(value).removeprefix("torch."))
    if isinstance(value, torch.nn.Module):
        return _rebuilt(value, device)
    if isinstance(value, tuple | list):
        return type(value)(converted(item, device) for item in value)
    if callable(value) and getattr(torch.nn.functional, getattr(value, "__name__", ""), None) is value:
        return getattr(hlx.nn.functional, value.__name__)
    return device if isinstance(value, torch.device) or value == "cpu" else value


def _rebuilt(module: torch.nn.Module, device: str) -> hlx.nn.Module:
    """A module that is an argument of another: a transformer's layer or norm."""
    if isinstance(module, torch.nn.LayerNorm):
        return hlx.nn.LayerNorm(tuple(module.normalized_shape), module.eps, device=device)
    attention: Any = module.self_attn
    activation = converted(module.activation, device)
    return getattr(hlx.nn, type(module).__name__)(
        attention.embed_dim,
        attention.num_heads,
        module.linear1.out_features,
        module.dropout.p,
        activation,
        module.norm1.eps,
        attention.batch_first,
        module.norm_first,
        attention.in_proj_bias is not None,
        device=device,
    )


def _draws(module: torch.nn.Module, training: bool) -> bool:
    """Whether a module draws numbers."""
    parts = list(module.modules())
    dropped = any(getattr(one, "p", 0) for one in parts if "Dropout" in type(one).__name__)
    dropped = dropped or any(isinstance(getattr(one, "dropout", 0), float) and one.dropout > 0 for one in parts)
    return training and (dropped or any(isinstance(one, torch.nn.RReLU) for one in parts))


def _wide(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.dtype.is_floating_point:
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def _named(function: Callable[..., Any], given: Any) -> dict[str, Any]:
    bound = inspect.signature(function).bind(None, *given.args, **given.kwargs).arguments
    found = dict(list(bound.items())[1:])
    return found.pop("kwargs", {}) | found


def _tensors(values: Any, kind: type) -> list[Any]:
    return [one for one in tree_leaves(values) if isinstance(one, kind)]


def judged(name: str, given: Any, training: bool, device: str) -> Verdict:
    """Carries out a sample twice and compares results, buffers and gradients."""
    info_cls = getattr(torch.nn, name)
    made = given.constructor_input
    module = info_cls(*made.args, **made.kwargs).train(training)
    with torch.no_grad():
        fill(module)
    if _draws(module, training):
        return Verdict(RANDOM, "it draws numbers in training")
    call = given.forward_input
    wide, args, kwargs = copy.deepcopy(module).double(), tree_map(_wide, call.args), tree_map(_wide, call.kwargs)
    try:
        wanted = _tensors(wide(*args, **kwargs), torch.Tensor)
    except Exception as error:
        return Verdict(NOT_IN_PYTORCH, plain(str(error)))
    own_args, own_kwargs = converted(list(call.args), device), {k: converted(v, device) for k, v in call.kwargs.items()}
    try:
        own = getattr(hlx.nn, name)(
            *converted(list(made.args), device), **{k: converted(v, device) for k, v in made.kwargs.items()}
        )
        own.to(device).train(training).load_state_dict(module.state_dict())
        found = _tensors(own(*own_args, **own_kwargs), hlx.Tensor)
        for one in found:
            values_of(one)
    except (hlx.errors.Error, TypeError) as error:
        return Verdict(REFUSED, plain(str(error)))
    try:
        _compare((wide, [args, kwargs], wanted), (own, [own_args, own_kwargs], found), device)
    except Different as difference:
        return Verdict(FAILED, str(difference))
    return Verdict(PASSED)


def _compare(theirs: tuple[Any, Any, list[Any]], ours: tuple[Any, Any, list[Any]], device: str) -> None:
    (wide, inputs, wanted), (own, own_inputs, found) = theirs, ours
    if len(found) != len(wanted):
        raise Different(f"{len(found)} results, expected {len(wanted)}")
    for i, (one, other) in enumerate(zip(found, wanted, strict=True)):
        _close(f"result {i}", one, other, FORWARD)
    buffers = dict(own.named_buffers())
    for key, other in wide.named_buffers():
        _close(key, buffers[key], other, FORWARD)
    by = [one for one in _tensors(inputs, torch.Tensor) if one.requires_grad] + [
        one for _, one in wide.named_parameters()
    ]
    own_by = [one for one in _tensors(own_inputs, hlx.Tensor) if one.requires_grad]
    own_by += [one for _, one in own.named_parameters()]
    pairs = [(a, b) for a, b in zip(wanted, found, strict=True) if a.requires_grad]
    if not pairs or not by:
        return
    upstream = [torch.rand_like(a) * 2 - 1 for a, _ in pairs]
    expected = torch.autograd.grad([a for a, _ in pairs], by, upstream, allow_unused=True)
    try:
        hlx.autograd.backward([b for _, b in pairs], [hlx.tensor(u.float().numpy(), device=device) for u in upstream])
    except hlx.errors.Error as error:
        raise Different(f"backward: {error}") from error
    for i, (one, other) in enumerate(zip(own_by, expected, strict=True)):
        if other is not None and (one.grad is not None or other.abs().max() > 0):
            if one.grad is None:
                raise Different(f"gradient {i} is missing")
            _close(f"gradient {i}", one.grad, other, GRADIENT)


def _close(name: str, found: hlx.Tensor, wanted: torch.Tensor, tolerance: Tolerance) -> None:
    if list(found.shape) != list(wanted.shape):
        raise Different(f"{name} has shape {list(found.shape)}, expected {list(wanted.shape)}")
    expected = wanted.detach().double().numpy().reshape(-1)
    finite = numpy.abs(expected[numpy.isfinite(expected)])
    try:
        _all_close(values_of(found), expected, finite.max(initial=0.0), tolerance)
    except Different as difference:
        raise Different(f"{name} {difference}") from None


warnings.simplefilter("ignore")
