"""Training steps by shards with a limit on the gradients' norm: the program's bits, and few launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hlx
from hlx import _hlx, nn
from hlx.nn import functional as F

#: The SHA-256 over the parameters that `crates/hlx/tests/steps_of_python.rs` names, too.
DIGEST = "ac7c0a2e0e120d8dc3b7e507a050ee2e38a0539a4b239f720f33a6600b5aa37e"

CONFIG = {
    "vocabulary": 64,
    "width": 32,
    "n_layers": 1,
    "n_heads": 2,
    "feed_forward_width": 64,
    "positions": 16,
    "dropout": 0.0,
    "attention_dropout": 0.0,
}


def trained(device: Any, compiled: bool, clip: Callable[[Any, Any], Any]) -> hlx.models.CausalLM:
    """Six steps over random ids."""
    model = hlx.models.CausalLM(CONFIG, device, seed=7)
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.01)

    def step(ids: hlx.Tensor) -> hlx.Tensor:
        optimizer.zero_grad()
        logits = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        loss.backward(shards=8)
        clip(model, optimizer)
        optimizer.step()
        return loss

    run = hlx.compile(step) if compiled else step
    for i in range(6):
        run(_hlx.randint(hlx.device(device), 0, 64, [8, 17], 100 + i))
    return model


CLIPS = {
    "function": lambda model, optimizer: nn.utils.clip_grad_norm_(model.parameters(), 0.5),
    "optimizer": lambda model, optimizer: optimizer.clip_grad_norm_(0.5),
}


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_has_the_bits_of_the_one_in_rust(device: hlx.device, compiled: bool, clip: str) -> None:
    """Eager and recorded, on every device."""
    assert trained(device, compiled, CLIPS[clip]).digest() == DIGEST


def net_and_optimizer(device: Any) -> tuple[nn.Sequential, hlx.optim.SGD]:
    """A small network with gradients in the memory of its optimizer."""
    hlx.manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).to(device)
    optimizer = hlx.optim.SGD(net.parameters(), lr=0.1)
    x = _hlx.randn(hlx.device(device), [6, 5], 11)
    (net(x) ** 2).sum().backward()
    return net, optimizer


def norm_of(parameters: Any) -> float:
    """The norm of all gradients, by Python's numbers."""
    return sum(value**2 for one in parameters for value in one.grad.flatten().tolist()) ** 0.5


def test_a_limit_on_an_optimizers_gradients_is_one_reduction(device: hlx.device) -> None:
    """As a limit on gradients that lie apart, within rounding; the launches do not grow with the parameters."""
    net, optimizer = net_and_optimizer(device)
    apart = [nn.Parameter(one.detach().clone()) for one in net.parameters()]
    for one, own in zip(apart, net.parameters(), strict=True):
        one.grad = own.grad.clone()
    expected = norm_of(apart)
    for parameters in (net.parameters(), apart):
        assert nn.utils.clip_grad_norm_(parameters, 0.25).item() == pytest.approx(expected, rel=1e-6)
    for one, own in zip(apart, net.parameters(), strict=True):
        assert own.grad.tolist() == pytest.approx(one.grad.tolist(), rel=1e-6) if own.ndim == 1 else True
    assert norm_of(net.parameters()) == pytest.approx(0.25, rel=1e-5)
    assert nn.utils.clip_grad_norm_(net.parameters(), 1e9).item() == pytest.approx(0.25, rel=1e-5)
    assert optimizer.parameters_digest()


def test_a_limit_counts_the_gradients_that_are_given(device: hlx.device) -> None:
    """Some of an optimizer's parameters, and none that has no gradient."""
    net, _ = net_and_optimizer(device)
    first, *others = net.parameters()
    before = [one.grad.tolist() for one in others]
    expected = norm_of([first])
    assert nn.utils.clip_grad_norm_([first], 0.01).item() == pytest.approx(expected, rel=1e-6)
    assert [one.grad.tolist() for one in others] == before
    others[0].grad = None
    expected = norm_of([first, *others[1:]])
    assert nn.utils.clip_grad_norm_(net.parameters(), 0.01).item() == pytest.approx(expected, rel=1e-6)
    assert others[0].grad is None


def test_values_are_held_within_a_limit(device: hlx.device) -> None:
    """Of an optimizer's flat memory."""
    net, _ = net_and_optimizer(device)
    before = [one.grad.flatten().tolist() for one in net.parameters()]
    nn.utils.clip_grad_value_(net.parameters(), 0.125)
    for one, values in zip(net.parameters(), before, strict=True):
        assert one.grad.flatten().tolist() == [min(max(value, -0.125), 0.125) for value in values]


