"""`hlx.nn.Module`: attributes, state, hooks, conversions, copies."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import hlx
from hlx import nn


class Net(nn.Module):
    """A model with a parameter, a layer, a tied weight, buffers and a module that is missing."""

    def __init__(self) -> None:
        """Makes the parts."""
        super().__init__()
        self.scale = nn.Parameter(hlx.ones(3))
        self.first = nn.Linear(4, 3)
        self.body = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
        self.tied = nn.Linear(4, 3, bias=False)
        self.tied.weight = self.first.weight
        self.steps = nn.Buffer(hlx.zeros(1))
        self.register_buffer("cache", hlx.zeros(2), persistent=False)
        self.register_parameter("missing", None)
        self.label = "a"

    def forward(self, x: hlx.Tensor, factor: float = 1.0) -> hlx.Tensor:
        """Computes rows of 3."""
        y: hlx.Tensor = self.body(self.first(x) * self.scale) * factor
        return y


STATE = [
    "scale",
    "steps",
    "first.weight",
    "first.bias",
    "body.0.weight",
    "body.0.bias",
    "body.0.running_mean",
    "body.0.running_var",
    "body.0.num_batches_tracked",
    "tied.weight",
]


def test_attributes_are_registered() -> None:
    """Names, order and tied parameters are PyTorch's."""
    net = Net()
    names = ["scale", "first.weight", "first.bias", "body.0.weight", "body.0.bias"]
    assert [name for name, _ in net.named_parameters()] == names
    assert [name for name, _ in net.named_parameters(remove_duplicate=False)] == [*names, "tied.weight"]
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == ["net.scale"]
    assert len(list(net.parameters())) == 5
    buffers = ["steps", "cache", "body.0.running_mean", "body.0.running_var", "body.0.num_batches_tracked"]
    assert [name for name, _ in net.named_buffers()] == buffers
    assert [name for name, _ in net.named_children()] == ["first", "body", "tied"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "body", "body.0", "body.1", "tied"]
    assert net.get_submodule("body.0") is net.body[0] and net.get_submodule("") is net
    assert net.get_parameter("first.weight") is net.first.weight
    assert net.get_buffer("body.0.running_mean") is net.body[0].running_mean
    assert list(net.state_dict()) == STATE and net.missing is None and "first" in dir(net)


def test_attributes_change_their_kind() -> None:
    """What is assigned takes the place of what was there, of whichever kind it was."""
    net = Net()
    net.scale = None
    assert "scale" not in dict(net.named_parameters()) and net.scale is None
    net.scale = nn.Parameter(hlx.zeros(3))
    del net.first
    with pytest.raises(AttributeError, match="^Net has no attribute 'first'$"):
        net.first  # noqa: B018
    net.label = nn.Linear(1, 1)
    assert "label.weight" in net.state_dict() and "label" not in net.__dict__
    net.steps = hlx.ones(1)
    assert net.state_dict()["steps"].tolist() == [1.0]
    net.label = None
    net.extra = hlx.ones(1)
    assert "extra" not in net.state_dict() and net.extra.tolist() == [1.0]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda net: setattr(net, "scale", hlx.ones(3)),
            TypeError,
            "Net.scale: assigned Tensor, expected a Parameter or None",
        ),
        (lambda net: setattr(net, "first", 1), TypeError, "Net.first: assigned int, expected a Module or None"),
        (lambda net: setattr(net, "steps", 1), TypeError, "Net.steps: assigned int, expected a Tensor or None"),
        (
            lambda net: net.register_parameter("label", None),
            KeyError,
            "register_parameter: the attribute 'label' exists",
        ),
        (lambda net: net.register_parameter("a.b", None), KeyError, "register_parameter: the name is 'a.b'"),
        (lambda net: net.register_buffer("x", 1), TypeError, "register_buffer: x is int, expected a Tensor or None"),
        (lambda net: net.add_module("x", 1), TypeError, "add_module: x is int, expected a Module or None"),
        (
            lambda net: net.get_submodule("body.7"),
            AttributeError,
            "get_submodule: Sequential has no module '7' (of 'body.7')",
        ),
        (lambda net: net.get_parameter("steps"), AttributeError, "get_parameter: Net has no parameter 'steps'"),
        (lambda net: net.load_state_dict(3), TypeError, "load_state_dict: the state is int, expected a mapping"),
        (lambda net: net.share_memory(), NotImplementedError, "share_memory of Net: processes do not share memory"),
        (lambda net: net.double(), TypeError, "to: HLX has no float64"),
        (lambda net: net.to(hlx.int32), TypeError, "to: dtype is hlx.int32, expected a type of floats"),
        (lambda net: net.to(shape=1), TypeError, "to: shape is no argument, expected a device, a dtype or a tensor"),
        (lambda net: net.train("yes"), ValueError, "train: mode is 'yes', expected True or False"),
        (lambda net: nn.Module()(1), NotImplementedError, "Module: forward is not defined"),
        (lambda net: net.body[5], IndexError, "Sequential: index 5 is out of range, expected -2 to 1"),
        (lambda net: nn.ModuleDict()["a"], KeyError, "ModuleDict: there is no module 'a'"),
    ],
)
def test_errors_have_one_line(call: Callable[[Net], Any], kind: type[Exception], message: str) -> None:
    """An error is HLX's and a built-in one, and names what was found and expected."""
    with pytest.raises(kind) as caught:
        call(Net())
    assert isinstance(caught.value, hlx.Error)
    assert str(caught.value).startswith(message) and "\n" not in str(caught.value)


