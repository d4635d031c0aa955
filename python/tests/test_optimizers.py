"""Optimizers: their bits beside the rules in NumPy, PyTorch's values in float64, and what is around a step."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from reference_optimizers import ReferenceState

import hlx
from hlx.optim import _native

SHAPES = {"first.weight": (5, 3), "first.bias": (7,), "output.weight": (2, 4), "scale": ()}

#: Optimizers with their arguments; the second of two groups has a fifth of the rate and other decay.
CASES: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda p: hlx.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: hlx.optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
    "SGD by Nesterov": lambda p: hlx.optim.SGD(p, 0.1, momentum=0.8, nesterov=True),
    "Adam": lambda p: hlx.optim.Adam(p, 0.01, betas=(0.8, 0.95), weight_decay=0.1),
    "Adam decoupled": lambda p: hlx.optim.Adam(p, 0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "AdamW": lambda p: hlx.optim.AdamW(p, lr=0.03, eps=1e-6),
    "Adagrad": lambda p: hlx.optim.Adagrad(p, 0.1, lr_decay=0.2, initial_accumulator_value=0.3),
    "RMSprop": lambda p: hlx.optim.RMSprop(p, 0.01, alpha=0.9, weight_decay=0.01),
    "RMSprop centered": lambda p: hlx.optim.RMSprop(p, 0.01, momentum=0.5, centered=True),
    "Lion": lambda p: hlx.optim.Lion(p, 0.01, betas=(0.8, 0.9), weight_decay=0.5),
    "Muon": lambda p: hlx.optim.Muon(p, 0.05, adamw_lr_factor=0.5),
    "Muon by root mean square": lambda p: hlx.optim.Muon(
        p, 0.05, nesterov=False, adjust_lr_fn="match_rms_adamw", adamw_parameters=[], ns_steps=3
    ),
}


def parameters(device: Any = "cpu") -> dict[str, hlx.Tensor]:
    """Named parameters with values of a seed."""
    generator = hlx.Generator().manual_seed(5)
    made = {name: hlx.randn(shape, generator=generator, device=device) for name, shape in SHAPES.items()}
    return {name: x.requires_grad_() for name, x in made.items()}


def groups(named: dict[str, hlx.Tensor]) -> list[dict[str, Any]]:
    """Two groups: the first and the last parameter, and the others."""
    (first, *others, last) = named.items()
    return [{"params": [first, last]}, {"params": others, "lr": 0.004, "weight_decay": 0.2}]


def set_gradients(named: dict[str, hlx.Tensor], step: int) -> None:
    """Gradients of a seed, with zeros among them."""
    generator = hlx.Generator().manual_seed(100 + step)
    for x in named.values():
        gradient = hlx.randn(x.shape, generator=generator, device=x.device)
        x.grad = hlx.where(gradient.abs() < 0.2, hlx.zeros_like(gradient), gradient)


def trained(make: Callable[[Any], Any], steps: int = 5, device: Any = "cpu") -> tuple[dict[str, Any], dict[str, Any]]:
    """The parameters and the state after some steps, as bits."""
    named = parameters(device)
    optimizer = make(groups(named))
    for step in range(steps):
        set_gradients(named, step)
        optimizer.step()
    state = {
        f"{place}.{name}": words(value) if isinstance(value, hlx.Tensor) else value
        for place, own in optimizer.state_dict()["state"].items()
        for name, value in own.items()
    }
    return {name: words(x) for name, x in named.items()}, state


def words(x: hlx.Tensor) -> list[int]:
    """The bits of a tensor."""
    return x.detach().cpu().numpy().ravel().view(np.uint32).tolist()


@pytest.mark.parametrize("name", CASES)
def test_a_step_has_the_bits_of_its_rule(name: str, device: hlx.device, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters and state, on every device, over two groups."""
    found = trained(CASES[name], device=device)
    monkeypatch.setattr(_native, "new_state", ReferenceState)
    assert found == trained(CASES[name])
    assert any(found[0][name] != words(x) for name, x in parameters().items())


