"""Parametrized tensors, and norms of weights, beside PyTorch's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

import hlx
from hlx import nn
from hlx.nn.utils import parametrizations, parametrize

torch = pytest.importorskip("torch")


def close(one: Any, two: Any) -> bool:
    """Within rounding."""
    return np.allclose(np.array(one.detach().tolist()), np.array(two.detach().tolist()), rtol=2e-5, atol=2e-6)


class Doubled(nn.Module):
    """Twice the original."""

    def forward(self, x: hlx.Tensor) -> hlx.Tensor:
        """Doubles."""
        return 2 * x

    def right_inverse(self, x: hlx.Tensor) -> hlx.Tensor:
        """Halves."""
        return x / 2


class Shifted(nn.Module):
    """One more, without a way back."""

    def forward(self, x: hlx.Tensor) -> hlx.Tensor:
        """Adds 1."""
        return x + 1


def linears() -> tuple[Any, Any]:
    """The same layer of both."""
    theirs = torch.nn.Linear(5, 3)
    ours = nn.Linear(5, 3)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


@pytest.mark.parametrize("dim", [0, 1, None, -1])
def test_weight_norm_is_pytorchs(device: hlx.device, dim: int | None) -> None:
    """Names and values of the state, outputs, and gradients of lengths and direction."""
    ours, theirs = linears()
    ours.to(device)
    parametrizations.weight_norm(ours, dim=dim)
    torch.nn.utils.parametrizations.weight_norm(theirs, dim=dim)
    x = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    (ours(hlx.tensor(x, device=device)) ** 2).sum().backward()
    (theirs(torch.tensor(x)) ** 2).sum().backward()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for (_, one), (_, two) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert one.shape == two.shape and close(one, two) and close(one.grad, two.grad)
    ours.load_state_dict({name: 2 * value for name, value in theirs.state_dict().items()})


def test_weight_norm_of_a_convolution() -> None:
    """A length for each output channel."""
    theirs = torch.nn.Conv1d(3, 4, 2)
    ours = nn.Conv1d(3, 4, 2)
    ours.load_state_dict(theirs.state_dict())
    parametrizations.weight_norm(ours)
    torch.nn.utils.parametrizations.weight_norm(theirs)
    assert ours.parametrizations.weight.original0.shape == (4, 1, 1)
    assert close(ours.weight, theirs.weight)


@pytest.mark.parametrize("kind", ["Linear", "Conv2d", "ConvTranspose2d"])
def test_spectral_norm_is_pytorchs(kind: str) -> None:
    """From the same singular vectors: outputs, gradients and vectors after steps of training, and in evaluation."""
    arguments = (5, 3) if kind == "Linear" else (3, 4, 2)
    shape = (4, 5) if kind == "Linear" else (2, 3, 6, 6)
    theirs = getattr(torch.nn, kind)(*arguments)
    ours = getattr(nn, kind)(*arguments)
    ours.load_state_dict(theirs.state_dict())
    parametrizations.spectral_norm(ours, n_power_iterations=2)
    torch.nn.utils.parametrizations.spectral_norm(theirs, n_power_iterations=2)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for training in (True, True, False):
        ours.train(training)
        theirs.train(training)
        one, two = ours(hlx.tensor(x)), theirs(torch.tensor(x))
        assert close(one, two)
        (one**2).sum().backward()
        (two**2).sum().backward()
    for (name, mine), (_, other) in zip(ours.named_parameters(), theirs.named_parameters(), strict=True):
        assert np.allclose(mine.grad.tolist(), other.grad.tolist(), rtol=1e-3, atol=1e-4), name
    for (name, mine), (_, other) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
        assert close(mine, other), name


def test_spectral_norm_divides_by_the_largest_singular_value() -> None:
    """A drawn beginning converges."""
    layer = nn.Linear(6, 4)
    expected = np.linalg.norm(np.array(layer.weight.tolist()), 2)
    before = np.array(layer.weight.tolist())
    parametrizations.spectral_norm(layer)
    for _ in range(200):
        _ = layer.weight
    assert np.allclose(layer.weight.tolist(), before / expected, rtol=1e-4, atol=1e-5)


def test_a_parametrized_tensor_is_computed_when_it_is_read() -> None:
    """The parameter stays the same object, and a value that is assigned goes to it."""
    layer = nn.Linear(2, 2)
    weight, value = layer.weight, layer.weight.tolist()
    parametrize.register_parametrization(layer, "weight", Doubled())
    assert layer.parametrizations.weight.original is weight
    assert layer.weight.tolist() == value and weight.tolist() == [[x / 2 for x in row] for row in value]
    assert [name for name, _ in layer.named_parameters()] == ["bias", "parametrizations.weight.original"]
    layer.weight = hlx.full((2, 2), 8.0)
    assert weight.tolist() == [[4.0, 4.0], [4.0, 4.0]]
    parametrize.register_parametrization(layer, "weight", Shifted())
    assert layer.weight.tolist() == [[9.0, 9.0], [9.0, 9.0]]
    layer(hlx.ones(1, 2)).sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert repr(layer).startswith("ParametrizedLinear(\n  in_features=2, out_features=2, bias=True")
    assert isinstance(layer, nn.Linear) and not parametrize.is_parametrized(nn.Linear(2, 2))


def test_parametrizations_are_removed() -> None:
    """With the value, or with the original; the class is that of before."""
    for leave in (True, False):
        layer = nn.Linear(2, 2)
        weight, value = layer.weight, layer.weight.tolist()
        parametrize.register_parametrization(layer, "weight", Shifted())
        parametrize.remove_parametrizations(layer, "weight", leave)
        assert type(layer) is nn.Linear and layer.weight is weight
        assert layer.weight.tolist() == ([[np.float32(x) + 1 for x in row] for row in value] if leave else value)
        assert not parametrize.is_parametrized(layer)
    layer = parametrizations.weight_norm(nn.Linear(2, 2))
    value = layer.weight.tolist()
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.tolist() == value and layer.weight.requires_grad


def test_copies_and_pickles_are_parametrized() -> None:
    """Apart from the first, and from other layers of the class."""
    layer = parametrizations.weight_norm(nn.Linear(3, 2))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert other.weight.tolist() == layer.weight.tolist()
        other.parametrizations.weight.original0.data.mul_(2)
        assert other.weight.tolist() != layer.weight.tolist()
        parametrize.remove_parametrizations(other, "weight")
        assert type(other) is nn.Linear and parametrize.is_parametrized(layer, "weight")


def test_a_block_computes_each_tensor_once() -> None:
    """Nested blocks, too; afterwards it is computed anew."""
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "bias", Shifted())
    with parametrize.cached():
        first = layer.bias
        with parametrize.cached():
            assert layer.bias is first
        assert layer.bias is first
    assert layer.bias is not first


class Wrong(nn.Module):
    """Another shape."""

    def forward(self, x: hlx.Tensor) -> hlx.Tensor:
        """Drops a row."""
        return x[:1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: parametrize.register_parametrization(m, "weights", Doubled()), "Linear has no parameter, buffer or"),
        (lambda m: parametrize.register_parametrization(m, "weight", Wrong()), "a parametrization returned .1, 3."),
        (lambda m: parametrize.remove_parametrizations(m, "weight"), "Linear.weight is not parametrized"),
        (lambda m: parametrizations.weight_norm(m, "gain"), "weight_norm: Linear has no parameter or buffer 'gain'"),
        (lambda m: parametrizations.spectral_norm(m, n_power_iterations=0), "n_power_iterations is 0, expected"),
        (
            lambda m: parametrize.remove_parametrizations(parametrizations.weight_norm(m), "weight", False),
            "weight has 2 originals, expected leave_parametrized=True",
        ),
    ],
)
def test_parametrizations_that_cannot_be(call: Any, message: str) -> None:
    """One line; the module stays what it was."""
    layer = nn.Linear(3, 2)
    with pytest.raises(hlx.errors.ValueError, match=message):
        call(layer)