def test_a_module_without_super_init_says_so() -> None:
    """The first assignment of a parameter names the missing call."""

    class Wrong(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(hlx.ones(1))

    with pytest.raises(AttributeError, match=r"^Wrong.weight: assigned before super\(\).__init__\(\) was called$"):
        Wrong()


def test_states_load(device: hlx.device) -> None:
    """A state goes into another model of the same class, on a device, bit by bit."""
    net, other = Net(), Net().to(device)
    net(hlx.randn(5, 4))
    kept = other.first.weight
    assert repr(other.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    assert other.first.weight is kept and other.digest() == net.digest()
    for name, value in net.state_dict().items():
        assert other.state_dict()[name].cpu().digest() == value.digest(), name
    state = {**net.state_dict(), "first.bias": hlx.full((3,), 7.0, device=device)}
    other.load_state_dict(state, assign=True)
    assert other.first.bias.tolist() == [7.0] * 3 and isinstance(other.first.bias, nn.Parameter)
    assert other.first.bias.data_ptr() == state["first.bias"].data_ptr()


def test_states_that_do_not_fit() -> None:
    """Keys that do not fit are in one line, or returned; shapes are an error in any case."""
    net = Net()
    state = net.state_dict()
    state["other.weight"] = state.pop("scale")
    message = "^load_state_dict of Net: missing keys scale; unexpected keys other.weight$"
    with pytest.raises(RuntimeError, match=message):
        net.load_state_dict(state)
    found = net.load_state_dict(state, strict=False)
    assert (found.missing_keys, found.unexpected_keys) == (["scale"], ["other.weight"])
    state = {**Net().state_dict(), "first.bias": hlx.ones(4)}
    with pytest.raises(RuntimeError, match=r"^load_state_dict of Net: first.bias has shape \[4\], expected \[3\]$"):
        net.load_state_dict(state, strict=False)


def test_hooks_of_the_state() -> None:
    """Hooks rename keys on the way out and in, and see the keys that do not fit; other state goes along."""

    class Counted(nn.Linear):
        count = 0

        def get_extra_state(self) -> int:
            return self.count

        def set_extra_state(self, state: int) -> None:
            self.count = state

    layer = Counted(2, 2)
    layer.count = 7

    def renamed(old: str, new: str):  # type: ignore[no-untyped-def]
        return lambda module, state, prefix, *rest: state.update({prefix + new: state.pop(prefix + old)})

    layer.register_state_dict_post_hook(renamed("weight", "kernel"))
    model = nn.Sequential(layer)
    state = model.state_dict()
    assert list(state) == ["0.bias", "0._extra_state", "0.kernel"] and state["0._extra_state"] == 7
    other, seen = nn.Sequential(Counted(2, 2)), []
    with pytest.raises(RuntimeError, match="missing keys 0.weight; unexpected keys 0.kernel"):
        other.load_state_dict(state)
    other[0].register_load_state_dict_pre_hook(renamed("kernel", "weight"))
    other.register_load_state_dict_post_hook(lambda module, keys: seen.append(keys.missing_keys))
    other.load_state_dict(state)
    assert other.digest() == model.digest() and other[0].count == 7 and seen == [[]]


def test_state_dict_shares_memory() -> None:
    """A state is a view of the module; with `keep_vars` it is the parameters themselves."""
    net = Net()
    state = net.state_dict()
    assert type(state["scale"]) is hlx.Tensor and not state["scale"].requires_grad
    state["scale"].fill_(5)
    assert net.scale.tolist() == [5.0] * 3
    assert net.state_dict(prefix="net.", keep_vars=True)["net.scale"] is net.scale


def test_modes_and_gradients() -> None:
    """`train`, `eval`, `requires_grad_`, `zero_grad` and `apply` reach every module."""
    net = Net().eval()
    assert not any(module.training for module in net.modules())
    x = hlx.randn(5, 4)
    assert net(x).digest() == net(x).digest()
    net.train()
    assert net(x).digest() != net(x).digest()
    net(x).sum().backward()
    assert net.scale.grad is not None
    net.zero_grad(set_to_none=False)
    assert net.scale.grad.tolist() == [0.0] * 3
    net.zero_grad()
    assert all(one.grad is None for one in net.parameters())
    assert not any(one.requires_grad for one in net.requires_grad_(False).parameters())
    seen: list[str] = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Linear", "BatchNorm1d", "Dropout", "Sequential", "Linear", "Net"]


def test_conversions_keep_the_parameters(device: hlx.device) -> None:
    """The objects, their class, the ties and the gradients stay; integers keep their type."""
    net = Net()
    net(hlx.randn(5, 4)).sum().backward()
    weight, slope = net.first.weight, net.first.weight.grad.clone()
    assert net.to(device) is net
    assert weight.grad.device == device and weight.grad.cpu().digest() == slope.digest()
    net.half()
    assert net.first.weight is weight is net.tied.weight and isinstance(weight, nn.Parameter)
    assert (weight.dtype, weight.device, weight.requires_grad, weight.is_leaf) == (hlx.float16, device, True, True)
    assert net.body[0].num_batches_tracked.dtype == hlx.int32 and net.body[0].running_mean.device == device
    net.bfloat16().float().cpu()
    assert (weight.dtype, weight.device.type) == (hlx.float32, "cpu")
    net.to(hlx.ones(1, device=device, dtype=hlx.bfloat16))
    assert (weight.dtype, weight.device) == (hlx.bfloat16, device)


def test_copies_and_pickles() -> None:
    """A copy has the bits, the classes and the ties, and no memory in common."""
    net = Net()
    net(hlx.randn(5, 4)).sum().backward()
    for made in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert made.digest() == net.digest() and list(made.state_dict()) == STATE
        assert isinstance(made.scale, nn.Parameter) and made.tied.weight is made.first.weight
        assert made.scale.requires_grad and isinstance(made.steps, nn.Buffer)
        made.scale.data.fill_(9)
        assert net.scale.tolist() == [1.0] * 3
        made.eval(), net.eval()
        x = hlx.randn(2, 4)
        assert made(x).shape == net(x).shape
    assert copy.deepcopy(net).scale.grad.digest() == net.scale.grad.digest()


def test_digests_name_the_parameters() -> None:
    """The digest of a model is that of its parameters and buffers in the order of their names, and sees a bit."""
    linear = nn.Linear(2, 3)
    assert linear.digest() == hlx.digest({"bias": linear.bias, "weight": linear.weight})
    net = Net()
    before = net.digest()
    with hlx.no_grad():
        net.scale[0] = 1.0000001
    assert net.digest() != before
    hlx.manual_seed(3)
    first = Net().digest()
    hlx.manual_seed(3)
    assert Net().digest() == first


def test_forward_hooks() -> None:
    """Hooks see and replace arguments and results, in order, until they are removed."""
    layer, seen = nn.Identity(), []
    handles = [
        layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
        layer.register_forward_pre_hook(lambda module, args: seen.append(args[0].item()), prepend=True),
        layer.register_forward_hook(lambda module, args, output: output * 10),
    ]
    assert layer(hlx.tensor(1.0)).item() == 20 and seen == [1.0]
    for handle in handles:
        handle.remove()
    assert layer(hlx.tensor(1.0)).item() == 1

    class Scaled(nn.Module):
        def forward(self, x: hlx.Tensor, factor: float = 1.0) -> hlx.Tensor:
            return x * factor

    scaled = Scaled()
    with scaled.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 3.0}), with_kwargs=True):
        assert scaled(hlx.tensor(2.0)).item() == 6
    with scaled.register_forward_hook(lambda m, args, kwargs, y: y + kwargs["factor"], with_kwargs=True):
        assert scaled(hlx.tensor(2.0), factor=4.0).item() == 12
    with pytest.raises(NotImplementedError, match="^register_forward_hook: always_call is True, expected False$"):
        scaled.register_forward_hook(print, always_call=True)


