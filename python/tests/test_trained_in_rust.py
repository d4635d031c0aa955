"""A model that is trained in Python has the digest of the same model trained in Rust: both tests name it, this one
and `crates/hlx/tests/trained_in_python.rs`."""

import pytest

import hlx
from hlx import _hlx, nn

#: The SHA-256 over the parameters after the last step.
DIGEST = "49fc14099badeea85a509b3310d6853757da3fc865b4d63f0e8c6f6d344641d7"


@pytest.mark.parametrize("compiled", [False, True])
def test_a_model_has_the_digest_of_the_one_that_rust_trains(device: hlx.device, compiled: bool) -> None:
    """Eager and recorded steps, on every device."""
    model = nn.Sequential(nn.Linear(12, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5)).to(device)
    with hlx.no_grad():
        for seed, parameter in enumerate(model.parameters(), 1):
            parameter.copy_(_hlx.randn(device, list(parameter.shape), seed) * 0.5)
    optimizer = hlx.optim.AdamW(model.named_parameters(), lr=0.01)

    def step(x: hlx.Tensor, y: hlx.Tensor) -> hlx.Tensor:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    if compiled:
        step = hlx.compile(step)
    for i in range(20):
        x = _hlx.randn(device, [9, 12], 100 + i)
        y = _hlx.randint(device, 0, 5, [9], 200 + i)
        step(x, y)
    assert model.digest() == DIGEST
    assert optimizer.parameters_digest() == DIGEST
