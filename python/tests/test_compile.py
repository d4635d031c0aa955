"""`hlx.compile`: recorded functions have the bits of the functions themselves."""

import threading

import pytest

import hlx
from hlx import _hlx
from hlx._compile import before_replay


def test_results_follow_the_arguments(device: hlx.device) -> None:
    """Shapes and values of arguments have recordings of their own, and results are not overwritten."""
    calls = []

    @hlx.compile
    def function(x: hlx.Tensor, factor: float, *, more: dict[str, hlx.Tensor]) -> dict[str, object]:
        calls.append(tuple(x.shape))
        return {"sum": (x * factor + more["bias"]).sum(), "parts": (x[0], "text")}

    results = []
    for i in range(4):
        for n in (2, 3):
            x = hlx.full((n,), float(i), device=device)
            results.append((n, i, function(x, 2.0, more={"bias": hlx.ones(n, device=device)})))
    assert calls == [(2,), (3,), (2,), (3,)]
    for n, i, result in results:
        assert result["sum"].item() == n * (2 * i + 1)
        assert (result["parts"][0].item(), result["parts"][1]) == (float(i), "text")
    assert function(hlx.ones(2, device=device), 3.0, more={"bias": hlx.zeros(2, device=device)})["sum"].item() == 6.0
    assert len(calls) == 5


def trained(device: hlx.device, compiled: bool) -> tuple[list[float], str]:
    """Losses and digest of 12 steps of a small network."""
    hlx.manual_seed(5)
    weights = [hlx.randn(6, 8, device=device), hlx.zeros(8, device=device), hlx.randn(8, 3, device=device)]
    for weight in weights:
        weight.requires_grad_()
    named = [(f"weight{i}", weight) for i, weight in enumerate(weights)]
    optimizer = _hlx.OptimizerState("AdamW", named, {"weight_decay": 0.1}, [])
    first, bias, second = weights

    def step(x: hlx.Tensor, y: hlx.Tensor) -> hlx.Tensor:
        logits = (x @ first + bias).relu() @ second
        loss = hlx.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        if before_replay(lambda: optimizer.prepare(0.01)):
            optimizer.update()
        else:
            optimizer.step(0.01)
        return loss

    if compiled:
        step = hlx.compile(step)
    losses = []
    for _ in range(12):
        x, y = hlx.randn(4, 6, device=device), hlx.randint(0, 3, (4,), device=device)
        losses.append(step(x, y).item())
    assert optimizer.steps == 12
    return losses, optimizer.parameters_digest()


def test_a_recorded_step_has_the_bits_of_the_step(device: hlx.device) -> None:
    """Losses and parameters, on every device."""
    plain = trained(hlx.device("cpu"), compiled=False)
    assert trained(device, compiled=True) == plain
    assert len(set(plain[0])) == 12


def test_dropout_draws_anew_in_each_replay(device: hlx.device) -> None:
    """Masks differ from replay to replay, and start again with the generator."""

    @hlx.compile
    def dropped(x: hlx.Tensor) -> hlx.Tensor:
        return hlx.nn.functional.dropout(x, 0.5)

    x = hlx.ones(256, device=device)
    hlx.manual_seed(1)
    masks = [dropped(x).digest() for _ in range(6)]
    assert len(set(masks)) == 6


def test_what_cannot_be_recorded_is_one_line(device: hlx.device) -> None:
    """A wait and a draw are refused, every time, and the device goes on."""
    x = hlx.ones(3, device=device)
    for function, text in [
        (lambda x: x * x.sum().item(), "download: not possible while a graph is being recorded"),
        (
            lambda x: x + hlx.randn(3, device=device),
            "randn: numbers cannot be drawn while a graph is recorded, as each",
        ),
    ]:
        compiled = hlx.compile(function)
        compiled(x)
        for _ in range(2):
            with pytest.raises(hlx.Error) as raised:
                compiled(x)
            assert str(raised.value).startswith(text)
            assert (x + 1).tolist() == [2.0, 2.0, 2.0]
    with pytest.raises(TypeError, match="^compile: an argument is a bytearray, expected tensors"):
        hlx.compile(lambda x, y: x)(x, bytearray())


def test_parameters_are_read_where_they_are() -> None:
    """A tensor that requires a gradient is part of the recording, not copied."""
    weight = hlx.ones(2, requires_grad=True)

    @hlx.compile
    def slope(weight: hlx.Tensor, x: hlx.Tensor) -> hlx.Tensor:
        weight.grad = None
        (weight * weight * x).sum().backward()
        return weight.grad.clone()

    x = hlx.tensor([1.0, 2.0])
    for factor in (1.0, 2.0, 3.0):
        with hlx.no_grad():
            weight.fill_(factor)
        assert slope(weight, x).tolist() == [2 * factor, 4 * factor]


def test_threads_share_a_compiled_function() -> None:
    """Calls of several threads wait for each other."""

    @hlx.compile
    def doubled(x: hlx.Tensor) -> hlx.Tensor:
        return x * 2

    results: dict[int, list[float]] = {}

    def work(i: int) -> None:
        for _ in range(20):
            results[i] = doubled(hlx.full((5,), float(i))).tolist()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {i: [2.0 * i] * 5 for i in range(8)}