def of_pytorch(name: str, named: dict[str, hlx.Tensor], torch: Any) -> tuple[Any, list[Any]]:
    """PyTorch's optimizer of the same case over the same values in float64."""
    twins = {key: torch.tensor(x.tolist(), dtype=torch.float64, requires_grad=True) for key, x in named.items()}
    mine = CASES[name](groups(parameters()))
    numbers = {key: value for key, value in mine.defaults.items() if key != "params"}
    kind = "AdamW" if name == "Adam decoupled" else type(mine).__name__
    unnamed = [{**group, "params": [pair[1] for pair in group["params"]]} for group in groups(twins)]
    return getattr(torch.optim, kind)(unnamed, **numbers), list(twins.values())


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith(("Lion", "Muon"))])
def test_a_step_is_pytorchs(name: str) -> None:
    """Ten steps beside PyTorch in float64; a scheduler changes the rates of both."""
    torch = pytest.importorskip("torch")
    named = parameters()
    optimizer = CASES[name](groups(named))
    theirs, twins = of_pytorch(name, named, torch)
    schedulers = [
        hlx.optim.lr_scheduler.ExponentialLR(optimizer, 0.8),
        torch.optim.lr_scheduler.ExponentialLR(theirs, 0.8),
    ]
    for step in range(10):
        set_gradients(named, step)
        for x, twin in zip(named.values(), twins, strict=True):
            twin.grad = torch.tensor(x.grad.tolist(), dtype=torch.float64)
        optimizer.step(), theirs.step()
        for scheduler in schedulers:
            scheduler.step()
    for x, twin in zip(named.values(), twins, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), twin.detach().numpy(), rtol=2e-5, atol=2e-6)
    for place, own in theirs.state_dict()["state"].items():
        for key, value in own.items():
            mine = optimizer.state_dict()["state"][place][key]
            if value is not None:
                np.testing.assert_allclose(np.asarray(mine), np.asarray(value), rtol=2e-5, atol=2e-6)


def converted(value: Any) -> Any:
    """PyTorch's state dict with tensors of HLX."""
    if isinstance(value, dict):
        return {key: converted(one) for key, one in value.items()}
    if isinstance(value, list):
        return [converted(one) for one in value]
    return hlx.from_torch(value.float()) if type(value).__module__ == "torch" else value


@pytest.mark.parametrize("name", ["SGD with momentum", "AdamW", "Adagrad", "RMSprop centered"])
def test_a_state_dict_of_pytorch_goes_on(name: str) -> None:
    """Three steps there, three here."""
    torch = pytest.importorskip("torch")
    named = parameters()
    theirs, twins = of_pytorch(name, named, torch)
    optimizer = CASES[name](groups(named))

    def step(at: int) -> None:
        set_gradients(named, at)
        for x, twin in zip(named.values(), twins, strict=True):
            twin.grad = torch.tensor(x.grad.tolist(), dtype=torch.float64)
        theirs.step()

    for at in range(3):
        step(at)
    optimizer.load_state_dict(converted(theirs.state_dict()))
    with hlx.no_grad():
        for x, twin in zip(named.values(), twins, strict=True):
            x.copy_(hlx.from_torch(twin.detach().float()))
    for at in range(3, 6):
        step(at)
        optimizer.step()
    for x, twin in zip(named.values(), twins, strict=True):
        np.testing.assert_allclose(x.detach().numpy(), twin.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_an_optimizer_goes_on_from_its_state_dict(name: str, device: hlx.device) -> None:
    """A second one takes the same steps, word by word; so do a pickle and a deep copy."""
    named, again = parameters(device), parameters(device)
    first, second = CASES[name](groups(named)), CASES[name](groups(again))
    first.param_groups[0]["lr"] *= 0.5
    for step in range(3):
        set_gradients(named, step)
        first.step()
    saved = pickle.loads(pickle.dumps(first.state_dict()))
    second.load_state_dict(saved)
    with hlx.no_grad():
        for x, other in zip(named.values(), again.values(), strict=True):
            other.copy_(x)
    copies = [pickle.loads(pickle.dumps(first)), copy.deepcopy(first)]
    assert [one.digest() for one in (second, *copies)] == [first.digest()] * 3
    for step in range(3, 5):
        set_gradients(named, step), set_gradients(again, step)
        first.step(), second.step()
    for made in copies:
        own = {f"{n}.{i}": x for n, group in enumerate(made.param_groups) for i, x in enumerate(group["params"])}
        order = [own[key] for key in ("0.0", "1.0", "1.1", "0.1")]
        for step in range(3, 5):
            set_gradients(dict(zip(SHAPES, order, strict=True)), step)
            made.step()
        assert [words(x) for x in order] == [words(x) for x in named.values()]
    assert [words(x) for x in again.values()] == [words(x) for x in named.values()]
    assert second.digest() == first.digest()


def test_a_state_dict_has_pytorchs_form() -> None:
    """Parameters by their places through all groups."""
    named = parameters()
    optimizer = hlx.optim.AdamW(groups(named), lr=0.02)
    assert optimizer.state_dict()["state"] == {}
    set_gradients(named, 0)
    optimizer.step()
    saved = optimizer.state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[0, 1], [2, 3]]
    assert [group["param_names"] for group in saved["param_groups"]] == [
        ["first.weight", "scale"],
        ["first.bias", "output.weight"],
    ]
    assert [group["lr"] for group in saved["param_groups"]] == [0.02, 0.004]
    assert saved["state"][2].keys() == {"step", "exp_avg", "exp_avg_sq"}
    assert saved["state"][2]["step"] == 1 and saved["state"][2]["exp_avg"].shape == (7,)
    assert optimizer.state[named["first.bias"]]["exp_avg"].shape == (7,)


