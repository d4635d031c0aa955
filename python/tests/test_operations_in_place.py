"""Operations in place: the bits of the operation without `_`, in the tensor's own memory."""

import inspect

import pytest

import hlx
from hlx._operations.in_place import NAMES

F32, I32 = hlx.float32, hlx.int32


def x() -> hlx.Tensor:
    """Values from 0.1 to 0.9, where every function has a value."""
    return hlx.linspace(0.1, 0.9, 12).reshape(3, 4)


def other() -> hlx.Tensor:
    """Another tensor of the same shape."""
    return hlx.linspace(1.5, 0.25, 12).reshape(3, 4)


def whole(*shape: int) -> hlx.Tensor:
    """Whole numbers."""
    return hlx.arange(1, 13).reshape(*(shape or (3, 4)))


def mask() -> hlx.Tensor:
    """Every other element."""
    return whole() % 2 == 0


PLACES = hlx.tensor([[0, 2, 1, 0], [1, 1, 0, 2], [2, 0, 2, 1]])
ROWS = hlx.tensor([2, 0, 2])
M34, V4 = hlx.linspace(-1, 1, 12).reshape(3, 4), hlx.linspace(-1, 1, 4)
SQUARE = hlx.linspace(0.1, 0.9, 16).reshape(4, 4)
BATCH = hlx.linspace(-1, 1, 24).reshape(2, 3, 4)

#: The arguments of the operations that have some beside the tensor, and the tensor where it is another one.
ARGUMENTS = {
    "addbmm": (BATCH, BATCH.mT[:, :, :3]),
    "addcdiv": (other(), other() + 1),
    "addcmul": (other(), x()),
    "addmm": (M34, SQUARE),
    "addmv": (M34, V4),
    "addr": (hlx.linspace(0, 1, 3), V4),
    "baddbmm": (BATCH, SQUARE.expand(2, 4, 4)),
    "clamp": (0.3, 0.7),
    "clip": (0.3, 0.7),
    "clamp_max": (0.5,),
    "clamp_min": (0.5,),
    "cumprod": (1,),
    "cumsum": (0,),
    "index_add": (0, ROWS, other()),
    "index_copy": (0, ROWS, other()),
    "index_fill": (0, ROWS, 5),
    "index_put": ((ROWS, ROWS), V4[:3]),
    "lerp": (other(), 0.25),
    "logit": (),
    "masked_fill": (mask(), 2.0),
    "masked_scatter": (mask(), other()),
    "put": (ROWS, V4[:3]),
    "renorm": (2, 0, 0.5),
    "scatter": (0, PLACES, other()),
    "scatter_add": (0, PLACES, other()),
    "scatter_reduce": (0, PLACES, other(), "mean"),
    "pow": (2.5,),
}
INPUTS = {"addbmm": hlx.linspace(0, 1, 9).reshape(3, 3), "addmv": hlx.linspace(0, 1, 3), "baddbmm": BATCH}
BITS = [name for name in NAMES if name.startswith("bitwise")]
ABOVE_ONE = ("acosh", "arccosh")


def call_of(name: str) -> tuple[hlx.Tensor, tuple]:
    """A tensor, and arguments for an operation."""
    if name in BITS:
        return whole(), () if name == "bitwise_not" else (hlx.tensor(3),)
    if name in ARGUMENTS:
        return INPUTS.get(name, x()), ARGUMENTS[name]
    parameters = list(inspect.signature(getattr(hlx.Tensor, name)).parameters.values())[1:]
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return x() + 1 if name in ABOVE_ONE else x(), (other(),) * len(needed)


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_the_operation(name: str) -> None:
    """The tensor itself is returned, with the operation's bits in its memory, which a view sees."""
    before, arguments = call_of(name)
    expected = getattr(before, name)(*arguments).to(before.dtype)
    tensor = before.clone()
    view = tensor.reshape(-1)
    assert getattr(tensor, f"{name}_")(*arguments) is tensor
    assert tensor.digest() == expected.digest()
    assert view.digest() == expected.reshape(-1).digest()
    assert before.digest() == call_of(name)[0].digest()


@pytest.mark.parametrize("name", NAMES)
def test_the_signature_is_the_operations(name: str) -> None:
    """Keywords and defaults follow the operation, and the text names it."""
    in_place, operation = getattr(hlx.Tensor, f"{name}_"), getattr(hlx.Tensor, name)
    assert inspect.signature(in_place).parameters == inspect.signature(operation).parameters
    assert in_place.__name__ == f"{name}_"
    assert in_place.__doc__.startswith(f"As `{name}`")


def test_keywords_pass() -> None:
    """Keywords of the operation are those of its form in place."""
    assert x().add_(other(), alpha=2).equal(x().add(other(), alpha=2))
    assert x().div_(other(), rounding_mode="floor").equal(x().div(other(), rounding_mode="floor"))


def test_gradients_follow_the_operation() -> None:
    """An operation in place on the tape has the gradient of the operation."""
    gradients = []
    for change in (lambda y: y.exp_().mul_(other()).add_(y), lambda y: (y.exp() * other()) * 2):
        leaf = x().clone().requires_grad_()
        change(leaf * 2).sum().backward()
        gradients.append(leaf.grad)
    assert gradients[0].equal(gradients[1])


@pytest.mark.parametrize("write", ["zero_", "fill_", "copy_"])
def test_overwritten_values_have_a_gradient_of_zero(write: str) -> None:
    """What is written has the gradient, the values from before have zeros."""
    leaf, source = x().requires_grad_(), other().requires_grad_()
    y = leaf * 2
    arguments = {"zero_": (), "fill_": (3.0,), "copy_": (source,)}[write]
    getattr(y, write)(*arguments).mul(3).sum().backward()
    assert leaf.grad is None or leaf.grad.count_nonzero().item() == 0
    if write == "copy_":
        assert source.grad.tolist() == hlx.full((3, 4), 3.0).tolist()


def test_a_leaf_is_refused_outside_of_no_grad() -> None:
    """As in PyTorch."""
    leaf = x().clone().requires_grad_()
    with pytest.raises(hlx.errors.RuntimeError, match=r"exp_: .*leaf"):
        leaf.exp_()
    with hlx.no_grad():
        leaf.exp_()
    assert leaf.detach().equal(x().exp())


def test_a_float_is_not_written_to_integers() -> None:
    """The kind of type stays."""
    with pytest.raises(hlx.errors.TypeError, match="div_: the result has elements of f32, expected i32"):
        whole().div_(2)
    assert whole().add_(True).equal(whole() + 1)


def test_random_fills() -> None:
    """A seed decides the values, and the type stays."""
    for name in ("uniform_", "normal_", "random_", "bernoulli_"):
        drawn = []
        for _ in range(2):
            hlx.manual_seed(3)
            drawn.append(getattr(hlx.empty(64, dtype=hlx.float16), name)())
        assert drawn[0].dtype == hlx.float16
        assert drawn[0].digest() == drawn[1].digest()
