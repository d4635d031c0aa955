"""Every module beside PyTorch's: arguments, names of parameters, representation, and results. Needs PyTorch."""

import inspect
from typing import Any

import numpy
import pytest

import hlx

torch = pytest.importorskip("torch", minversion="2.15")

#: How each module is made, and the shapes of what it is called with.
CALLS: dict[str, tuple[tuple[Any, ...], dict[str, Any], list[tuple[int, ...]]]] = {
    "AdaptiveAvgPool1d": ((3,), {}, [(2, 3, 7)]),
    "AdaptiveAvgPool2d": (((2, None),), {}, [(2, 3, 7, 5)]),
    "AdaptiveMaxPool1d": ((3,), {}, [(2, 3, 7)]),
    "AdaptiveMaxPool2d": (((2, None),), {}, [(2, 3, 7, 5)]),
    "AlphaDropout": ((0.0,), {}, [(2, 3)]),
    "AvgPool1d": ((3,), {"padding": 1}, [(2, 3, 7)]),
    "AvgPool2d": ((3,), {"stride": 2, "count_include_pad": False}, [(2, 3, 7, 5)]),
    "BCELoss": ((), {}, []),
    "BCEWithLogitsLoss": ((), {}, [(3, 2), (3, 2)]),
    "BatchNorm1d": ((3,), {"momentum": None}, [(4, 3, 5)]),
    "BatchNorm2d": ((3,), {"affine": False}, [(4, 3, 5, 2)]),
    "Bilinear": ((2, 3, 4), {}, [(5, 2), (5, 3)]),
    "CELU": ((0.7,), {"inplace": True}, []),
    "ChannelShuffle": ((2,), {}, [(2, 4, 3, 3)]),
    "CircularPad1d": ((2,), {}, [(2, 3, 5)]),
    "CircularPad2d": (((1, 2, 0, 1),), {}, [(2, 3, 5, 4)]),
    "ConstantPad1d": ((2, 1.5), {}, [(2, 5)]),
    "ConstantPad2d": ((1, 1.5), {}, [(2, 5, 4)]),
    "ConstantPad3d": ((1, 1.5), {}, [(2, 5, 4, 3)]),
    "Conv1d": ((4, 6, 3), {"padding": 2, "padding_mode": "circular", "groups": 2}, [(2, 4, 7)]),
    "Conv2d": ((2, 3, (3, 2)), {"padding": "same", "dilation": 2, "padding_mode": "replicate"}, [(2, 2, 7, 6)]),
    "ConvTranspose1d": ((4, 6, 3), {"stride": 2, "output_padding": 1}, [(2, 4, 7)]),
    "ConvTranspose2d": ((2, 3, 3), {"bias": False, "padding": 1, "dilation": 2}, [(2, 2, 7, 6)]),
    "CosineEmbeddingLoss": ((0.2,), {}, []),
    "CosineSimilarity": ((1,), {}, [(3, 4), (3, 4)]),
    "CrossEntropyLoss": ((), {"label_smoothing": 0.1}, [(3, 4), (3, 4)]),
    "Dropout": ((0.0,), {}, [(2, 3)]),
    "Dropout1d": ((0.0,), {}, [(2, 3, 4)]),
    "Dropout2d": ((0.0,), {"inplace": True}, []),
    "Dropout3d": ((), {}, []),
    "ELU": ((), {}, [(3, 4)]),
    "Embedding": ((5, 3), {"padding_idx": -1, "max_norm": 2.0}, []),
    "EmbeddingBag": ((5, 3), {"padding_idx": -1, "mode": "sum"}, []),
    "FeatureAlphaDropout": ((0.0,), {}, [(2, 3, 4)]),
    "Flatten": ((1, 2), {}, [(2, 3, 4, 5)]),
    "Fold": (((4, 5), (2, 3)), {"padding": 1}, [(2, 18, 25)]),
    "GELU": (("tanh",), {}, [(3, 4)]),
    "GLU": ((1,), {}, [(3, 4)]),
    "GRU": ((3, 4, 2), {"dropout": 0.0, "bidirectional": True}, [(5, 2, 3), (4, 2, 4)]),
    "GRUCell": ((3, 4), {"bias": False}, [(2, 3), (2, 4)]),
    "GaussianNLLLoss": ((), {"full": True}, []),
    "GroupNorm": ((2, 4), {"bias": False}, [(3, 4, 5)]),
    "Hardshrink": ((0.3,), {}, [(3, 4)]),
    "Hardsigmoid": ((), {}, [(3, 4)]),
    "Hardswish": ((True,), {}, []),
    "Hardtanh": ((-0.5, 0.5), {}, [(3, 4)]),
    "HingeEmbeddingLoss": ((), {}, []),
    "HuberLoss": (("sum", 0.5), {}, [(3, 4), (3, 4)]),
    "Identity": ((7,), {"unused": 1}, [(3, 4)]),
    "InstanceNorm1d": ((3,), {"affine": True}, [(2, 3, 5)]),
    "InstanceNorm2d": ((3,), {"track_running_stats": True}, [(2, 3, 5, 4)]),
    "KLDivLoss": ((), {"reduction": "batchmean", "log_target": True}, [(3, 4), (3, 4)]),
    "L1Loss": ((), {"reduction": "none"}, [(3, 4), (3, 4)]),
    "LSTM": ((3, 4), {"proj_size": 2, "batch_first": True}, [(2, 5, 3)]),
    "LSTMCell": ((3, 4), {}, [(2, 3)]),
    "LayerNorm": (((3, 4),), {"bias": False}, [(2, 3, 4)]),
    "LeakyReLU": ((0.2,), {}, [(3, 4)]),
    "Linear": ((3, 4), {"bias": False}, [(2, 3)]),
    "LocalResponseNorm": ((3,), {"k": 2.0}, [(2, 5, 4)]),
    "LogSigmoid": ((), {}, [(3, 4)]),
    "LogSoftmax": ((1,), {}, [(3, 4)]),
    "MSELoss": ((), {}, [(3, 4), (3, 4)]),
    "MarginRankingLoss": ((0.1,), {}, []),
    "MaxPool1d": ((3,), {"stride": 2, "ceil_mode": True}, [(2, 3, 8)]),
    "MaxPool2d": ((2,), {"return_indices": True, "padding": 1}, [(2, 3, 6, 5)]),
    "MaxUnpool1d": ((2,), {}, []),
    "MaxUnpool2d": ((2,), {"stride": 3}, []),
    "Mish": ((), {}, [(3, 4)]),
    "MultiLabelSoftMarginLoss": ((), {}, []),
    "MultiMarginLoss": ((2, 0.5), {}, []),
    "MultiheadAttention": ((8, 2), {"add_bias_kv": True, "kdim": 4, "vdim": 6}, [(3, 2, 8), (5, 2, 4), (5, 2, 6)]),
    "NLLLoss": ((), {"ignore_index": 1}, []),
    "PReLU": ((3,), {"init": 0.1}, [(2, 3, 4)]),
    "PairwiseDistance": ((3.0,), {"keepdim": True}, [(3, 4), (3, 4)]),
    "PixelShuffle": ((2,), {}, [(2, 8, 3, 3)]),
    "PixelUnshuffle": ((2,), {}, [(2, 3, 4, 6)]),
    "PoissonNLLLoss": ((), {}, [(3, 4), (3, 4)]),
    "RMSNorm": ((4,), {}, [(3, 4)]),
    "RNN": ((3, 4), {"nonlinearity": "relu", "num_layers": 2}, [(5, 2, 3)]),
    "RNNCell": ((3, 4), {"nonlinearity": "relu"}, [(2, 3)]),
    "RReLU": ((0.25, 0.25), {}, [(3, 4)]),
    "ReLU": ((True,), {}, []),
    "ReLU6": ((), {}, [(3, 4)]),
    "ReflectionPad1d": ((2,), {}, [(2, 3, 5)]),
    "ReflectionPad2d": ((2,), {}, [(2, 3, 5, 4)]),
    "ReplicationPad1d": ((2,), {}, [(2, 3, 5)]),
    "ReplicationPad2d": (((1, 0, 2, 1),), {}, [(2, 3, 5, 4)]),
    "SELU": ((), {}, [(3, 4)]),
    "SiLU": ((), {}, [(3, 4)]),
    "Sigmoid": ((), {}, [(3, 4)]),
    "SmoothL1Loss": ((), {"beta": 0.5}, [(3, 4), (3, 4)]),
    "SoftMarginLoss": ((), {}, []),
    "Softmax": ((0,), {}, [(3, 4)]),
    "Softmax2d": ((), {}, [(2, 3, 4, 5)]),
    "Softmin": ((1,), {}, [(3, 4)]),
    "Softplus": ((2.0, 3.0), {}, [(3, 4)]),
    "Softshrink": ((0.2,), {}, [(3, 4)]),
    "Softsign": ((), {}, [(3, 4)]),
    "Tanh": ((), {}, [(3, 4)]),
    "Tanhshrink": ((), {}, [(3, 4)]),
    "Threshold": ((0.1, 2.0), {}, [(3, 4)]),
    "Transformer": ((8, 2, 1, 1, 16), {"dropout": 0.0}, [(5, 2, 8), (4, 2, 8)]),
    "TransformerDecoderLayer": ((8, 2, 16), {"dropout": 0.0, "norm_first": True}, [(4, 2, 8), (5, 2, 8)]),
    "TransformerEncoderLayer": ((8, 2, 16), {"dropout": 0.0, "activation": "gelu"}, [(4, 2, 8)]),
    "TripletMarginLoss": ((), {"swap": True}, [(3, 4), (3, 4), (3, 4)]),
    "TripletMarginWithDistanceLoss": ((), {"margin": 2.0}, [(3, 4), (3, 4), (3, 4)]),
    "Unflatten": ((1, (2, 3)), {}, [(2, 6)]),
    "Unfold": (((2, 3),), {"stride": 2}, [(2, 3, 5, 6)]),
    "Upsample": ((), {"scale_factor": 2, "mode": "bilinear", "align_corners": True}, [(2, 3, 4, 5)]),
    "UpsamplingBilinear2d": (((5, 7),), {}, [(2, 3, 4, 5)]),
    "UpsamplingNearest2d": ((), {"scale_factor": 3}, [(2, 3, 4, 5)]),
    "ZeroPad1d": ((2,), {}, [(2, 5)]),
    "ZeroPad2d": (((1, 2, 3, 4),), {}, [(2, 3, 5)]),
    "ZeroPad3d": ((1,), {}, [(2, 3, 5, 4)]),
}
#: Bases and containers, and what is made of other modules: `test_modules.py` and the samples have them.
OTHERS = {
    "Module", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "RNNBase", "Sequential",
    "TransformerDecoder", "TransformerEncoder",
}  # fmt: skip


