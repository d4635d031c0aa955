"""Layers beside PyTorch's, and models that train: equal bits on all devices."""

import copy
import math
from pathlib import Path

import pytest

import hlx
from hlx import nn

F = nn.functional
FIXTURES = Path(__file__).parents[2] / "crates/hlx-nn/tests/fixtures"
in_the_repository = pytest.mark.skipif(not FIXTURES.exists(), reason="the fixtures are in the repository alone")


def cnn() -> nn.Sequential:
    """The model of `cnn_state_dict.safetensors`."""
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 8, 3, padding=1),
        nn.GroupNorm(2, 8),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(32, 5),
    )


def close(found: hlx.Tensor, expected: hlx.Tensor, tolerance: float = 5e-6) -> bool:
    """Whether two tensors agree to a part of the largest value."""
    expected = expected.to(found.device).float()
    difference = (found.detach() - expected).abs().amax().item()
    return difference <= tolerance * max(expected.abs().amax().item(), 1.0)


@in_the_repository
def test_a_file_of_pytorch_continues(device: hlx.device) -> None:
    """A state of PyTorch loads; outputs, gradients and running values are its own, computed in f64."""
    kept = hlx.load_file(FIXTURES / "layers.safetensors", device)
    case = {name.removeprefix("cnn."): value for name, value in kept.items() if name.startswith("cnn.")}
    model = cnn().to(device)
    model.load_state_dict({name[6:]: value for name, value in case.items() if name.startswith("state.")})
    x = case["input"].requires_grad_()
    y = model(x)
    (y * case["upstream"]).sum().backward()
    assert close(y, case["output"]) and close(x.grad, case["dinput"], 2e-5)
    for name, parameter in model.named_parameters():
        assert close(parameter.grad, case[f"grad.{name}"], 2e-5), name
    with hlx.no_grad():
        for factor in (2, 3):
            model(x * factor)
        state = model.state_dict()
        for name in (name for name in case if name.startswith("after.")):
            assert close(state[name[6:]].float(), case[name]), name
        assert state["1.num_batches_tracked"].item() == 3
        assert close(model.eval()(x), case["eval"])


@in_the_repository
def test_files_go_there_and_back(tmp_path: Path) -> None:
    """PyTorch's file, loaded and saved, has the same keys and bits."""
    model = cnn()
    before = hlx.load_file(FIXTURES / "cnn_state_dict.safetensors")
    assert repr(model.load_state_dict(before)) == "<All keys matched successfully>"
    hlx.save_file(model.state_dict(), tmp_path / "model.safetensors")
    after = hlx.load_file(tmp_path / "model.safetensors")
    assert sorted(after) == sorted(before)
    assert all(after[name].digest() == before[name].digest() for name in before)


def test_states_of_a_pytorch_module() -> None:
    """`load_state_dict` takes PyTorch's own tensors, and PyTorch takes the state back."""
    torch = pytest.importorskip("torch")
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Linear(8, 2))
    ours = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2))
    x = torch.randn(5, 4)
    theirs(x)
    ours.load_state_dict(theirs.state_dict())
    assert close(ours.eval()(hlx.tensor(x)), hlx.from_torch(theirs.eval()(x).detach()))
    with hlx.no_grad():
        ours[0].weight *= 2
    theirs.load_state_dict({name: value.torch() for name, value in ours.state_dict().items()})
    assert close(ours(hlx.tensor(x)), hlx.from_torch(theirs(x).detach()))


class Small(nn.Module):
    """A convolutional network of 8 x 8 images, with everything that draws or counts."""

    def __init__(self, device: hlx.device | str | None = None) -> None:
        """Draws the parameters on a device."""
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1, device=device),
            nn.BatchNorm2d(6, device=device),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, padding=1, padding_mode="reflect", device=device),
            nn.GroupNorm(2, 8, device=device),
            nn.GELU(),
        )
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(8 * 4 * 4, 3, device=device)

    def forward(self, x: hlx.Tensor) -> hlx.Tensor:
        """Computes scores of 3 classes."""
        y: hlx.Tensor = self.head(self.dropout(self.body(x).flatten(1)))
        return y


def trained(model: nn.Module, device: hlx.device) -> list[float]:
    """Trains a model on fixed images, and returns the losses."""
    hlx.manual_seed(11)
    x, y = hlx.randn(24, 1, 8, 8).to(device), (hlx.arange(24) % 3).to(device)
    x += y.reshape(-1, 1, 1, 1)
    loss_of, losses = nn.CrossEntropyLoss(label_smoothing=0.05), []
    for _ in range(12):
        loss = loss_of(model(x), y)
        model.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        with hlx.no_grad():
            for parameter in model.parameters():
                parameter -= 0.3 * parameter.grad
        losses.append(loss.item())
    return losses


#: What a trained `Small` is on every device.
DIGEST = "49c15884936ec96a3a4842b294361fd5585e8c8b5a4853a643cfedd5c9fa1be4"