def test_an_empty_state_starts_again() -> None:
    """As a new optimizer: the bias corrections begin at 1."""
    named = parameters()
    optimizer = hlx.optim.AdamW(groups(named))
    fresh = optimizer.state_dict()
    digest = optimizer.digest()
    set_gradients(named, 0)
    optimizer.step()
    assert optimizer.digest() != digest
    optimizer.load_state_dict(fresh)
    assert optimizer.digest() == digest


def test_a_state_with_momentum_is_loaded_by_an_sgd_that_was_made_without() -> None:
    """The numbers of the state dict decide which buffers there are."""
    named, again = parameters(), parameters()
    first, second = hlx.optim.SGD(groups(named), 0.1, momentum=0.9), hlx.optim.SGD(groups(again))
    set_gradients(named, 0)
    first.step()
    second.load_state_dict(first.state_dict())
    assert second.digest() == first.digest()
    assert second.param_groups[0]["momentum"] == 0.9


def test_the_rates_of_groups_may_be_zero() -> None:
    """A group whose rate is zero stays, whichever it is."""
    for frozen in (0, 1):
        named = parameters()
        optimizer = hlx.optim.SGD(groups(named), lr=0.1)
        before = [[words(x) for x in group["params"]] for group in optimizer.param_groups]
        optimizer.param_groups[frozen]["lr"] = 0.0
        set_gradients(named, 0)
        optimizer.step()
        after = [[words(x) for x in group["params"]] for group in optimizer.param_groups]
        assert after[frozen] == before[frozen] and after[1 - frozen] != before[1 - frozen]


def test_momentum_that_a_scheduler_begins_has_a_buffer() -> None:
    """OneCycleLR sets the momentum of an SGD that was made without."""
    named, twin = parameters(), parameters()
    late, early = hlx.optim.SGD(groups(named), 0.1), hlx.optim.SGD(groups(twin), 0.1, momentum=0.5)
    for optimizer in (late, early):
        hlx.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=10, base_momentum=0.8, max_momentum=0.9)
    for step in range(3):
        for own, optimizer in ((named, late), (twin, early)):
            set_gradients(own, step)
            optimizer.step()
    assert [words(x) for x in named.values()] == [words(x) for x in twin.values()]
    assert "momentum_buffer" in late.state_dict()["state"][0]


@pytest.mark.parametrize("name", ["SGD with momentum", "AdamW", "Adagrad", "Muon"])
def test_a_compiled_step_has_the_same_bits(name: str, device: hlx.device) -> None:
    """While a scheduler changes rate and momentum; the launches alone are recorded."""
    found = []
    for decorator in (hlx.compile, lambda function: function):
        named = parameters(device)
        optimizer = CASES[name](groups(named))
        module = hlx.optim.lr_scheduler
        scheduler = module.LambdaLR(optimizer, [lambda t: 1 / (1 + t), lambda t: 0.9**t])
        if name != "Adagrad" and name != "Muon":
            scheduler = module.OneCycleLR(optimizer, [0.1, 0.03], total_steps=12)

        @decorator
        def step(x: hlx.Tensor, named: Any = named, optimizer: Any = optimizer) -> hlx.Tensor:
            optimizer.zero_grad()
            loss = sum(((p - x) ** 2).sum() for p in named.values())
            loss.backward()
            optimizer.step()
            return loss

        losses = []
        for turn in range(10):
            losses.append(words(step(hlx.tensor(turn / 10, device=device))))
            scheduler.step()
        assert optimizer.state[named["scale"]]["step"] == 10
        found.append((losses, {key: words(p) for key, p in named.items()}, optimizer.digest()))
    assert found[0] == found[1]


