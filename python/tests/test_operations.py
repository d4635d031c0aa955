"""Overloads, keywords and named tuples of operations, where PyTorch's samples have nothing."""

import math

import pytest

import hlx
from hlx._operations import ATTRIBUTES, FUNCTIONS, METHODS

X = hlx.tensor([[1.0, 5.0, 5.0], [3.0, 2.0, 0.0]])


def test_every_registered_name_is_where_it_belongs() -> None:
    """The package and the class of tensors have all of them."""
    for name, function in FUNCTIONS.items():
        assert getattr(hlx, name) is function, name
    for name, function in METHODS.items():
        assert getattr(hlx.Tensor, name) is function, name
    for name in ATTRIBUTES:
        assert isinstance(getattr(hlx.Tensor, name), property), name
    assert len(FUNCTIONS) > 250


def test_every_operation_says_what_it_does() -> None:
    """Each has a text with an example, and annotations for the stubs."""
    for function in {*FUNCTIONS.values(), *METHODS.values(), *ATTRIBUTES.values()}:
        text, name = function.__doc__ or "", function.__name__
        assert text, name
        assert ">>>" in text or name.endswith("_") or name == "vulkan", name
        assert "return" in function.__annotations__, name


def test_max_and_min_have_three_forms() -> None:
    """Of all elements, along a dimension, of two tensors."""
    assert X.max().item() == 5
    largest = X.max(1)
    assert (largest.values.tolist(), largest.indices.tolist()) == ([5, 3], [1, 0])
    assert largest[0] is largest.values
    assert type(largest) is hlx.return_types.max
    values, places = hlx.min(X, dim=0, keepdim=True)
    assert (values.tolist(), places.tolist()) == ([[1, 2, 0]], [[0, 1, 1]])
    assert places.dtype == hlx.int32
    assert X.max(X.flip(1)).tolist() == hlx.maximum(X, X.flip(1)).tolist()
    assert hlx.min(X, other=X.flip(1)).tolist() == hlx.minimum(X, X.flip(1)).tolist()
    assert X.max(axis=1, keepdims=True).values.shape == (2, 1)


def test_named_tuples() -> None:
    """Sorts and the like have PyTorch's names."""
    assert X.sort(dim=1, descending=True).indices.tolist() == [[1, 2, 0], [0, 1, 2]]
    assert X.topk(1).values.tolist() == [[5], [3]]
    assert hlx.kthvalue(X, 2, 1).values.tolist() == [5, 2]
    assert X.median(1).values.tolist() == [5, 2]
    assert X.median().item() == 2
    assert math.isnan(hlx.tensor([1.0, math.nan, 2.0]).median().item())
    assert (hlx.aminmax(X).min.item(), hlx.aminmax(X, dim=0).max.tolist()) == (0, [3, 5, 5])
    assert X.cummax(1).indices.tolist() == [[0, 1, 2], [0, 0, 0]]


def test_reductions_take_dimensions_and_types() -> None:
    """None, one, several, NumPy's words, and a type."""
    assert X.sum(()).item() == X.sum().item() == 16
    assert X.sum((0, 1), keepdim=True).shape == (1, 1)
    assert X.sum(axis=0).tolist() == X.sum(0).tolist() == [4, 7, 5]
    assert hlx.tensor([True, True]).sum().dtype == hlx.int32
    assert X.sum(dtype=hlx.int32).dtype == hlx.int32
    assert X.mean(-1, keepdims=True).shape == (2, 1)
    assert (X.var(unbiased=False) - X.var(correction=0)).item() == 0
    assert X.var(False).item() == X.var(correction=0).item()
    assert [y.item() for y in hlx.std_mean(X, correction=0)] == [X.std(correction=0).item(), X.mean().item()]
    assert (X.norm().item(), X.norm(1).item(), X.norm(math.inf).item()) == (8, 16, 5)
    assert X.byte().any().dtype == hlx.uint8