def test_a_trained_model_has_one_digest(device: hlx.device) -> None:
    """Twelve steps of a small CNN end with the same bits on every device, wherever its parameters were drawn."""
    hlx.manual_seed(5)
    model = Small(device)
    losses = trained(model, device)
    assert losses[-1] < 0.6 < losses[0], losses
    assert model.digest() == DIGEST
    hlx.manual_seed(5)
    moved = Small().to(device)
    trained(moved, device)
    state = moved.state_dict()
    assert all(value.digest() == state[name].digest() for name, value in model.state_dict().items())


def test_a_compiled_step_has_the_same_bits(device: hlx.device) -> None:
    """A recorded step of a model moves its parameters and running values as the eager one does."""
    x, y = hlx.randn(6, 1, 8, 8, device=device), (hlx.arange(6) % 3).to(device)
    hlx.manual_seed(5)
    eager = Small(device)
    eager.dropout = nn.Identity()
    recorded = copy.deepcopy(eager)

    def step_of(model: nn.Module):  # type: ignore[no-untyped-def]
        def step(x: hlx.Tensor, y: hlx.Tensor) -> hlx.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            with hlx.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
            model.zero_grad()
            return loss

        return step

    once, replayed = step_of(eager), hlx.compile(step_of(recorded))
    before = eager.digest()
    for _ in range(4):
        assert once(x, y).item() == replayed(x, y).item()
    state = recorded.state_dict()
    assert eager.digest() != before
    assert all(value.digest() == state[name].digest() for name, value in eager.state_dict().items())


BOUNDS = [
    (lambda: nn.Linear(300, 200), 1 / math.sqrt(300)),
    (lambda: nn.Conv2d(8, 40, 5, groups=2), 1 / math.sqrt(4 * 25)),
    (lambda: nn.ConvTranspose2d(16, 20, 5), 1 / math.sqrt(20 * 25)),
    (lambda: nn.GRU(64, 50), 1 / math.sqrt(50)),
    (lambda: nn.Bilinear(40, 10, 20), 1 / math.sqrt(40)),
]


@pytest.mark.parametrize(("make", "bound"), BOUNDS)
def test_initial_values_are_uniform(make, bound: float) -> None:  # type: ignore[no-untyped-def]
    """Values fill PyTorch's interval evenly, and two layers have other ones."""
    layer = make()
    for parameter in layer.parameters():
        values = parameter.detach().flatten()
        n = values.numel()
        assert values.abs().amax().item() <= bound
        # Mean and variance of a uniform distribution, to five deviations of their estimates.
        assert abs(values.mean().item()) < 5 * bound / math.sqrt(3 * n)
        assert abs(values.square().mean().item() / (bound**2 / 3) - 1) < 5 * math.sqrt(0.8 / n)
    assert make().digest() != layer.digest()


@pytest.mark.parametrize(
    ("fill", "std"),
    [
        (nn.init.normal_, 1.0),
        (nn.init.xavier_normal_, math.sqrt(2 / 700)),
        (nn.init.xavier_uniform_, math.sqrt(2 / 700)),
        (lambda w: nn.init.kaiming_normal_(w, nonlinearity="relu"), math.sqrt(2 / 300)),
        (lambda w: nn.init.kaiming_uniform_(w, mode="fan_out", nonlinearity="linear"), math.sqrt(1 / 400)),
        (nn.init.trunc_normal_, 0.8796256610342398),
        (nn.init.orthogonal_, math.sqrt(1 / 400)),
    ],
)
def test_init_has_the_deviation(fill, std: float) -> None:  # type: ignore[no-untyped-def]
    """A weight [400, 300] has mean 0 and the formula's deviation; the tensor itself is returned."""
    weight = nn.Parameter(hlx.empty(400, 300))
    assert fill(weight) is weight and weight.requires_grad
    values = weight.detach()
    assert abs(values.mean().item()) < 5 * std / math.sqrt(values.numel())
    assert abs(values.std().item() / std - 1) < 0.011


def test_recurrent_layers_and_cells_agree(device: hlx.device) -> None:
    """A cell, step by step, has the bits of its layer, forward and of its gradients to rounding."""
    for layer, cell in (
        (nn.LSTM(3, 4), nn.LSTMCell(3, 4)),
        (nn.GRU(3, 4), nn.GRUCell(3, 4)),
        (nn.RNN(3, 4), nn.RNNCell(3, 4)),
    ):
        layer.to(device), cell.to(device)
        cell.load_state_dict({name.removesuffix("_l0"): value for name, value in layer.state_dict().items()})
        x = hlx.randn(6, 2, 3, device=device)
        y, last = layer(x)
        state, found = None, []
        for position in x:
            state = cell(position, state)
            found.append(state[0] if isinstance(state, tuple) else state)
        assert hlx.stack(found).digest() == y.digest()
        hidden = last[0] if isinstance(last, tuple) else last
        assert hidden[0].digest() == found[-1].digest()
        y.square().sum().backward()
        hlx.stack(found).square().sum().backward()
        for name, parameter in cell.named_parameters():
            assert close(parameter.grad, layer.get_parameter(f"{name}_l0").grad), name


