"""Gradients from Python: passes, modes, hooks, operations of one's own, changes in place."""

import pytest

import hlx
from hlx import autograd


def test_gradients_accumulate_in_leaves(device: hlx.device) -> None:
    """As in PyTorch a second pass adds, and None starts anew."""
    x = hlx.tensor([1.0, 2.0], device=device, requires_grad=True)
    (x * x).sum().backward()
    (x * 3).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    assert x.grad is None
    x.backward(hlx.tensor([2.0, 4.0], device=device))
    assert x.grad.tolist() == [2.0, 4.0]
    x.grad *= 2
    assert x.grad.tolist() == [4.0, 8.0]
    half = hlx.ones(2, dtype=hlx.float16, device=device, requires_grad=True)
    half.grad = hlx.ones(2, dtype=hlx.float16, device=device)
    (half * 2).sum().backward()
    assert (half.grad.tolist(), half.grad.dtype) == ([3.0, 3.0], hlx.float16)
    with pytest.raises(ValueError, match=r"^set_grad: the gradient has shape \[3\], expected \[2\]$"):
        x.grad = hlx.ones(3, device=device)


def test_modes_are_of_the_thread() -> None:
    """`no_grad` and its like as contexts, decorators and calls."""
    x = hlx.ones(1, requires_grad=True)
    with hlx.no_grad():
        assert not (x * 2).requires_grad
        with hlx.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad

    @hlx.no_grad()
    def quiet() -> hlx.Tensor:
        return x * 2

    @hlx.no_grad
    def quiet_too() -> hlx.Tensor:
        return x * 2

    assert not quiet().requires_grad
    assert not quiet_too().requires_grad
    hlx.set_grad_enabled(False)
    try:
        assert not hlx.is_grad_enabled()
    finally:
        hlx.set_grad_enabled(True)
    with pytest.raises(ZeroDivisionError), hlx.no_grad():
        raise ZeroDivisionError
    assert hlx.is_grad_enabled()


def test_second_derivatives() -> None:
    """`create_graph` gives gradients that can be differentiated again."""
    x = hlx.tensor([0.5, 1.5], requires_grad=True)
    (slope,) = autograd.grad((x**3).sum(), x, create_graph=True)
    (curve,) = autograd.grad(slope.sum(), x)
    assert curve.tolist() == [3.0, 9.0]
    y = (x**3).sum()
    y.backward(create_graph=True)
    assert x.grad.requires_grad


def test_grad_of_inputs() -> None:
    """`grad` leaves the leaves as they are, and tells unused inputs."""
    x, unused = hlx.ones(2, requires_grad=True), hlx.ones(2, requires_grad=True)
    hidden = x * 2
    y = (hidden * hidden).sum()
    first, second = autograd.grad(y, [x, hidden], retain_graph=True)
    assert (first.tolist(), second.tolist()) == ([8.0, 8.0], [4.0, 4.0])
    assert x.grad is None
    with pytest.raises(hlx.Error, match="^grad: the outputs do not depend on input 1; allow_unused=True gives None$"):
        autograd.grad(y, [x, unused], retain_graph=True)
    assert autograd.grad(y, [x, unused], allow_unused=True)[1] is None
    with pytest.raises(hlx.Error, match="was differentiated before and its saved tensors are gone"):
        y.backward()