def test_shapes_in_every_form() -> None:
    """One by one, as a sequence, as keywords, with -1."""
    assert (
        X.reshape(3, 2).shape == X.reshape((3, 2)).shape == X.reshape(-1, 2).shape == hlx.reshape(X, shape=(3, 2)).shape
    )
    assert X.permute(1, 0).shape == X.permute((1, 0)).shape == X.T.shape == X.t().shape == (3, 2)
    assert X.flip(0, 1).tolist() == X.flip(dims=(0, 1)).tolist() == X.rot90(2).tolist()
    assert X.expand(4, -1, -1).shape == (4, 2, 3)
    assert hlx.zeros(1, 2, 1, 3).squeeze((0, 2)).shape == (2, 3)
    assert hlx.zeros(2, 3, 4).movedim((0, 1), (1, 2)).shape == (4, 2, 3)
    assert X.size() == X.shape and X.size(-1) == 3 and X.dim() == 2
    assert hlx.zeros(()).shape == hlx.zeros([]).shape == ()
    assert [tuple(part.shape) for part in X.split([1, 2], dim=1)] == [(2, 1), (2, 2)]
    assert [part.tolist() for part in X[0].tensor_split(2)] == [[1, 5], [5]]
    assert [part.shape[0] for part in hlx.arange(7).tensor_split([2, 5])] == [2, 3, 2]
    assert X.clone(memory_format=None).data_ptr() != X.data_ptr()


def test_conversions() -> None:
    """The forms of `to`, and the short words."""
    assert X.to(hlx.int32).dtype == X.to("cpu", hlx.int32).dtype == X.to(dtype=hlx.int32).dtype == X.int().dtype
    assert X.to(hlx.tensor([1])).dtype == X.type_as(hlx.tensor([1])).dtype == hlx.int32
    assert X.to("cpu") is X and X.float() is X
    copied = X.to(hlx.float32, copy=True)
    assert copied is not X and copied.equal(X)
    assert X.long().dtype == X.to(hlx.int64).dtype == hlx.int32
    assert hlx.promote_types(hlx.uint8, hlx.int8) == (hlx.tensor([1]).byte() + hlx.tensor([1]).char()).dtype
    assert hlx.result_type(hlx.tensor([1.0]).half(), 2) == hlx.float16
    assert hlx.result_type(hlx.tensor([1]), 2.5) == hlx.float32
    assert hlx.can_cast(hlx.int32, hlx.float16) and not hlx.can_cast(hlx.float16, hlx.int32)
    assert (hlx.finfo(hlx.float16).max, hlx.finfo(hlx.bfloat16).eps) == (65504, 2**-7)
    assert (hlx.iinfo(hlx.uint8).min, hlx.iinfo(hlx.uint32).max) == (0, 2**32 - 1)


def test_numbers_on_either_side() -> None:
    """A number decides the kind of a result's type, not its width."""
    half = X.half()
    assert hlx.add(1, half).dtype == hlx.sub(1.5, half).dtype == hlx.float16
    assert hlx.div(1, hlx.tensor([2])).item() == 0.5
    assert hlx.add(2, 3).item() == 5 and hlx.mul(2, 1.5).dtype == hlx.float32
    assert hlx.pow(2, hlx.tensor([3])).item() == 8
    assert hlx.where(X > 2, 1, 0).dtype == hlx.int32
    assert hlx.where(X > 2, X, 0).dtype == hlx.float32
    assert X.where(X > 2, 0.0).tolist() == hlx.where(X > 2, X, 0.0).tolist()
    assert [places.tolist() for places in hlx.where(X > 3)] == [[0, 0], [1, 2]]


def test_places() -> None:
    """Elements other than 0, and the different ones."""
    assert X.nonzero().tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1]]
    values, inverse, counts = X.unique(return_inverse=True, return_counts=True)
    assert values.tolist() == [0, 1, 2, 3, 5]
    assert values[inverse].equal(X)
    assert counts.tolist() == [1, 1, 1, 1, 2]
    assert hlx.unique_consecutive(hlx.tensor([1, 1, 2, 1]), return_counts=True)[1].tolist() == [2, 1, 1]
    assert hlx.scatter(hlx.zeros(2), 0, hlx.tensor([1]), value=5).tolist() == [0, 5]
    assert X.take_along_dim(X.argsort(1), 1).equal(X.sort(1).values)