def test_backward_hooks() -> None:
    """They get the gradients of inputs and outputs once a pass, also of several, and may replace those of the inputs."""
    layer, seen = nn.Linear(3, 2), []
    layer.register_full_backward_hook(lambda module, inputs, outputs: seen.append((inputs, outputs)))
    x = hlx.randn(4, 3, requires_grad=True)
    upstream = hlx.randn(4, 2)
    # The input's gradient from elsewhere is not the module's.
    (layer(x) * upstream).sum().backward(retain_graph=True)
    (inputs, outputs), *more = seen
    assert not more and outputs[0].digest() == upstream.digest()
    assert inputs[0].digest() == (upstream @ layer.weight).digest() == x.grad.digest()
    seen.clear()
    layer(hlx.ones(4, 3)).sum().backward()
    assert seen[0][0] == (None,) and seen[0][1][0].tolist() == [[1.0, 1.0]] * 4

    class Two(nn.Module):
        def forward(self, a: hlx.Tensor, n: int, b: hlx.Tensor) -> tuple[hlx.Tensor, hlx.Tensor]:
            return a * 2, b * 3

    two = Two()
    two.register_full_backward_pre_hook(lambda module, outputs: (outputs[0] * 10, outputs[1]))
    two.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0], None, inputs[2] + 1))
    a, b = hlx.ones(2, requires_grad=True), hlx.ones(3, requires_grad=True)
    one, other = two(a, 5, b)
    (one.sum() + other.sum()).backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([20.0] * 2, [4.0] * 3)


