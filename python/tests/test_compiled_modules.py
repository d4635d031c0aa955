"""`hlx.compile` of modules: replayed passes have the bits of the module's own."""

import copy
import gc
import pickle
from typing import Any

import pytest

import hlx
from hlx import nn


class Net(nn.Module):
    """A little of everything: tied weights, a norm, a buffer, two results and one that is None."""

    def __init__(self) -> None:
        """The layers."""
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.body = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 8))
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.calls = 0

    def forward(self, ids: hlx.Tensor, targets: hlx.Tensor | None = None) -> tuple[hlx.Tensor, hlx.Tensor | None]:
        """The logits and, with targets, the loss."""
        self.calls += 1
        x = self.embedding(ids)
        logits = self.head(x + self.body(x))
        return logits, None if targets is None else nn.functional.cross_entropy(logits, targets)

    def answer(self) -> int:
        """What a module has of its own."""
        return 42


def trained(net: Net, model: Any, device: hlx.device, steps: int = 6) -> list[object]:
    """Losses and digests of training with an evaluation in between."""
    hlx.manual_seed(3)
    optimizer, found = hlx.optim.AdamW(model.parameters(), lr=1e-2), []
    for step in range(steps):
        ids, targets = (hlx.randint(0, 10, (12,), device=device) for _ in range(2))
        logits, loss = model(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found += [loss.item(), logits.digest()]
        if step >= 1:
            model.eval()
            with hlx.no_grad():
                found.append(model(ids)[0].digest())
            model.train()
    return [*found, net.digest()]


def test_training_has_the_bits_of_the_module(device: hlx.device) -> None:
    """Losses, results and parameters; the module's code runs twice per kind of call."""
    hlx.manual_seed(1)
    net = Net()
    expected = trained(plain := copy.deepcopy(net), plain, hlx.device("cpu"))
    net.to(device)
    assert trained(net, hlx.compile(net), device) == expected
    assert plain.calls == 11
    assert net.calls == 4
    assert len({loss for loss in expected if isinstance(loss, float)}) == 6


def test_calls_before_a_backward_pass_compute_as_the_module(device: hlx.device) -> None:
    """No call takes the memory that a pass still needs, and none waits for one that cannot come."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
    model = hlx.compile(net)
    xs = [hlx.full((2, 3), float(i), device=device) for i in range(5)]
    for _ in range(2):
        model(xs[0]).sum().backward()

    def gradients(called: Any) -> list[str]:
        ys, found = [called(x) for x in xs], []
        del ys[1]
        gc.collect()
        for y in reversed(ys):
            net.zero_grad()
            y.sum().backward()
            found += [parameter.grad.digest() for parameter in net.parameters()]
        return found

    assert gradients(model) == gradients(net)
    # A result that was given up does not stand in the way of a replay.
    forwards = []
    net.register_forward_hook(lambda *_: forwards.append(1))
    again = hlx.compile(net)
    for x in xs:
        again(x)
    assert len(forwards) == 2


def test_a_second_backward_pass_is_refused(device: hlx.device) -> None:
    """The graph's memory holds what one pass needs; a kept tape does not change that."""
    net = nn.Linear(2, 1, bias=False).to(device)
    model, x = hlx.compile(net), hlx.ones(1, 2, device=device)
    for _ in range(2):
        model(x).sum().backward()
    for calls_again in (False, True):
        net.zero_grad()
        loss = model(x).sum()
        loss.backward(retain_graph=True)
        assert net.weight.grad.tolist() == [[1.0, 1.0]]
        if calls_again:
            model(x)
        with pytest.raises(hlx.errors.RuntimeError):
            loss.backward()


def test_gradients_of_several_calls_are_added(device: hlx.device) -> None:
    """As those of the module, up to the rounding of sums."""
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)
    found = {}
    for name, called in (("module", net), ("compiled", hlx.compile(net))):
        net.zero_grad()
        for i in range(4):
            called(hlx.full((2, 3), float(i), device=device)).sum().backward()
        found[name] = [parameter.grad.clone() for parameter in net.parameters()]
    for expected, gradient in zip(found["module"], found["compiled"], strict=True):
        assert hlx.allclose(gradient, expected, rtol=1e-6, atol=1e-6)
        assert gradient.abs().max().item() > 0.1


