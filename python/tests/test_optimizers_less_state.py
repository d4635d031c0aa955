"""AdamW with moments in 8 bits and Adafactor: the bits of the specification in NumPy, PyTorch's values, and their states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from reference_optimizers import F32, Numbers, adam

import hlx

SHAPES = {"matrix": (70, 71), "bias": (33,), "cube": (3, 17, 90)}


def parameters(device: Any = "cpu") -> dict[str, hlx.Tensor]:
    """Named parameters with values of a seed."""
    generator = hlx.Generator().manual_seed(5)
    made = {name: hlx.randn(shape, generator=generator, device=device) for name, shape in SHAPES.items()}
    return {name: x.requires_grad_() for name, x in made.items()}


def set_gradients(named: dict[str, hlx.Tensor], step: int) -> None:
    """Gradients of a seed, of magnitudes from 1 to 1e-6."""
    generator = hlx.Generator().manual_seed(100 + step)
    for x in named.values():
        gradient = hlx.randn(x.shape, generator=generator, device=x.device)
        scale = hlx.tensor([10.0 ** -(i % 7) for i in range(x.shape[-1])], device=x.device)
        x.grad = gradient * scale


def numbers_of(fine: int) -> np.ndarray:
    """The numbers that bytes stand for, by the words of the specification."""
    found = [0.0]
    for c in range(4, (8 << fine) + 1):
        m = c.bit_length() - 3
        e, rest = (c >> m) - 4, c % (1 << m)
        found.append(2.0 ** (e - 4 - 4 * (fine - m)) * (1 + rest / (1 << m)))
    return np.array(found)


def stored(moment: np.ndarray, is_first: bool) -> np.ndarray:
    """What a moment is after it was stored in bytes; those of fewer than 4,096 elements stay."""
    if moment.size < 4096:
        return moment
    numbers = numbers_of(4 if is_first else 5)
    flat, out = moment.ravel(), np.zeros(moment.size, F32)
    for begin in range(0, flat.size, 256):
        block = flat[begin : begin + 256]
        scale = np.abs(block).max()
        if scale < 2.0**-100:
            continue
        r = (np.abs(block) / scale).astype(np.float64)
        middles = (numbers[1:] + numbers[:-1]) / 2
        codes = np.searchsorted(middles, r, side="right")
        if not is_first:
            codes = np.maximum(codes, block > 0)
        values = scale * numbers[codes].astype(F32)
        # A zero has no sign.
        out[begin : begin + 256] = np.where((block < 0) & (codes > 0), -values, values)
    return out.reshape(moment.shape)


def words(x: np.ndarray) -> list[int]:
    """The bits of an array."""
    return np.ascontiguousarray(x, F32).ravel().view(np.uint32).tolist()


def test_adamw_8bit_has_the_bits_of_its_specification(device: hlx.device) -> None:
    """Parameters and the state of four steps, beside the specification in NumPy."""
    named = parameters(device)
    optimizer = hlx.optim.AdamW8bit(list(named.items()), lr=0.02, weight_decay=0.1)
    twins = {name: x.detach().cpu().numpy().copy() for name, x in named.items()}
    states = {name: {"mean": np.zeros_like(p), "square": np.zeros_like(p)} for name, p in twins.items()}
    for step in range(1, 5):
        set_gradients(named, step)
        optimizer.step()
        for name, p in twins.items():
            numbers = Numbers(step, 0.02, 0.1, eps=1e-8)
            state = states[name]
            twins[name] = adam(numbers, {"decoupled": True}, p, named[name].grad.cpu().numpy().copy(), state)
            state["mean"], state["square"] = stored(state["mean"], True), stored(state["square"], False)
    found = optimizer.state_dict()["state"]
    for place, (name, x) in enumerate(named.items()):
        assert words(x.detach().cpu().numpy()) == words(twins[name]), name
        assert words(found[place]["exp_avg"].numpy()) == words(states[name]["mean"]), name
        assert words(found[place]["exp_avg_sq"].numpy()) == words(states[name]["square"]), name


def test_a_state_of_adamw_8bit_goes_on_where_it_was_saved() -> None:
    """Through `state_dict`, whose floats are stored again without loss; and from a state of AdamW."""
    named = parameters()
    optimizer = hlx.optim.AdamW8bit(named.values(), lr=0.02)
    for step in range(3):
        set_gradients(named, step)
        optimizer.step()
    resumed = parameters()
    with hlx.no_grad():
        for name, x in resumed.items():
            x.copy_(named[name].detach())
    second = hlx.optim.AdamW8bit(resumed.values(), lr=0.02)
    second.load_state_dict(optimizer.state_dict())
    assert second.digest() == optimizer.digest()
    for each, of in ((named, optimizer), (resumed, second)):
        set_gradients(each, 3)
        of.step()
    assert second.parameters_digest() == optimizer.parameters_digest()
    assert second.digest() == optimizer.digest()
    floats = hlx.optim.AdamW(resumed.values(), lr=0.02)
    set_gradients(resumed, 4)
    floats.step()
    third = hlx.optim.AdamW8bit(parameters().values(), lr=0.02)
    third.load_state_dict(floats.state_dict())
    mean = third.state_dict()["state"][0]["exp_avg"].numpy()
    assert words(mean) == words(stored(floats.state_dict()["state"][0]["exp_avg"].numpy(), True))


@pytest.mark.parametrize("settings", [{}, {"beta2_decay": -0.5, "eps": (1e-3, 0.05), "d": 1.5, "weight_decay": 0.2}])
def test_adafactor_is_pytorchs(settings: dict[str, Any], device: hlx.device) -> None:
    """Ten steps beside PyTorch in float64, over two groups, and its state, which either loads of the other."""
    torch = pytest.importorskip("torch")
    named = parameters(device)
    settings = {"eps": (2.0**-23, 1e-3), **settings}

    def groups(x: list[Any]) -> list[dict[str, Any]]:
        return [{"params": x[:1]}, {"params": x[1:], "lr": 0.5, "weight_decay": 0.1}]

    optimizer = hlx.optim.Adafactor(groups(list(named.values())), lr=0.05, **settings)
    twins = [torch.tensor(x.tolist(), dtype=torch.float64, requires_grad=True) for x in named.values()]
    theirs = torch.optim.Adafactor(groups(twins), lr=0.05, **settings)
    for step in range(10):
        set_gradients(named, step)
        for x, twin in zip(named.values(), twins, strict=True):
            twin.grad = torch.tensor(x.grad.tolist(), dtype=torch.float64)
        optimizer.step(), theirs.step()
    for x, twin in zip(named.values(), twins, strict=True):
        np.testing.assert_allclose(x.detach().cpu().numpy(), twin.detach().numpy(), rtol=2e-4, atol=2e-5)
    mine, state = optimizer.state_dict()["state"], theirs.state_dict()["state"]
    for place, own in state.items():
        for key, value in own.items():
            found = mine[place][key]
            if key == "step":
                assert found == int(value)
                continue
            assert tuple(found.shape) == tuple(value.shape), key
            np.testing.assert_allclose(found.numpy(), value.numpy(), rtol=1e-4, atol=1e-12)
    second = hlx.optim.Adafactor(groups(list(parameters(device).values())), lr=0.05, **settings)
    second.load_state_dict(optimizer.state_dict())
    assert second.state_dict()["state"][0]["row_var"].tolist() == mine[0]["row_var"].tolist()


def test_numbers_out_of_range_are_refused() -> None:
    """By one line that names the argument."""
    with pytest.raises(ValueError, match="beta2_decay is 0.5, expected at most 0"):
        hlx.optim.Adafactor(parameters().values(), beta2_decay=0.5)
    with pytest.raises(ValueError, match="d is 0.5, expected at least 1"):
        hlx.optim.Adafactor(parameters().values(), d=0.5)
    with pytest.raises(NotImplementedError, match="maximize"):
        hlx.optim.Adafactor(parameters().values(), maximize=True)
    with pytest.raises(NotImplementedError, match="amsgrad"):
        hlx.optim.AdamW8bit(parameters().values(), amsgrad=True)
