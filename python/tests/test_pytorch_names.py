"""Names that programs for PyTorch use: scalers of losses, backends, settings."""

import math

import pytest

import hlx
from hlx import nn


def test_a_scaler_changes_no_bit_and_leaves_out_what_is_not_finite(device: hlx.device) -> None:
    """Steps with it are those without; one whose gradients overflow is left out, and the factor halves."""
    digests = []
    for enabled in (False, True):
        hlx.manual_seed(1)
        model = nn.Linear(4, 2).to(device)
        optimizer = hlx.optim.AdamW(model.parameters(), lr=0.1)
        scaler = hlx.amp.GradScaler("cpu", enabled=enabled, growth_interval=4)
        for step in range(6):
            optimizer.zero_grad()
            with hlx.autocast("cpu", dtype=hlx.bfloat16):
                loss = model(hlx.full((3, 4), step / 7, device=device)).square().sum()
            scaler.scale(loss).backward()
            if step % 2:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            scaler.step(optimizer)
            scaler.update()
        digests.append(model.digest())
        if enabled:
            assert scaler.get_scale() == 2.0**17
            before = model.digest()
            optimizer.zero_grad()
            scaler.scale(model(hlx.ones(1, 4, device=device)).sum() * math.inf).backward()
            scaler.step(optimizer)
            scaler.update()
            assert (scaler.get_scale(), model.digest()) == (2.0**16, before)
    assert digests[0] == digests[1]


def test_a_scaler_has_pytorchs_numbers() -> None:
    """Factors over steps of which some overflow, and the state."""
    torch = pytest.importorskip("torch")
    options = {"init_scale": 8.0, "growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 2}
    scalers = [torch.amp.GradScaler("cpu", **options), hlx.amp.GradScaler("cpu", **options)]
    found: list[list[float]] = [[], []]
    for scaler, package, factors in zip(scalers, (torch, hlx), found, strict=True):
        w = package.ones(2, requires_grad=True)
        optimizer = package.optim.SGD([w], lr=0.5)
        for factor in (1.0, 1.0, math.inf, 1.0, math.nan, 1.0, 1.0, 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((w * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            factors += [scaler.get_scale(), *w.detach().tolist()]
    assert found[0] == found[1]
    assert scalers[0].state_dict() == scalers[1].state_dict()
    other = hlx.amp.GradScaler("cpu")
    other.load_state_dict(scalers[0].state_dict())
    assert other.state_dict() == scalers[1].state_dict()


def test_wrong_uses_of_a_scaler_are_errors() -> None:
    """What PyTorch refuses, too."""
    w = hlx.ones(1, requires_grad=True)
    optimizer, scaler = hlx.optim.SGD([w], lr=1.0), hlx.amp.GradScaler("cpu")
    with pytest.raises(hlx.errors.RuntimeError, match="^unscale_: no parameter of the optimizer has a gradient"):
        scaler.step(optimizer)
    with pytest.raises(hlx.errors.RuntimeError, match="^update: no gradient was unscaled"):
        scaler.update()
    scaler.scale([w.sum()])[0].backward()
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [1.0]
    with pytest.raises(hlx.errors.RuntimeError, match="^unscale_: the gradients of this optimizer are unscaled"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(hlx.errors.RuntimeError, match="^step: the optimizer has stepped"):
        scaler.step(optimizer)
    for name, value in [("init_scale", 0.0), ("growth_factor", 1.0), ("backoff_factor", 1.0), ("growth_interval", 0)]:
        with pytest.raises(hlx.errors.ValueError, match=f"^GradScaler: {name} is"):
            hlx.amp.GradScaler("cpu", **{name: value})
    with pytest.raises(hlx.errors.KeyError, match="^load_state_dict: scale is missing"):
        scaler.load_state_dict({})
    with pytest.raises(hlx.errors.TypeError, match="^scale: found str"):
        scaler.scale("loss")
    off = hlx.cuda.amp.GradScaler(enabled=False)
    assert (off.scale(3), off.get_scale(), off.state_dict()) == (3, 1.0, {})


def test_autocast_is_a_context_and_a_decorator() -> None:
    """It changes neither types nor what a function is called."""

    @hlx.autocast("cuda", dtype=hlx.float16)
    def product(x: hlx.Tensor) -> hlx.Tensor:
        """A product."""
        return x @ x

    with hlx.cuda.amp.autocast(), hlx.amp.autocast("vulkan", enabled=False):
        assert product(hlx.ones(2, 2)).dtype == hlx.float32
    assert (product.__name__, product.__doc__) == ("product", "A product.")
    with pytest.raises(hlx.errors.TypeError, match="^autocast: device_type is"):
        hlx.autocast(hlx.float16)  # type: ignore[arg-type]


def test_there_is_no_cuda() -> None:
    """What a program reads to choose a device says so, and what needs one raises."""
    assert (hlx.cuda.is_available(), hlx.cuda.device_count(), hlx.cuda.is_bf16_supported()) == (False, 0, False)
    assert not (hlx.backends.mps.is_available() or hlx.backends.cudnn.is_available() or hlx.backends.mps.is_built())
    hlx.cuda.manual_seed_all(1)
    hlx.cuda.empty_cache()
    for function in (hlx.cuda.synchronize, hlx.cuda.current_device, hlx.cuda.get_device_name):
        with pytest.raises(hlx.errors.RuntimeError, match=r"^cuda\.\w+: HLX has no CUDA device"):
            function()
    with pytest.raises(hlx.errors.RuntimeError, match=r"^cuda\.set_device: HLX has no CUDA device"):
        hlx.cuda.set_device(0)
    x = hlx.ones(2)
    with pytest.raises(hlx.errors.RuntimeError, match="^cuda: HLX has no CUDA device"):
        x.cuda()
    assert (x.is_cuda, x.is_pinned(), x.pin_memory() is x) == (False, False, True)


def test_settings_that_have_one_value() -> None:
    """Determinism and precision cannot be lowered."""
    hlx.use_deterministic_algorithms(True)
    with pytest.raises(hlx.errors.ValueError, match="^use_deterministic_algorithms: mode is False"):
        hlx.use_deterministic_algorithms(False)
    hlx.set_float32_matmul_precision("medium")
    assert hlx.get_float32_matmul_precision() == "highest"
    with pytest.raises(hlx.errors.ValueError, match="^set_float32_matmul_precision: precision is 'low'"):
        hlx.set_float32_matmul_precision("low")


def test_a_number_on_the_cpu_goes_with_tensors_of_a_gpu(vulkan: hlx.device) -> None:
    """As in PyTorch: a tensor without dimensions, on either side, with its gradient."""
    x = hlx.tensor([1.0, 2.0], device=vulkan)
    number = hlx.tensor(3.0, requires_grad=True)
    for y in (x * number, number * x):
        assert y.device == vulkan
        assert y.tolist() == [3.0, 6.0]
        number.grad = None
        y.sum().backward()
        assert number.grad.item() == 3.0
        assert number.grad.device == hlx.device("cpu")
    assert (number.detach() < hlx.tensor(4.0, device=vulkan)).item()
    assert (x - hlx.tensor(1)).tolist() == [0.0, 1.0]
    x.add_(hlx.tensor(1.0))
    assert x.tolist() == [2.0, 3.0]
    with pytest.raises(hlx.errors.ValueError, match="^mul: the right operand belongs to"):
        x * hlx.ones(2)