def test_models_of_16_bits(device: hlx.device) -> None:
    """Layers of half precision compute what f32 layers do, to the rounding of f16, and have gradients."""
    hlx.manual_seed(2)
    x = hlx.randn(4, 5, 8, device=device)
    for layer in (
        nn.LSTM(8, 6, 2),
        nn.RNN(8, 6),
        nn.TransformerEncoderLayer(8, 2, 16, 0.0),
        nn.LayerNorm(8),
        nn.BatchNorm1d(5),
    ):
        layer.to(device)
        wide, half = layer(x), layer.half()(x.half())
        wide, half = (y[0] if isinstance(y, tuple) else y for y in (wide, half))
        assert half.dtype == hlx.float16 and close(half.float(), wide, 8e-3), type(layer)
        half.float().sum().backward()
        assert all(parameter.grad is not None for parameter in layer.parameters()), type(layer)


def test_dropout_draws_from_the_generator(device: hlx.device) -> None:
    """A seed gives the mask, every call another one, and evaluation none."""
    layer, x = nn.Dropout(0.25), hlx.ones(4000, device=device)
    hlx.manual_seed(1)
    first, second = layer(x), layer(x)
    hlx.manual_seed(1)
    assert layer(x).digest() == first.digest() != second.digest()
    dropped = (first == 0).float().mean().item()
    assert abs(dropped - 0.25) < 0.035 and abs(first.amax().item() - 4 / 3) < 1e-6
    assert layer.eval()(x) is x


def test_clipping_and_vectors() -> None:
    """`clip_grad_norm_` and its like do what their formulas say."""
    model = nn.Linear(3, 2)
    model(hlx.ones(4, 3)).sum().backward()
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    norm = math.sqrt(sum(gradient.square().sum().item() for gradient in gradients))
    assert abs(nn.utils.clip_grad_norm_(model.parameters(), 100.0).item() - norm) < 1e-4
    assert model.weight.grad.digest() == gradients[0].digest()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    assert abs(nn.utils.get_total_norm([p.grad for p in model.parameters()]).item() - 0.5) < 1e-5
    nn.utils.clip_grad_value_(model.parameters(), 0.01)
    assert max(p.grad.abs().amax().item() for p in model.parameters()) == pytest.approx(0.01)
    model.weight.grad.fill_(float("inf"))
    with pytest.raises(RuntimeError, match=r"^get_total_norm: the norm of order 2.0 is inf, expected a finite one$"):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
    vector = nn.utils.parameters_to_vector(model.parameters())
    other = nn.Linear(3, 2)
    nn.utils.vector_to_parameters(vector, other.parameters())
    assert other.digest() == model.digest()
    with pytest.raises(ValueError, match=r"^vector_to_parameters: the vector has shape \[3\], expected \[8\]$"):
        nn.utils.vector_to_parameters(hlx.ones(3), model.parameters())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "Conv2d: in_channels is 3, expected a multiple of 2 groups"),
        (
            lambda: nn.Conv1d(1, 1, 3, stride=2, padding="same"),
            "Conv1d: padding is 'same' with stride (2,), expected stride 1",
        ),
        (lambda: nn.Conv2d(1, 1, (1, 2, 3)), "Conv2d: kernel_size is (1, 2, 3), expected a number or 2 of them"),
        (lambda: nn.GroupNorm(2, 3), "GroupNorm: 3 channels are no multiple of 2 groups"),
        (lambda: nn.BatchNorm1d(3)(hlx.ones(2, 4)), "BatchNorm1d: the input has shape [2, 4], expected 3 channels"),
        (lambda: nn.Dropout(2.0), "Dropout: p is 2.0, expected 0 to 1"),
        (lambda: nn.LSTM(2, 3, proj_size=3), "LSTM: proj_size is 3, expected below hidden_size, 3"),
        (lambda: nn.GRU(2, 3)(hlx.ones(4, 5)), "GRU: the input has shape [4, 5], expected [T, B, 2] or [T, 2]"),
        (lambda: nn.Embedding(3, 2, 3), "Embedding: padding_idx is 3, expected -3 to 2"),
        (lambda: nn.MultiheadAttention(6, 4), "MultiheadAttention: embed_dim 6 is no multiple of 4 heads"),
        (lambda: nn.Linear(2, 2, dtype=hlx.float64), "full: HLX has no float64; use dtype=hlx.float32"),
        (lambda: nn.init.eye_(hlx.ones(2)), "eye_: the tensor has shape [2], expected 2 dimensions"),
        (lambda: nn.init.kaiming_normal_(hlx.ones(2)), "kaiming_normal_: the tensor has shape [2], expected 2 or more"),
        (
            lambda: nn.init.calculate_gain("swish"),
            "calculate_gain: the nonlinearity is 'swish', expected one of leaky_relu",
        ),
    ],
)
def test_errors_have_one_line(make, message: str) -> None:  # type: ignore[no-untyped-def]
    """An error names the layer, what was found and what was expected."""
    with pytest.raises(hlx.Error) as caught:
        make()
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)