def test_every_module_is_in_the_list() -> None:
    """A new module has a line above."""
    assert set(hlx.nn.modules.__all__) == set(CALLS) | OTHERS


def arguments(function: Any) -> list[tuple[str, Any]]:
    """The names and defaults of a function's arguments."""
    parameters = inspect.signature(function).parameters.values()
    named = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return [(one.name, getattr(one.default, "__name__", one.default)) for one in named]


@pytest.mark.parametrize("name", sorted(CALLS))
def test_arguments_are_pytorchs(name: str) -> None:
    """Names, order and defaults, of the constructor and of `forward`."""
    theirs, ours = getattr(torch.nn, name), getattr(hlx.nn, name)
    # PyTorch's constructors of recurrent layers have no signature; its Hardtanh has two old names more.
    if name not in ("GRU", "LSTM", "RNN"):
        expected = [one for one in arguments(theirs.__init__) if one[0] not in ("min_value", "max_value")]
        assert arguments(ours.__init__) == expected
        assert arguments(ours.forward) == arguments(theirs.forward)


def leaves(values: Any, kind: type) -> list[Any]:
    """The tensors among results."""
    if isinstance(values, kind):
        return [values]
    return [leaf for value in values for leaf in leaves(value, kind)] if isinstance(values, tuple) else []