def test_containers_are_lists_and_mappings() -> None:
    """PyTorch's methods of the containers."""
    model = nn.Sequential({"a": nn.Linear(2, 3), "b": nn.ReLU()})
    assert list(model.state_dict()) == ["a.weight", "a.bias"] and model[1] is model.b and len(model[:1]) == 1
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    model.append(nn.Linear(3, 1)).insert(1, nn.Tanh())
    assert [type(module).__name__ for module in model] == ["Linear", "Tanh", "ReLU", "Linear"]
    del model[1]
    assert list(model.state_dict()) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    assert type(model.pop()).__name__ == "Linear" and len(model + model) == 4
    layers = nn.ModuleList([nn.Identity()])
    layers += [nn.ReLU(), nn.Tanh()]
    layers[0] = nn.Sigmoid()
    assert [type(module).__name__ for module in layers[-2:]] == ["ReLU", "Tanh"] and len(layers) == 3
    assert layers[1] in layers and type(layers[0]).__name__ == "Sigmoid"
    named = nn.ModuleDict([("x", nn.ReLU())])
    named.update({"y": nn.Linear(1, 1)})
    assert list(named.items())[1][1] is named["y"] and "x" in named and len(named) == 2
    del named["x"]
    assert list(named.keys()) == ["y"] and list(named.state_dict()) == ["y.weight", "y.bias"]
    weights = nn.ParameterList([hlx.ones(1), nn.Parameter(hlx.zeros(2))])
    weights.append(hlx.ones(3))
    assert [list(one.shape) for one in weights] == [[1], [2], [3]] and weights[-1].requires_grad
    assert list(weights.state_dict()) == ["0", "1", "2"]
    table = nn.ParameterDict({"a": hlx.ones(1)})
    table["b"] = hlx.zeros(2)
    assert list(table) == ["a", "b"] and table.pop("a").tolist() == [1.0] and list(table.state_dict()) == ["b"]


def test_the_representation_is_the_tree() -> None:
    """As PyTorch prints it."""
    lines = """Net(
  (first): Linear(in_features=4, out_features=3, bias=True)
  (body): Sequential(
    (0): BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    (1): Dropout(p=0.5, inplace=False)
  )
  (tied): Linear(in_features=4, out_features=3, bias=False)
)"""
    assert repr(Net()) == lines
    assert repr(nn.Conv2d(1, 2, 3, padding="same", bias=False)) == (
        "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=same, bias=False)"
    )
    assert str(nn.Parameter(hlx.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"