def test_a_compiled_step_of_other_parameters_is_refused() -> None:
    """A group that is added needs launches that were not recorded."""
    w, v = hlx.ones(2, requires_grad=True), hlx.ones(2, requires_grad=True)
    optimizer = hlx.optim.SGD([w])

    @hlx.compile
    def step() -> None:
        optimizer.zero_grad()
        (w * v).sum().backward()
        optimizer.step()

    for _ in range(3):
        step()
    optimizer.add_param_group({"params": [v]})
    with pytest.raises(hlx.errors.RuntimeError, match="SGD.step: its parameters or buffers are others than when"):
        step()


def test_a_closure_computes_the_loss() -> None:
    """With gradients, also within no_grad."""
    w = hlx.tensor([2.0], requires_grad=True)
    optimizer = hlx.optim.SGD([w], lr=0.25)

    def closure() -> hlx.Tensor:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        return loss

    with hlx.no_grad():
        assert optimizer.step(closure).item() == 4.0
    assert w.tolist() == [1.0]


def test_gradients_are_removed_or_zeroed() -> None:
    """`set_to_none` decides."""
    named = parameters()
    optimizer = hlx.optim.SGD(groups(named))
    set_gradients(named, 0)
    optimizer.zero_grad(set_to_none=False)
    assert all(x.grad is not None and not x.grad.any() for x in named.values())
    optimizer.zero_grad()
    assert all(x.grad is None for x in named.values())


def test_hooks_are_called_around_a_step() -> None:
    """In their order, with the arguments of the step, until they are removed."""
    w = hlx.tensor([1.0], requires_grad=True)
    w.grad = hlx.ones(1)
    optimizer = hlx.optim.SGD([w], lr=0.5)
    seen: list[Any] = []
    before = optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", w.item(), args, kwargs)))
    optimizer.register_step_pre_hook(lambda o, args, kwargs: (args, {"closure": None}))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", w.item(), args, kwargs)))
    optimizer.step()
    before.remove()
    optimizer.step()
    changed = {"closure": None}
    assert seen == [("before", 1.0, (), {}), ("after", 0.5, (), changed), ("after", 0.0, (), changed)]


