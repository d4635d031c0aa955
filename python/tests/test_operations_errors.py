"""Errors of operations: one line that names the operation, what was found and what was expected."""

from collections.abc import Callable

import pytest

import hlx

X = hlx.ones(2, 3)
F = hlx.nn.functional

CASES: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: X.sum(2), IndexError, "sum: "),
    (lambda: X.squeeze(5), IndexError, "squeeze: dimension 5 is out of range, expected -2 to 1"),
    (lambda: X.movedim(0, 4), IndexError, "movedim: dimension 4 is out of range, expected -2 to 1"),
    (lambda: X.flip(0, 0), RuntimeError, "flip: dimensions [0, 0] name one twice"),
    (lambda: X.select(0, 2), IndexError, "select: index 2 is out of range of dimension 0, which has 2 elements"),
    (lambda: X.narrow(0, 3, 1), IndexError, "narrow: start 3 and length 1 are out of range of dimension 0"),
    (lambda: X.split([1, 2]), RuntimeError, "split: sizes [1, 2] do not add up to 2, the extent of dimension 0"),
    (lambda: hlx.tensor(1).unbind(), RuntimeError, "unbind: the input has shape [], expected at least one dimension"),
    (lambda: X.reshape(4, 2), ValueError, "reshape: shape [2, 3] has 6 elements, expected 8 as [4, 2]"),
    (lambda: hlx.cat([]), RuntimeError, "cat: there are no tensors, expected at least one"),
    (lambda: hlx.mm(X, hlx.ones(3)), RuntimeError, "mm: mat2 has shape [3], expected 2 dimensions"),
    (lambda: X.matmul(X), ValueError, "matmul: the right operand has shape [2, 3], expected [3, N]"),
    (lambda: X + hlx.ones(4), ValueError, "add: shapes [2, 3] and [4] do not broadcast"),
    (lambda: X.add("a"), TypeError, "add: "),
    (lambda: X.div(2, rounding_mode="up"), ValueError, "div: rounding_mode is 'up', expected None, 'floor' or 'trunc'"),
    (lambda: X.clamp(), ValueError, "clamp: min and max are None, expected a bound"),
    (lambda: X.norm("nuc"), ValueError, "norm: p is 'nuc', expected a number or 'fro'"),
    (lambda: X.cumsum(), TypeError, "cumsum: dim is missing"),
    (
        lambda: X.scatter(0, hlx.tensor([[0]]), 1, reduce="max"),
        ValueError,
        "scatter: reduce is 'max', expected None, 'add' or 'multiply'",
    ),
    (lambda: X.double(), TypeError, "double: HLX has no float64; use dtype=hlx.float32"),
    (lambda: X.to(hlx.float64), TypeError, "to: HLX has no float64; use dtype=hlx.float32"),
    (lambda: X.to(3), TypeError, "to: an argument is int, expected a type, a device or a tensor"),
    (lambda: X.to(where="cpu"), TypeError, "to: there is no argument 'where'"),
    (lambda: hlx.arange(0, 5, 0), ValueError, "arange: steps of 0 do not lead from 0 to 5"),
    (lambda: hlx.full((2,), "a"), TypeError, "full: fill_value is str, expected a number"),
    (lambda: hlx.linspace(0, 1, -1), ValueError, "linspace: steps is -1, expected at least 0"),
    (lambda: hlx.set_default_dtype(hlx.int32), TypeError, "set_default_dtype: is hlx.int32, expected float32"),
    (lambda: hlx.iinfo(hlx.float32), TypeError, "iinfo: the type is hlx.float32, expected an integer type"),
    (lambda: hlx.einsum([0, 1], X), ValueError, "einsum: the equation is no text"),
    (lambda: F.gelu(X, "fast"), RuntimeError, "gelu: approximate is 'fast', expected 'none' or 'tanh'"),
    (lambda: F.mse_loss(X, X, reduction="max"), ValueError, "mse_loss: reduction is 'max', expected 'none'"),
    (lambda: F.pad(X, (1,)), RuntimeError, "pad: pad is [1], expected an even number of widths"),
    (lambda: F.pad(X, (1, 1), "mirror"), NotImplementedError, "pad: mode is 'mirror', expected 'constant'"),
    (lambda: F.interpolate(X[None], 4, mode="lanczos"), NotImplementedError, "interpolate: mode is 'lanczos'"),
    (lambda: F.interpolate(X[None]), ValueError, "interpolate: size and scale_factor are None, expected one of them"),
    (lambda: F.conv2d(X, X, padding="full"), ValueError, "conv2d: padding is 'full', expected numbers"),
    (lambda: F.layer_norm(X, (2,)), RuntimeError, "layer_norm: the input has shape [2, 3], expected one that ends"),
    (lambda: F.dropout(X, 1.5), ValueError, "dropout: p is 1.5, expected 0 to 1"),
    (lambda: F.glu(X), RuntimeError, "glu: dimension -1 has 3 elements, expected an even number"),
    (lambda: F.embedding(hlx.tensor([0]), X, padding_idx=2), RuntimeError, "embedding: padding_idx is 2, expected -2"),
    (lambda: F.batch_norm(X, None, None), RuntimeError, "batch_norm: running_mean or running_var is None"),
    (lambda: hlx.linalg.matrix_norm(X, 2), ValueError, "linalg.matrix_norm: ord is 2, expected 'fro', 1, -1"),
]


@pytest.mark.parametrize(("call", "error", "text"), CASES, ids=[case[2][:40] for case in CASES])
def test_one_line(call: Callable[[], object], error: type[Exception], text: str) -> None:
    """The type is Python's and HLX's, the text begins with the operation."""
    with pytest.raises(error) as caught:
        call()
    assert isinstance(caught.value, hlx.errors.Error)
    message = str(caught.value)
    assert message.startswith(text), message
    assert "\n" not in message