def test_making() -> None:
    """Types by default, whole ranges, likenesses, seeds."""
    assert hlx.arange(5).dtype == hlx.full((1,), 3).dtype == hlx.int32
    assert hlx.arange(0.0, 1.0, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert hlx.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert hlx.arange(16_777_215, 16_777_219).tolist() == list(range(16_777_215, 16_777_219))
    assert hlx.full((1,), True).dtype == hlx.bool
    assert hlx.zeros_like(X.half()).dtype == X.half().new_zeros(2).dtype == hlx.float16
    assert hlx.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert hlx.ones(2, requires_grad=True).is_leaf
    draws = []
    for _ in range(2):
        hlx.manual_seed(5)
        draws.append([hlx.rand(3).tolist(), hlx.randperm(9).tolist(), hlx.randint(9, (4,)).tolist()])
    assert draws[0] == draws[1] and sorted(draws[0][1]) == list(range(9))
    assert hlx.rand(3, generator=hlx.Generator().manual_seed(1)).shape == (3,)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_old_words_of_losses(reduction: str) -> None:
    """`size_average` and `reduce` are forms of `reduction`."""
    functional = hlx.nn.functional
    old = {"none": {"reduce": False}, "mean": {"size_average": True}, "sum": {"size_average": False}}[reduction]
    new = functional.mse_loss(X, X * 2, reduction=reduction)
    assert functional.mse_loss(X, X * 2, **old).equal(new)


def test_attention_by_the_kernel_and_by_operations() -> None:
    """A mask that hides nothing has the result of the kernel, but for rounding."""
    hlx.manual_seed(0)
    q, k, v = (hlx.randn(2, 3, 5, 8) for _ in range(3))
    attend = hlx.nn.functional.scaled_dot_product_attention
    nothing = hlx.ones(5, 5, dtype=hlx.bool)
    assert hlx.allclose(attend(q, k, v), attend(q, k, v, nothing), rtol=1e-5, atol=1e-6)
    causal = attend(q, k, v, is_causal=True)
    assert hlx.allclose(causal, attend(q, k, v, nothing.int().tril().bool()), rtol=1e-5, atol=1e-6)
    blind = attend(q, k, v, hlx.zeros(5, 5, dtype=hlx.bool))
    assert blind.count_nonzero().item() == 0
    grouped = attend(q, k[:, :1], v[:, :1], enable_gqa=True)
    assert hlx.allclose(grouped, attend(q, k[:, :1].expand(2, 3, 5, 8), v[:, :1].expand(2, 3, 5, 8)), rtol=1e-5)


def test_dropout_keeps_the_mean_and_draws_anew() -> None:
    """Elements are 0 or scaled; a seed decides which; without training nothing changes."""
    hlx.manual_seed(1)
    ones = hlx.ones(100, 100)
    dropped = hlx.nn.functional.dropout(ones, 0.25)
    assert sorted(dropped.unique().tolist()) == pytest.approx([0, 4 / 3])
    assert 0.7 < (dropped != 0).float().mean().item() < 0.8
    assert not dropped.equal(hlx.nn.functional.dropout(ones, 0.25))
    hlx.manual_seed(1)
    assert dropped.equal(hlx.nn.functional.dropout(ones, 0.25))
    assert hlx.nn.functional.dropout(ones, 0.25, training=False) is ones
    channels = hlx.nn.functional.dropout2d(hlx.ones(4, 8, 2, 2), 0.5)
    assert (channels.flatten(2).var(2) == 0).all()


def test_batch_norm_moves_running_values() -> None:
    """By the momentum, the variance unbiased, in the running values' own type."""
    hlx.manual_seed(2)
    x = hlx.randn(16, 3)
    for dtype in (hlx.float32, hlx.float16):
        mean, variance = hlx.zeros(3, dtype=dtype), hlx.ones(3, dtype=dtype)
        hlx.nn.functional.batch_norm(x, mean, variance, training=True, momentum=0.25)
        tolerance = 1e-6 if dtype == hlx.float32 else 2e-3
        assert hlx.allclose(mean.float(), x.mean(0) * 0.25, atol=tolerance, rtol=tolerance)
        assert hlx.allclose(variance.float(), 0.75 + x.var(0) * 0.25, atol=tolerance, rtol=tolerance)


def test_draws_have_their_distributions() -> None:
    """Means of many draws, with a seed; places without weight are never drawn."""
    hlx.manual_seed(4)
    counts = hlx.multinomial(hlx.tensor([1.0, 0.0, 3.0]), 4000, replacement=True).bincount(minlength=3).tolist()
    assert counts[1] == 0 and 900 < counts[0] < 1100
    assert sorted(hlx.multinomial(hlx.tensor([1.0, 2.0, 3.0, 0.0]), 3).tolist()) == [0, 1, 2]
    assert 0.27 < hlx.bernoulli(hlx.full((4000,), 0.3)).mean().item() < 0.33
    assert hlx.normal(hlx.tensor([5.0]), 0.0).item() == 5
    exact = hlx.nn.functional.gumbel_softmax(hlx.zeros(4000, 4), hard=True)
    assert (exact.sum(1) == 1).all() and (exact.mean(0) - 0.25).abs().max().item() < 0.03
    scaled = hlx.nn.functional.alpha_dropout(hlx.randn(20000), 0.3, training=True)
    assert abs(scaled.mean().item()) < 0.03 and abs(scaled.std().item() - 1) < 0.03


def test_scattered_reductions_join_all_writes_to_a_place() -> None:
    """Products and extremes of several writes, with and without what is there, and their gradients."""
    index = hlx.tensor([0, 2, 0, 0, 2])
    x, source = (
        hlx.tensor([2.0, 7.0, 1.0], requires_grad=True),
        hlx.tensor([3.0, 4.0, 5.0, 5.0, -1.0], requires_grad=True),
    )
    assert x.scatter_reduce(0, index, source, "prod").tolist() == [150, 7, -4]
    assert x.scatter_reduce(0, index, source, "prod", include_self=False).tolist() == [75, 7, -4]
    assert x.scatter(0, index, source, reduce="multiply").tolist() == [150, 7, -4]
    assert x.scatter_reduce(0, index, source, "amin").tolist() == [2, 7, -1]
    x.scatter_reduce(0, index, source, "amax").sum().backward()
    assert (x.grad.tolist(), source.grad.tolist()) == ([0, 1, 0], [0, 1, 0.5, 0.5, 0])


def test_columns_and_images() -> None:
    """`fold` adds up what `unfold` takes apart: every pixel as often as windows have it."""
    x = hlx.arange(16.0).reshape(1, 1, 4, 4)
    columns = hlx.nn.functional.unfold(x, 3, padding=1)
    assert columns.shape == (1, 9, 16)
    again = hlx.nn.functional.fold(columns, 4, 3, padding=1)
    times = hlx.nn.functional.fold(hlx.nn.functional.unfold(hlx.ones_like(x), 3, padding=1), 4, 3, padding=1)
    assert again.equal(x * times)
    values, places = hlx.nn.functional.max_pool2d(x, 2, return_indices=True)
    unpooled = hlx.nn.functional.max_unpool2d(values, places, 2)
    assert unpooled.equal(hlx.where(hlx.isin(x, values), x, 0.0))


def test_whole_numbers_past_24_bits_are_exact() -> None:
    """Places and values that no f32 holds."""
    assert hlx.diag(hlx.ones(4200, dtype=hlx.uint8)).diagonal().sum().item() == 4200
    last = hlx.zeros(2**24 + 10, dtype=hlx.bool)
    last[-1] = True
    assert last.nonzero().tolist() == [[2**24 + 9]]
    assert hlx.tensor([1, 2]).masked_fill(hlx.tensor([True, False]), 2**24 + 1).tolist() == [2**24 + 1, 2]
    assert hlx.full((1,), 2**24 + 1).item() == hlx.tensor([0]).fill_(2**24 + 1).item() == 2**24 + 1


def test_the_default_type_is_that_of_new_floats() -> None:
    """Made without a type, or of a float; integers stay integers."""
    hlx.set_default_dtype(hlx.float16)
    try:
        made = [hlx.zeros(2), hlx.ones(2), hlx.full((2,), 1.5), hlx.linspace(0, 1, 3), hlx.eye(2), hlx.rand(2)]
        made += [hlx.randn(2), hlx.arange(0.0, 1.0, 0.5), hlx.scalar_tensor(2), hlx.empty(2)]
        assert {tensor.dtype for tensor in made} == {hlx.float16}
        assert hlx.arange(3).dtype == hlx.full((2,), 1).dtype == hlx.int32
        assert hlx.finfo().bits == 16
    finally:
        hlx.set_default_dtype(hlx.float32)
    assert hlx.zeros(2).dtype == hlx.float32
