"""Names that programs for PyTorch use: scalers of losses, backends, settings."""

import math
from pathlib import Path
from typing import Any

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


def test_a_module_is_called_with_other_parameters(device: hlx.device) -> None:
    """Tied ones too, with gradients to what is given; the module stays as it is."""
    net = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)}).to(device)
    net["b"].weight = net["a"].weight

    class Chain(nn.Module):
        """Both layers, one after the other."""

        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.register_buffer("shift", hlx.zeros(2, device=device))

        def forward(self, x: hlx.Tensor, factor: float = 1.0) -> hlx.Tensor:
            """Computes `b(a(x)) factor + shift`."""
            return self.net["b"](self.net["a"](x)) * factor + self.shift

    module, x = Chain(), hlx.ones(1, 2, device=device)
    before, weight = module.digest(), hlx.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)
    shift = hlx.ones(2, device=device)
    y = hlx.func.functional_call(module, ({"net.a.weight": weight}, {"shift": shift}), x, {"factor": 2.0})
    assert y.tolist() == [[35.0, 75.0]]
    y.sum().backward()
    assert weight.grad is not None
    assert net["a"].weight.grad is None
    untied = hlx.func.functional_call(module, {"net.a.weight": weight}, (x,), tie_weights=False)
    assert untied.tolist() == net["b"](x @ weight.t()).tolist()
    assert module.digest() == before
    for state, text, options in [
        ({"c": shift}, "the module has no parameter or buffer 'c'", {}),
        ({"shift": shift}, "'net.a.weight' is not given", {"strict": True}),
    ]:
        with pytest.raises(hlx.errors.KeyError, match=f"^functional_call: {text}"):
            hlx.func.functional_call(module, state, (x,), **options)
    with pytest.raises(hlx.errors.ValueError, match="^functional_call: 'shift' is given twice"):
        hlx.func.functional_call(module, [{"shift": shift}, {"shift": shift}], (x,))
    with pytest.raises(hlx.errors.TypeError, match="^functional_call: 'shift' is a float"):
        hlx.func.functional_call(module, {"shift": 1.0}, (x,))  # type: ignore[dict-item]
    assert module.digest() == before


def test_views_in_place(device: hlx.device) -> None:
    """Shapes and values are PyTorch's; a parameter is refused, and what it is a view of is not changed."""

    def course(package: Any, **where: Any) -> list[Any]:
        x = package.arange(6.0, **where).reshape(1, 2, 3, 1)
        base = x[0]
        found = [list(x.squeeze_(0).shape), list(x.squeeze_().shape), x.t_().tolist(), list(x.unsqueeze_(-1).shape)]
        found += [x.transpose_(0, 2).tolist(), list(x.swapaxes_(1, 2).shape), list(x.swapdims_(-1, 0).shape)]
        x.add_(1.0)
        return [*found, x.tolist(), base.tolist(), list(package.ones(2, 1, 1).squeeze_((1,)).shape)]

    torch = pytest.importorskip("torch")
    assert course(hlx, device=device) == course(torch)
    parameter = hlx.ones(2, 1, device=device, requires_grad=True)
    with pytest.raises(hlx.errors.RuntimeError, match="^t_: the tensor is a leaf that requires a gradient; use t"):
        parameter.t_()
    y = parameter * 2
    (y.squeeze_(1) * hlx.tensor([1.0, 3.0], device=device)).sum().backward()
    assert parameter.grad.tolist() == [[2.0], [6.0]]


def test_gradients_of_inputs_alone() -> None:
    """PyTorch's keyword has its only sensible value."""
    x = hlx.ones(2, requires_grad=True)
    (slope,) = hlx.autograd.grad((x * x).sum(), x, create_graph=True, only_inputs=True)
    assert slope.tolist() == [2.0, 2.0]
    with pytest.raises(hlx.errors.NotImplementedError, match="^grad: only_inputs is False"):
        hlx.autograd.grad(x.sum(), x, only_inputs=False)


def test_the_state_of_the_generator_goes_into_a_checkpoint(device: hlx.device, tmp_path: Path) -> None:
    """Draws, dropout and shuffled loaders go on where they were."""

    def drawn() -> list[Any]:
        loader = hlx.utils.data.DataLoader(list(range(9)), batch_size=9, shuffle=True)
        dropped = nn.functional.dropout(hlx.ones(64, device=device), 0.5)
        return [
            hlx.rand(3, device=device).tolist(),
            dropped.tolist(),
            hlx.randperm(9).tolist(),
            next(iter(loader)).tolist(),
        ]

    hlx.manual_seed(2**64 - 1)
    drawn()
    hlx.save({"random": hlx.get_rng_state()}, tmp_path / "checkpoint.pt")
    expected = [drawn(), drawn()]
    hlx.seed()
    assert drawn() != expected[0]
    hlx.set_rng_state(hlx.load(tmp_path / "checkpoint.pt")["random"])
    assert [drawn(), drawn()] == expected
    assert hlx.initial_seed() == 2**64 - 1
    for wrong in ((1, 2), (1, 2, -1), (1, 2, 2**64), "abc", None):
        with pytest.raises(hlx.errors.TypeError, match="^set_rng_state: new_state is not what get_rng_state returned"):
            hlx.set_rng_state(wrong)