def test_a_frozen_parameter_of_a_language_model_is_no_part_of_the_norm(device: hlx.device) -> None:
    """Though a pass has left its gradient in the flat memory."""
    model = hlx.models.CausalLM(CONFIG, device, seed=7)
    ids = _hlx.randint(hlx.device(device), 0, 64, [2, 9], 5)

    def backward() -> None:
        model.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()

    backward()
    frozen = next(iter(model.parameters()))
    frozen.requires_grad_(False)
    backward()
    assert frozen.grad is None
    expected = norm_of([one for one in model.parameters() if one.grad is not None])
    assert nn.utils.clip_grad_norm_(model.parameters(), 0.5).item() == pytest.approx(expected, rel=1e-5)


def test_gradients_by_shards() -> None:
    """The sum of halves of the batch, each a chain of its own; a gradient that is there is added to."""
    x = hlx.tensor([[1e8], [1.0], [-1e8], [1.0]]).with_samples()
    sums = []
    for shards in (1, 2, 4):
        w = hlx.ones(1, requires_grad=True)
        (x * w).sum().backward(shards=shards)
        sums.append(w.grad.item())
    assert sums == [1.0, 0.0, 0.0]
    w = hlx.ones(1, requires_grad=True)
    for expected in (10.0, 20.0):
        (hlx.tensor([[1.0], [2.0], [3.0], [4.0]]).with_samples() * w).sum().backward(shards=2)
        assert w.grad.item() == expected


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda x, w: (x * w).sum().backward(shards=3), hlx.errors.ValueError, "3 shards do not divide a batch of 4"),
        (lambda x, w: (x * w).sum().backward(shards=0), hlx.errors.ValueError, "backward: shards is 0, expected"),
        (lambda x, w: (x * w).sum().backward(shards=2, inputs=[w]), hlx.errors.ValueError, "shards go without"),
        (lambda x, w: (x * w).sum().backward(retain_graph=True, shards=2), hlx.errors.ValueError, "shards go without"),
        (lambda x, w: x.with_samples(2), hlx.errors.ValueError, "with_samples: axis is 2, and the tensor has 2 dim"),
    ],
)
def test_shards_that_cannot_be(call: Any, kind: type[Exception], message: str) -> None:
    """One line that names the argument."""
    x = hlx.ones(4, 1).with_samples()
    with pytest.raises(kind, match=message):
        call(x, hlx.ones(1, requires_grad=True))


def test_the_state_of_a_language_model_with_frozen_parameters_is_restored(device: hlx.device) -> None:
    """It is that of the trained ones, and training goes on with the same bits."""

    def begun() -> tuple[hlx.models.CausalLM, hlx.optim.AdamW]:
        model = hlx.models.CausalLM(CONFIG, device, seed=7)
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("norm" in name)
        return model, hlx.optim.AdamW(model.parameters(), lr=0.01)

    def step(model: hlx.models.CausalLM, optimizer: hlx.optim.AdamW, seed: int) -> None:
        ids = _hlx.randint(hlx.device(device), 0, 64, [2, 9], seed)
        optimizer.zero_grad()
        F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
        optimizer.step()

    model, optimizer = begun()
    step(model, optimizer, 1)
    saved = optimizer.state_dict()
    assert len(saved["state"]) == sum(one.requires_grad for one in model.parameters()) > 0
    other, restored = begun()
    other.load_state_dict(model.state_dict())
    restored.load_state_dict(saved)
    assert restored.digest() == optimizer.digest()
    for one in ((model, optimizer), (other, restored)):
        step(*one, 2)
    assert model.digest() == other.digest() and optimizer.digest() == restored.digest()


def test_a_state_without_steps_begins_anew(device: hlx.device) -> None:
    """In an optimizer that has taken some; one of other buffers, too."""
    net, optimizer = net_and_optimizer(device)
    fresh = optimizer.state_dict()
    optimizer.param_groups[0]["momentum"] = 0.5
    optimizer.step()
    with_momentum = optimizer.state_dict()
    assert len(with_momentum["state"]) == 4
    optimizer.load_state_dict(fresh)
    assert optimizer.state_dict()["state"] == {} and optimizer.param_groups[0]["momentum"] == 0
    optimizer.load_state_dict(with_momentum)
    found = optimizer.state_dict()["state"]
    for place, own in with_momentum["state"].items():
        assert found[place]["momentum_buffer"].digest() == own["momentum_buffer"].digest()
    assert net is not None