def test_hooks_and_retained_gradients() -> None:
    """A hook sees a gradient, may replace it, and can be removed."""
    x = hlx.ones(2, requires_grad=True)
    hidden = x * 2
    hidden.retain_grad()
    seen = []
    handle = hidden.register_hook(lambda gradient: seen.append(gradient.tolist()))
    x.register_hook(lambda gradient: gradient * 10)
    hidden.sum().backward()
    assert (seen, hidden.grad.tolist(), x.grad.tolist()) == ([[1.0, 1.0]], [1.0, 1.0], [20.0, 20.0])
    handle.remove()
    (x * 2).sum().backward()
    assert len(seen) == 1
    y = hlx.ones(1, requires_grad=True)
    y.register_hook(lambda gradient: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (y * 2).backward()


class Scaled(autograd.Function):
    """Two outputs of one operation, one argument without a gradient."""

    @staticmethod
    def forward(ctx: autograd.FunctionCtx, x: hlx.Tensor, factor: float) -> tuple[hlx.Tensor, hlx.Tensor]:
        """Computes x f and x^2."""
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor, x * x

    @staticmethod
    def backward(ctx: autograd.FunctionCtx, of_first: hlx.Tensor, of_second: hlx.Tensor) -> tuple[object, ...]:
        """Returns the gradient of x."""
        (x,) = ctx.saved_tensors
        return of_first * ctx.factor + 2 * x * of_second, None


def test_operations_of_ones_own(device: hlx.device) -> None:
    """Gradients, second derivatives and modes of a Function."""
    x = hlx.tensor([[1.0, 2.0]], device=device, requires_grad=True)
    first, second = Scaled.apply(x, 3.0)
    assert (first.tolist(), second.tolist()) == ([[3.0, 6.0]], [[1.0, 4.0]])
    (slope,) = autograd.grad((first.sum() + second.sum()), x, create_graph=True)
    assert slope.tolist() == [[5.0, 7.0]]
    assert autograd.grad(slope.sum(), x)[0].tolist() == [[2.0, 2.0]]
    only_second = Scaled.apply(x, 3.0)[1]
    only_second.sum().backward()
    assert x.grad.tolist() == [[2.0, 4.0]]
    with hlx.no_grad():
        assert not Scaled.apply(x, 3.0)[0].requires_grad


def test_errors_of_ones_own_operation_pass_through() -> None:
    """An exception in `backward` is the one that the caller sees."""

    class Broken(autograd.Function):
        @staticmethod
        def forward(ctx: autograd.FunctionCtx, x: hlx.Tensor) -> hlx.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: autograd.FunctionCtx, gradient: hlx.Tensor) -> hlx.Tensor:
            raise KeyError("mine")

    x = hlx.ones(1, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        Broken.apply(x).backward()


def test_views_follow_a_change_in_place() -> None:
    """A change through a view goes into the history of what it views, and of its other views."""
    x = hlx.ones(2, 3, requires_grad=True)
    y = x * 2
    column, flat = y[:, 0], y.reshape(-1)
    y[0] += 1
    column *= 5
    assert y.tolist() == [[15.0, 3.0, 3.0], [10.0, 2.0, 2.0]]
    assert flat.tolist() == [15.0, 3.0, 3.0, 10.0, 2.0, 2.0]
    (flat * flat).sum().backward()
    assert x.grad.tolist() == [[300.0, 12.0, 12.0], [200.0, 8.0, 8.0]]


def test_forbidden_changes_in_place_are_refused() -> None:
    """A leaf, and a tensor that was saved, are refused as in PyTorch."""
    x = hlx.ones(2, requires_grad=True)
    with pytest.raises(hlx.Error, match="is a leaf that requires a gradient"):
        x += 1
    with pytest.raises(hlx.Error, match="is a leaf that requires a gradient"):
        x[0] *= 2
    view = hlx.ones(4).reshape(2, 2).requires_grad_()
    with pytest.raises(hlx.Error, match="is a leaf that requires a gradient"):
        view.exp_()
    y = x * 1
    saved = y.sin()
    y += 1
    with pytest.raises(hlx.Error, match="changed in place after it was saved"):
        saved.sum().backward()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hlx.ones(1).backward(), "backward: the tensor depends on nothing that requires a gradient"),
        (
            lambda: hlx.ones(2, requires_grad=True).backward(),
            "backward: the tensor has shape [2], expected one element or a given gradient",
        ),
        (
            lambda: hlx.tensor([1], requires_grad=True),
            "requires_grad_: the tensor is of int32, expected a float type",
        ),
        (lambda: autograd.grad(hlx.ones(1), hlx.ones(1)), "grad: an input does not require a gradient"),
    ],
)
def test_errors_are_one_line(call: object, text: str) -> None:
    """Each says what was found and what was expected."""
    with pytest.raises(RuntimeError) as raised:
        call()  # type: ignore[operator]
    assert isinstance(raised.value, hlx.Error)
    assert str(raised.value) == text


def test_gradients_have_the_shape_of_their_tensor() -> None:
    """Gains and biases of images, which are sums over pixels."""
    functional = hlx.nn.functional
    x, weight = hlx.rand(2, 4, 3, 3, requires_grad=True), hlx.rand(4, requires_grad=True)
    y = functional.group_norm(x, 2, weight, weight)
    assert autograd.grad(y.sum(), weight)[0].shape == (4,)
    kernel, bias = hlx.rand(4, 2, 3, 3), hlx.rand(2, requires_grad=True)
    z = functional.conv_transpose2d(x, kernel, bias)
    assert autograd.grad(z.sum(), bias)[0].shape == (2,)