def test_inputs_have_gradients_and_hooks_run_once(device: hlx.device) -> None:
    """An input on the tape is differentiated; a hook of a parameter sees each gradient once."""
    net = nn.Linear(2, 2).to(device)
    model, calls = hlx.compile(net), []
    net.weight.register_hook(lambda gradient: calls.append(1) or gradient * 10)
    for i in range(4):
        net.zero_grad()
        x = hlx.full((1, 2), float(i), device=device).requires_grad_()
        model(x * 3).sum().backward()
        expected = (net.weight.detach().sum(0) * 3).tolist()
        assert x.grad.tolist() == [expected], i
        assert net.weight.grad.tolist() == [[30.0 * i] * 2] * 2
    assert len(calls) == 4


def test_dropout_drops_the_same_in_both_passes(device: hlx.device) -> None:
    """The mask of a replay is that of its backward pass, and another one next time."""

    class Dropped(nn.Module):
        """A scaled input, some of it dropped."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(hlx.ones(256))

        def forward(self, x: hlx.Tensor) -> hlx.Tensor:
            """Drops half of the elements."""
            return nn.functional.dropout(x * self.scale, 0.5, self.training)

    net = Dropped().to(device)
    model, x, masks = hlx.compile(net), hlx.ones(256, device=device), set()
    for _ in range(6):
        net.zero_grad()
        y = model(x)
        y.sum().backward()
        assert net.scale.grad.digest() == y.detach().digest()
        masks.add(y.detach().digest())
    assert len(masks) == 6


def test_what_decides_a_recording(device: hlx.device) -> None:
    """Frozen parameters, modes, and moved modules are recorded anew."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    model = hlx.compile(net)
    for place in ("cpu", device, "cpu"):
        net.to(place)
        for frozen in (True, False, True):
            net[0].requires_grad_(not frozen)
            for factor in (1.0, 2.0, 3.0):
                with hlx.no_grad():
                    net[1].weight.fill_(factor)
                net.zero_grad()
                y = model(hlx.ones(1, 2, device=place))
                y.sum().backward()
                assert y.detach().digest() == net(hlx.ones(1, 2, device=place)).detach().digest()
                assert (net[0].weight.grad is None) == frozen
                if not frozen:
                    assert net[0].weight.grad.tolist() == [[factor, factor]] * 3


def test_it_is_the_module(tmp_path: Any) -> None:
    """Names of the state, attributes, copies, and errors."""
    net = Net()
    model = hlx.compile(net)
    assert model.answer() == 42
    assert model.embedding is net.embedding
    assert hlx.compile(model) is model
    assert list(model.state_dict()) == [f"_orig_mod.{name}" for name in net.state_dict()]
    assert [id(p) for p in model.parameters()] == [id(p) for p in net.parameters()]
    model.eval()
    assert not net.training
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(hlx.compile(nn.Linear(2, 2))))):
        assert type(copied) is type(model)
    assert copy.deepcopy(model)._orig_mod is not net
    with pytest.raises(hlx.errors.AttributeError, match="nothing"):
        model.nothing  # noqa: B018


def test_what_cannot_be_recorded_is_an_error(device: hlx.device) -> None:
    """A wait within the module is refused at the second call, and the module goes on."""

    class Waits(nn.Module):
        """Reads a number."""

        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(hlx.ones(1))

        def forward(self, x: hlx.Tensor) -> hlx.Tensor:
            """Reads the sum of x."""
            return x * self.scale * x.sum().item()

    net = Waits().to(device)
    model, x = hlx.compile(net), hlx.ones(2, device=device)
    model(x).sum().backward()
    for _ in range(2):
        with pytest.raises(hlx.Error, match="while a graph is being recorded"):
            model(x)
        net.zero_grad()
        net(x).sum().backward()
        assert net.scale.grad.tolist() == [4.0]


def test_language_models_of_the_native_layer(device: hlx.device) -> None:
    """A `CausalLM` keeps its parameters, and has the bits of its own passes."""
    config = {"vocabulary": 32, "width": 16, "n_layers": 1, "n_heads": 2, "feed_forward_width": 16, "positions": 8}
    plain = hlx.models.CausalLM({**config, "dropout": 0.0, "attention_dropout": 0.0}, device, seed=1)
    other = copy.deepcopy(plain)
    ids = hlx.tensor([[1, 2, 3, 4]], device=device)

    def trained_digest(model: Any, net: Any) -> str:
        optimizer = hlx.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(ids)[0], ids[0]).backward()
            optimizer.step()
        return net.digest()

    before = plain.digest()
    assert trained_digest(hlx.compile(other), other) == trained_digest(plain, plain) != before
