"""`hlx.autocast`: which products it changes, where, and for whom."""

import threading

import pytest

import hlx
from hlx import nn


def rounded(x: hlx.Tensor, dtype: hlx.dtype) -> hlx.Tensor:
    """The numbers of a 16-bit type, as float32."""
    return x.to(dtype).to(hlx.float32)


@pytest.fixture
def operands() -> list[hlx.Tensor]:
    """Matrices that no type of 16 bits holds."""
    hlx.manual_seed(1)
    return [hlx.randn(5, 24), hlx.randn(24, 7)]


@pytest.mark.parametrize("dtype", [hlx.bfloat16, hlx.float16])
def test_products_have_rounded_operands_and_results_in_float32(operands: list[hlx.Tensor], dtype: hlx.dtype) -> None:
    """Products are those of rounded operands, and all else is as outside."""
    a, b = operands
    weight, images = hlx.randn(4, 3, 3, 3), hlx.randn(2, 3, 6, 5)
    with hlx.autocast("cpu", dtype=dtype):
        found = [a @ b, hlx.bmm(a[None], b[None])[0], nn.functional.linear(a, b.T)]
        convolved = nn.functional.conv2d(images, weight)
        other = [a.softmax(-1), nn.functional.layer_norm(a, (24,)), a.exp(), (a * a).sum()]
    exact = a @ b
    expected = rounded(a, dtype) @ rounded(b, dtype)
    for result in found:
        assert result.dtype == hlx.float32 and result.equal(expected) and not result.equal(exact)
    assert convolved.equal(nn.functional.conv2d(rounded(images, dtype), rounded(weight, dtype)))
    outside = [a.softmax(-1), nn.functional.layer_norm(a, (24,)), a.exp(), (a * a).sum()]
    assert all(x.equal(y) for x, y in zip(other, outside, strict=True))
    assert exact.equal(a @ b)


def test_contexts_nest_and_are_a_threads_own(operands: list[hlx.Tensor]) -> None:
    """The innermost context holds; `enabled=False` is float32 again; another thread has its own."""
    a, b = operands
    exact = a @ b
    of = {dtype: rounded(a, dtype) @ rounded(b, dtype) for dtype in (hlx.bfloat16, hlx.float16)}
    seen: list[object] = []
    assert not hlx.is_autocast_enabled("cpu")
    with hlx.autocast("cpu", dtype=hlx.bfloat16) as outer:
        assert (hlx.is_autocast_enabled("cpu"), hlx.is_autocast_enabled()) == (True, False)
        assert (a @ b).equal(of[hlx.bfloat16])
        with hlx.autocast("cpu", dtype=hlx.float16):
            assert (hlx.get_autocast_dtype("cpu"), (a @ b).equal(of[hlx.float16])) == (hlx.float16, True)
        with hlx.autocast("cpu", enabled=False):
            assert (hlx.is_autocast_enabled("cpu"), (a @ b).equal(exact)) == (False, True)
        with hlx.autocast("cuda"), outer:
            assert hlx.is_autocast_enabled("vulkan") and hlx.get_autocast_dtype("cuda") == hlx.float16
        thread = threading.Thread(target=lambda: seen.append((hlx.is_autocast_enabled("cpu"), (a @ b).equal(exact))))
        thread.start()
        thread.join()
        with pytest.raises(KeyError), hlx.autocast("cpu", dtype=hlx.float16):
            raise KeyError
        assert (a @ b).equal(of[hlx.bfloat16])
    assert seen == [(False, True)]
    assert (hlx.is_autocast_enabled("cpu"), (a @ b).equal(exact)) == (False, True)


def test_a_backward_pass_computes_as_its_forward_pass(operands: list[hlx.Tensor]) -> None:
    """Outside of the context, and within one for operations from outside of it."""
    a, b = operands
    dy = hlx.randn(5, 7)

    def gradients(forward: bool, backward: bool) -> list[hlx.Tensor]:
        x, w = (t.clone().requires_grad_() for t in (a, b))
        with hlx.autocast("cpu", enabled=forward):
            y = x @ w
        with hlx.autocast("cpu", enabled=backward):
            y.backward(dy)
        return [x.grad, w.grad]

    r = [rounded(t, hlx.bfloat16) for t in (a, b, dy)]
    expected = {True: [r[2] @ r[1].T, r[0].T @ r[2]], False: [dy @ b.T, a.T @ dy]}
    for forward in (False, True):
        for backward in (False, True):
            for found, wanted in zip(gradients(forward, backward), expected[forward], strict=True):
                assert hlx.allclose(found, wanted, rtol=1e-6, atol=1e-6)
    assert not hlx.allclose(expected[True][0], expected[False][0], rtol=1e-6, atol=1e-6)


def test_a_scaler_trains_within_it() -> None:
    """A small model learns in float16, with a scale that grows."""
    hlx.manual_seed(2)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = hlx.optim.AdamW(model.parameters(), lr=0.01)
    scaler = hlx.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=20)
    x = hlx.randn(32, 8)
    y = x[:, :1] * 2 - x[:, 1:2]
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with hlx.autocast("cpu", dtype=hlx.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.3 * losses[0]
    assert scaler.get_scale() == 1024.0 * 8


def test_a_compiled_function_is_recorded_again(operands: list[hlx.Tensor]) -> None:
    """A recording holds for the context in which it was made."""
    a, b = operands
    product = hlx.compile(lambda x, y: x @ y)
    exact, fast = a @ b, rounded(a, hlx.bfloat16) @ rounded(b, hlx.bfloat16)
    for _ in range(3):
        assert product(a, b).equal(exact)
        with hlx.autocast("cpu"):
            assert product(a, b).equal(fast)


def test_names_of_pytorch_are_there() -> None:
    """What programs ask and set."""
    assert hlx.get_autocast_dtype("cpu") == hlx.bfloat16 and hlx.get_autocast_dtype("vulkan") == hlx.float16
    hlx.set_autocast_dtype("vulkan", hlx.bfloat16)
    hlx.set_autocast_enabled("vulkan", True)
    assert hlx.is_autocast_enabled() and hlx.get_autocast_dtype("cuda") == hlx.bfloat16
    hlx.set_autocast_enabled("vulkan", False)
    hlx.set_autocast_dtype("vulkan", hlx.float16)
    with hlx.autocast("cpu", cache_enabled=False):
        assert not hlx.is_autocast_cache_enabled()
    assert hlx.is_autocast_cache_enabled()
    hlx.clear_autocast_cache()
    with pytest.raises(hlx.errors.ValueError, match="^autocast: dtype is hlx.float32, expected float16 or bfloat16"):
        hlx.autocast("cpu", dtype=hlx.float32)
    with pytest.raises(hlx.errors.RuntimeError, match="^autocast: device_type is 'tpu', expected 'cpu' or 'vulkan'"):
        hlx.autocast("tpu")