@pytest.mark.parametrize("name", sorted(CALLS))
def test_modules_are_pytorchs(name: str) -> None:
    """Keys and shapes of the state, the representation, and results and gradients to rounding."""
    args, kwargs, shapes = CALLS[name]
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(hlx.nn, name)(*args, **kwargs)
    assert repr(ours) == repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")
    assert {k: list(v.shape) for k, v in ours.state_dict().items()} == {
        k: list(v.shape) for k, v in theirs.state_dict().items()
    }
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict())
    if not shapes:
        return
    draws = numpy.random.default_rng(7)
    inputs = [draws.random(shape, dtype=numpy.float32) for shape in shapes]
    x = [torch.tensor(values, dtype=torch.float64, requires_grad=True) for values in inputs]
    z = [hlx.tensor(values, requires_grad=True) for values in inputs]
    wanted, found = leaves(theirs.double()(*x), torch.Tensor), leaves(ours(*z), hlx.Tensor)
    assert len(wanted) == len(found) > 0
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=2e-5, atol=5e-6)
    upstream = [draws.random(tuple(other.shape), dtype=numpy.float32) for other in wanted]
    sum((a * torch.tensor(u)).sum() for a, u in zip(wanted, upstream, strict=True)).backward()
    sum((a * hlx.tensor(u)).sum() for a, u in zip(found, upstream, strict=True)).backward()
    pairs = [*zip(z, x, strict=True), *zip(ours.parameters(), theirs.parameters(), strict=True)]
    for one, other in pairs:
        if one.grad is not None or (other.grad is not None and other.grad.abs().max() > 0):
            numpy.testing.assert_allclose(one.grad.numpy(), other.grad.numpy(), rtol=5e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options", [{}, {"mode": "sum", "padding_idx": 1}, {"mode": "max", "include_last_offset": True}]
)
def test_bags_are_pytorchs(options: dict[str, Any]) -> None:
    """Rows of ids, and ids with offsets; also of a table that is given."""
    theirs, ours = torch.nn.EmbeddingBag(6, 3, **options), hlx.nn.EmbeddingBag(6, 3, **options)
    ours.load_state_dict(theirs.state_dict())
    ids, offsets = [1, 5, 1, 0, 2, 3], [0, 2, 2, 6]
    weights = numpy.arange(6, dtype=numpy.float32) if options.get("mode") == "sum" else None
    found = []
    for library, layer in ((torch, theirs), (hlx, ours)):
        weighted = () if weights is None else (library.tensor(weights),)
        rows = layer(library.tensor([ids[:3], ids[3:]]))
        bags = layer(library.tensor(ids), library.tensor(offsets), *weighted)
        ((rows**2).sum() + (bags**3).sum()).backward()
        found.append([one.detach().numpy() for one in (rows, bags, layer.weight.grad)])
    for one, other in zip(*found, strict=True):
        numpy.testing.assert_allclose(one, other, rtol=2e-5, atol=5e-6)
    given = hlx.nn.EmbeddingBag.from_pretrained(ours.weight.detach(), **options)
    assert not given.weight.requires_grad and repr(given) == repr(theirs)
    assert given(hlx.tensor([ids])).tolist() == ours(hlx.tensor([ids])).tolist()


def test_initial_bounds_are_pytorchs() -> None:
    """The largest initial values of each parameter, and those that are constant, are PyTorch's."""
    hlx.manual_seed(0), torch.manual_seed(0)
    for name, args in (
        ("Linear", (200, 300)), ("Bilinear", (40, 9, 50)), ("Conv1d", (30, 40, 9)), ("Conv2d", (12, 40, 5)),
        ("ConvTranspose2d", (12, 40, 5)), ("LSTM", (50, 60)), ("GRUCell", (50, 60)), ("MultiheadAttention", (96, 4)),
        ("TransformerEncoderLayer", (96, 4, 200)), ("Transformer", (96, 4, 1, 1, 200)), ("LayerNorm", (9,)), ("PReLU", ()),
    ):  # fmt: skip
        ours, theirs = getattr(hlx.nn, name)(*args), getattr(torch.nn, name)(*args)
        for (key, one), other in zip(ours.named_parameters(), theirs.parameters(), strict=True):
            largest, wanted = one.detach().abs().amax().item(), other.detach().abs().max().item()
            assert largest == pytest.approx(wanted, rel=0.12), f"{name}.{key}"
    assert hlx.nn.Embedding(500, 100).weight.detach().std().item() == pytest.approx(1.0, rel=0.01)