def test_a_subclass_calls_the_hooks_once() -> None:
    """Though its base's step has them too."""

    class Halved(hlx.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            for group in self.param_groups:
                group["lr"] /= 2
            return super().step(closure)

    w = hlx.tensor([1.0], requires_grad=True)
    w.grad = hlx.ones(1)
    optimizer = Halved([w], lr=1.0)
    seen: list[Any] = []
    optimizer.register_step_post_hook(lambda *arguments: seen.append(w.item()))
    optimizer.step()
    optimizer.step()
    assert seen == [0.5, 0.25]


def test_frozen_parameters_stay_and_unfrozen_ones_begin() -> None:
    """A parameter that requires no gradient needs none."""
    named = parameters()
    named["first.bias"].requires_grad_(False)
    optimizer = hlx.optim.AdamW(groups(named))
    before = words(named["first.bias"])
    for step in range(2):
        set_gradients({name: x for name, x in named.items() if x.requires_grad}, step)
        optimizer.step()
    assert words(named["first.bias"]) == before and 2 not in optimizer.state_dict()["state"]
    named["first.bias"].requires_grad_()
    named["scale"].requires_grad_(False)
    scale, mean = words(named["scale"]), optimizer.state[named["first.weight"]]["exp_avg"]
    set_gradients({name: x for name, x in named.items() if x.requires_grad}, 2)
    optimizer.step()
    assert words(named["first.bias"]) != before and words(named["scale"]) == scale
    state = optimizer.state[named["first.weight"]]
    assert state["step"] == 3 and words(state["exp_avg"]) != words(mean)
    expected = 0.9 * mean + 0.1 * named["first.weight"].grad
    np.testing.assert_allclose(state["exp_avg"].numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-7)


def test_a_group_is_added() -> None:
    """Its parameters are updated with the others', at its own rate."""
    v, w = hlx.ones(2, requires_grad=True), hlx.ones(2, requires_grad=True)
    optimizer = hlx.optim.SGD([v], lr=0.5)
    optimizer.add_param_group({"params": w, "lr": 0.25})
    v.grad, w.grad = hlx.ones(2), hlx.ones(2)
    optimizer.step()
    assert (v.tolist(), w.tolist()) == ([0.5, 0.5], [0.75, 0.75])
    with pytest.raises(hlx.errors.ValueError, match="SGD: a parameter is named twice"):
        optimizer.add_param_group({"params": [w]})
    with pytest.raises(hlx.errors.TypeError, match="SGD: parameter 2 is hlx.float16"):
        optimizer.add_param_group({"params": [hlx.ones(2).half().requires_grad_()]})
    with pytest.raises(hlx.errors.ValueError, match="SGD: group 2 has momentum 0.5, expected 0.0 as in group 0"):
        optimizer.add_param_group({"params": [hlx.ones(2, requires_grad=True)], "momentum": 0.5})
    assert len(optimizer.param_groups) == 2
    optimizer.step()
    assert (v.tolist(), w.tolist()) == ([0.0, 0.0], [0.5, 0.5])


def test_a_group_that_is_added_later_joins_with_a_state_of_zeros() -> None:
    """The others' state stays, and the count of steps is one for all."""
    v, w = hlx.ones(2, requires_grad=True), hlx.ones(2, requires_grad=True)
    optimizer = hlx.optim.Adam([v], lr=0.1)
    v.grad = hlx.ones(2)
    optimizer.step()
    mean = words(optimizer.state[v]["exp_avg"])
    optimizer.add_param_group({"params": [w]})
    assert words(optimizer.state[v]["exp_avg"]) == mean and optimizer.state[w]["exp_avg"].tolist() == [0.0, 0.0]
    v.grad, w.grad = hlx.ones(2), hlx.ones(2)
    optimizer.step()
    assert optimizer.state[v]["step"] == optimizer.state[w]["step"] == 2
    # (1 - 0.9) / (1 - 0.9^2) over sqrt((1 - 0.999) / (1 - 0.999^2))
    np.testing.assert_allclose(w.detach().numpy(), 1 - 0.1 * (0.1 / 0.19) / (0.001 / 0.001999) ** 0.5, rtol=1e-5)


def test_gradients_are_clipped_by_their_norm() -> None:
    """The norm of all gradients before."""
    v, w = hlx.zeros(1, requires_grad=True), hlx.zeros(2, requires_grad=True)
    optimizer = hlx.optim.SGD([v, w])
    v.grad, w.grad = hlx.tensor([3.0]), hlx.tensor([0.0, 4.0])
    assert optimizer.clip_grad_norm_(1.0).item() == 5.0
    np.testing.assert_allclose(w.grad.numpy(), [0.0, 0.8], rtol=1e-5)
    optimizer.clip_grad_value_(0.7)
    np.testing.assert_allclose(w.grad.numpy(), [0.0, 0.7], rtol=1e-5)


def test_a_tensor_stays_the_same_object_with_the_same_values() -> None:
    """Its memory moves into the flat buffer; aliases made before do not follow."""
    w = hlx.randn(3, 4, requires_grad=True)
    digest = w.digest()
    optimizer = hlx.optim.SGD([w], lr=1.0)
    assert optimizer.param_groups[0]["params"][0] is w and w.is_leaf and w.digest() == digest
    (w * 2).sum().backward()
    optimizer.step()
    assert w.digest() != digest


def test_a_parameter_belongs_to_the_last_optimizer() -> None:
    """A step of the one before would update memory that the tensor has left."""
    w = hlx.ones(2, requires_grad=True)
    first = hlx.optim.SGD([w], lr=0.5)
    second = hlx.optim.SGD([w], lr=0.5)
    w.grad = hlx.ones(2)
    with pytest.raises(hlx.errors.RuntimeError, match="parameter 0 was moved, or given to another optimizer"):
        first.step()
    second.step()
    assert w.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_a_loop_learns(kind: str, device: hlx.device) -> None:
    """A line through points."""
    x = hlx.linspace(-1, 1, 32, device=device).reshape(32, 1)
    w, b = (hlx.zeros(1, 1, device=device, requires_grad=True), hlx.zeros(1, device=device, requires_grad=True))
    optimizer = getattr(hlx.optim, kind)([w, b], lr=0.2)
    for _ in range(100):
        optimizer.zero_grad()
        loss = (x @ w + b - (3 * x + 1)).square().mean()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1e-3


def leaf(*shape: int) -> hlx.Tensor:
    """A parameter."""
    return hlx.ones(shape, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hlx.optim.SGD([]), "SGD: params is empty, expected at least one tensor"),
        (lambda: hlx.optim.SGD(leaf(2)), "SGD: params is a tensor, expected an iterable of tensors or of dicts"),
        (lambda: hlx.optim.SGD([{"params": {leaf(2)}}]), "SGD: params is a set, which has no order; expected a list"),
        (lambda: hlx.optim.SGD([3]), "SGD: a parameter is int, expected a tensor"),
        (lambda: hlx.optim.SGD([leaf(2) * 2]), "SGD: a parameter is the result of an operation, expected a leaf"),
        (lambda: hlx.optim.SGD([{"lr": 1.0}]), "SGD: a group has no params"),
        (lambda: hlx.optim.SGD([leaf(1)] * 2 + [leaf(1)] * 2), "SGD: a parameter is named twice"),
        (lambda: hlx.optim.SGD([("w", leaf(1)), leaf(1)]), "SGD: some parameters have names, expected all or none"),
        (lambda: hlx.optim.SGD([("w", leaf(1)), ("w", leaf(1))]), "SGD: two parameters are named w"),
        (lambda: hlx.optim.SGD([hlx.ones(2)]), "SGD: no parameter requires a gradient"),
        (
            lambda: hlx.optim.SGD([leaf(1).half().detach().requires_grad_()]),
            "SGD: parameter 0 is hlx.float16, expected",
        ),
        (lambda: hlx.optim.SGD([leaf(1)], lr=-1), "SGD: lr is -1, expected at least 0 and finite"),
        (lambda: hlx.optim.SGD([leaf(1)], lr="x"), "SGD: lr is str, expected a number"),
        (lambda: hlx.optim.SGD([leaf(1)], nesterov=True), "SGD: nesterov with momentum 0 and dampening 0, expected a"),
        (lambda: hlx.optim.SGD([leaf(1)], maximize=True), "SGD: maximize=True is not supported"),
        (lambda: hlx.optim.AdamW([leaf(1)], amsgrad=True), "AdamW: amsgrad=True is not supported"),
        (lambda: hlx.optim.Adam([leaf(1)], betas=(0.9, 1.0)), "Adam: betas is 1.0, expected at least 0 and below 1"),
        (lambda: hlx.optim.Adam([leaf(1)], eps=0), "Adam: eps is 0, expected at least 2^-126 (1.18e-38) and finite"),
        (lambda: hlx.optim.Adagrad([leaf(1)], lr_decay=-1), "Adagrad: lr_decay is -1, expected at least 0 and finite"),
        (lambda: hlx.optim.RMSprop([leaf(1)], alpha=1), "RMSprop: alpha is 1, expected at least 0 and below 1"),
        (lambda: hlx.optim.Muon([leaf(1, 1)], adjust_lr_fn="x"), "Muon: adjust_lr_fn is 'x', expected one of original"),
        (
            lambda: hlx.optim.Adam([{"params": [leaf(1)]}, {"params": [leaf(1)], "eps": 1e-3}]),
            "Adam: group 1 has eps 0.001, expected 1e-08 as in group 0: only lr and weight_decay are numbers of a group",
        ),
    ],
)
def test_what_an_optimizer_refuses(make: Any, message: str) -> None:
    """In one line."""
    with pytest.raises(hlx.Error) as caught:
        make()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_missing_gradient_is_named() -> None:
    """By the name of the parameter, or by its place."""
    v, w = leaf(2), leaf(2)
    v.grad = hlx.ones(2)
    for params, name in (([("v", v), ("w", w)], "w"), ([v, w], "1")):
        optimizer = hlx.optim.AdamW(params)
        with pytest.raises(hlx.errors.RuntimeError, match=f"optimizer step: parameter {name} has no gradient"):
            optimizer.step()


def test_a_state_dict_of_other_groups_is_refused() -> None:
    """Without a change."""
    optimizer = hlx.optim.SGD([leaf(2), leaf(3)])
    other = hlx.optim.SGD([leaf(2)], lr=0.7)
    with pytest.raises(hlx.errors.ValueError, match=r"SGD.load_state_dict: the groups have \[1\] parameters, expected"):
        optimizer.load_state_dict(other.state_dict())
    assert optimizer.param_groups[0]["lr"] == 1e-3
    wrong = {
        "state": {0: {"step": 1, "momentum_buffer": hlx.ones(5)}},
        "param_groups": other.state_dict()["param_groups"],
    }
    with pytest.raises(hlx.errors.ValueError, match=r"momentum_buffer of parameter 0 has shape \[5\], expected \[2\]"):
        other.load_state_dict(wrong)
