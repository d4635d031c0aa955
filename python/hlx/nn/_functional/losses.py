"""Losses. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are its older forms."""

from hlx import _hlx, errors
from hlx._operations._rounding import rounded_once
from hlx._operations._types import FLOAT32, Tensor

_unary, _binary = _hlx.unary, _hlx.binary


def reduction_word(operation: str, size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    if size_average is not None or reduce is not None:
        if reduce is False:
            return "none"
        return "sum" if size_average is False else "mean"
    if reduction not in ("none", "mean", "sum"):
        raise errors.ValueError(f"{operation}: reduction is {reduction!r}, expected 'none', 'mean' or 'sum'")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return loss
    return _hlx.mean_dim(loss, [], False) if reduction == "mean" else _hlx.sum_dim(loss, [], False)


def _weighted(loss: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    # The mean of a distance's weighted elements is over the weights.
    if weight is None:
        return reduced(loss, reduction)
    weight = _hlx.expand(weight, list(loss.shape))
    loss = _binary(loss, weight, "mul")
    if reduction == "mean":
        return _binary(_hlx.sum_dim(loss, [], False), _hlx.sum_dim(weight, [], False), "div")
    return reduced(loss, reduction)


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Computes `(input - target)^2`, with weights over their sum.

    >>> hlx.nn.functional.mse_loss(hlx.tensor([1.0, 3.0]), hlx.zeros(2)).item()
    5.0
    """
    word = reduction_word("mse_loss", size_average, reduce, reduction)
    if weight is not None:
        return _weighted(_hlx.mse_loss(input, target, "none"), weight, word)
    return _hlx.mse_loss(input, target, word)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Computes `|input - target|`, with weights over their sum.

    >>> hlx.nn.functional.l1_loss(hlx.tensor([1.0, -3.0]), hlx.zeros(2)).item()
    2.0
    """
    word = reduction_word("l1_loss", size_average, reduce, reduction)
    if weight is not None:
        return _weighted(_hlx.l1_loss(input, target, "none"), weight, word)
    return _hlx.l1_loss(input, target, word)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Computes `d^2 / (2 beta)` of distances d below beta, else `d - beta / 2`.

    >>> hlx.nn.functional.smooth_l1_loss(hlx.tensor([1.0, 3.0]), hlx.zeros(2), reduction="none").tolist()
    [0.5, 2.5]
    """
    word = reduction_word("smooth_l1_loss", size_average, reduce, reduction)
    return _hlx.smooth_l1_loss(input, target, beta, word)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Computes `d^2 / 2` of distances d below delta, else `delta (d - delta / 2)`.

    >>> hlx.nn.functional.huber_loss(hlx.tensor([1.0, 3.0]), hlx.zeros(2), reduction="none").tolist()
    [0.5, 2.5]
    """
    word = reduction_word("huber_loss", None, None, reduction)
    if weight is not None:
        return _weighted(_hlx.huber_loss(input, target, delta, "none"), weight, word)
    return _hlx.huber_loss(input, target, delta, word)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Computes `target (log target - input)` of log-probabilities; "batchmean" is the sum over the samples.

    >>> hlx.nn.functional.kl_div(hlx.zeros(1, 2), hlx.ones(1, 2), reduction="batchmean").item()
    0.0
    """
    word = reduction if reduction == "batchmean" else reduction_word("kl_div", size_average, reduce, reduction)
    return _hlx.kl_div(input, target, log_target, word)


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `-weight[t] input[t]` of log-probabilities [N, C, ..] and classes t [N, ..]; the mean is by weight.

    >>> hlx.nn.functional.nll_loss(hlx.tensor([[-1.0, -2.0]]), hlx.tensor([1])).item()
    2.0
    """
    word = reduction_word("nll_loss", size_average, reduce, reduction)
    return _hlx.nll_loss(input, target, weight, ignore_index, word)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Computes `-log softmax(input)[t]` of logits [N, C, ..] and classes t [N, ..], or probabilities [N, C, ..].

    A class that is neither one of C nor `ignore_index` gives NaN.

    >>> hlx.nn.functional.cross_entropy(hlx.tensor([[100.0, 0.0]]), hlx.tensor([0])).item()
    0.0
    """
    word = reduction_word("cross_entropy", size_average, reduce, reduction)
    return _hlx.cross_entropy_loss(input, target, weight, ignore_index, label_smoothing, word)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Computes `(1 - t) x + (1 + (p - 1) t) softplus(-x)` of logits x, targets t and the weight p of positive ones.

    >>> hlx.nn.functional.binary_cross_entropy_with_logits(hlx.tensor([100.0]), hlx.tensor([1.0])).item()
    0.0
    """
    word = reduction_word("binary_cross_entropy_with_logits", size_average, reduce, reduction)
    return _hlx.binary_cross_entropy_with_logits(input, target, weight, pos_weight, word)


def _log_or_bound(x: Tensor) -> Tensor:
    # log x, and -100 at 0, without a slope there.
    zero = _binary(x, 0, "eq")
    return _hlx.masked_fill(_unary(_hlx.masked_fill(x, zero, 1.0), "log"), zero, -100.0)


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `-(t log x + (1 - t) log(1 - x))` of probabilities x and targets t; a logarithm is at least -100.

    >>> hlx.nn.functional.binary_cross_entropy(hlx.tensor([1.0]), hlx.tensor([1.0])).item()
    0.0
    """
    word = reduction_word("binary_cross_entropy", size_average, reduce, reduction)
    if input.shape != target.shape:
        raise errors.ValueError(
            f"binary_cross_entropy: the target has shape {list(target.shape)}, expected {list(input.shape)}"
        )
    x, t = _hlx.to_dtype(input, FLOAT32), _hlx.to_dtype(target, FLOAT32)
    positive = _binary(t, _log_or_bound(x), "mul")
    negative = _binary(_binary(1.0, t, "sub"), _log_or_bound(_binary(1.0, x, "sub")), "mul")
    loss = _unary(_binary(positive, negative, "add"), "neg")
    if weight is not None:
        loss = _binary(loss, weight, "mul")
    return _hlx.to_dtype(reduced(loss, word), input.dtype)


@rounded_once
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `exp(x) - t x`, or `x - t log(x + eps)` of rates; `full` adds Stirling's terms of targets above 1.

    >>> hlx.nn.functional.poisson_nll_loss(hlx.tensor([0.0]), hlx.tensor([2.0])).item()
    1.0
    """
    word = reduction_word("poisson_nll_loss", size_average, reduce, reduction)
    if log_input:
        loss = _binary(_unary(input, "exp"), _binary(target, input, "mul"), "sub")
    else:
        log = _unary(_binary(input, eps, "add"), "log")
        loss = _binary(input, _binary(target, log, "mul"), "sub")
    if full:
        large = _binary(target, 1, "gt")
        t = _hlx.where_(target, large, 1.0)
        stirling = _binary(_binary(t, _unary(t, "log"), "mul"), t, "sub")
        stirling = _binary(stirling, _binary(_unary(_binary(t, 6.283185307179586, "mul"), "log"), 0.5, "mul"), "add")
        loss = _binary(loss, _hlx.where_(stirling, large, 0.0), "add")
    return reduced(loss, word)


@rounded_once
def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """Computes `(log v + (input - target)^2 / v) / 2` of variances v of at least eps, whose bound has no gradient.

    >>> hlx.nn.functional.gaussian_nll_loss(hlx.tensor([3.0]), hlx.tensor([1.0]), hlx.tensor([1.0])).item()
    2.0
    """
    word = reduction_word("gaussian_nll_loss", None, None, reduction)
    variance = var if isinstance(var, Tensor) else _hlx.full(input.device, list(input.shape), var, input.dtype)
    if variance.shape != input.shape:
        if list(variance.shape) == list(input.shape[:-1]):
            variance = _hlx.unsqueeze(variance, -1)
        elif variance.ndim != input.ndim or any(
            own not in (extent, 1) for own, extent in zip(variance.shape, input.shape, strict=True)
        ):
            raise errors.ValueError(
                f"gaussian_nll_loss: var has shape {list(variance.shape)}, expected {list(input.shape)}"
            )
    # The bound is put in without a slope: the gradient of the variance passes.
    missing = _hlx.clamp_min(_binary(eps, variance.detach(), "sub"), 0.0)
    variance = _binary(variance, missing, "add")
    square = _unary(_binary(input, target, "sub"), "square")
    loss = _binary(_binary(_unary(variance, "log"), _binary(square, variance, "div"), "add"), 0.5, "mul")
    if full:
        loss = _binary(loss, 0.9189385332046727, "add")
    return reduced(loss, word)


@rounded_once
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `log(1 + exp(-target input))` of targets 1 and -1.

    >>> hlx.nn.functional.soft_margin_loss(hlx.tensor([100.0]), hlx.tensor([1.0])).item()
    0.0
    """
    word = reduction_word("soft_margin_loss", size_average, reduce, reduction)
    margin = _unary(_binary(target, input, "mul"), "neg")
    return reduced(_hlx.softplus_with(margin, 1.0, 88.0), word)


@rounded_once
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes the input where the target is 1, and `max(0, margin - input)` where it is -1.

    >>> hlx.nn.functional.hinge_embedding_loss(hlx.tensor([0.25, 0.25]), hlx.tensor([1, -1]), reduction="none").tolist()
    [0.25, 0.75]
    """
    word = reduction_word("hinge_embedding_loss", size_average, reduce, reduction)
    hinge = _hlx.clamp_min(_binary(margin, input, "sub"), 0.0)
    negative = _hlx.where_(hinge, _binary(target, 1, "ne"), 0.0)
    positive = _hlx.where_(input, _binary(target, -1, "ne"), 0.0)
    return reduced(_binary(positive, negative, "add"), word)


@rounded_once
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `max(0, -target (input1 - input2) + margin)`.

    >>> hlx.nn.functional.margin_ranking_loss(hlx.tensor([1.0]), hlx.tensor([3.0]), hlx.tensor([1.0])).item()
    2.0
    """
    word = reduction_word("margin_ranking_loss", size_average, reduce, reduction)
    order = _binary(_unary(target, "neg"), _binary(input1, input2, "sub"), "mul")
    return reduced(_hlx.clamp_min(_binary(order, margin, "add"), 0.0), word)


@rounded_once
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `max(0, d(anchor, positive) - d(anchor, negative) + margin)` of p-norms of differences.

    >>> x = hlx.zeros(1, 2)
    >>> hlx.nn.functional.triplet_margin_loss(x, x, x).item()
    1.0
    """
    from hlx.nn._functional.vectors import pairwise_distance

    word = reduction_word("triplet_margin_loss", size_average, reduce, reduction)
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = _binary(far, pairwise_distance(positive, negative, p, eps), "minimum")
    return reduced(_hlx.clamp_min(_binary(_binary(near, far, "sub"), margin, "add"), 0.0), word)


@rounded_once
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes `1 - cos` where the target is 1, and `max(0, cos - margin)` where it is -1.

    >>> x = hlx.tensor([[1.0, 0.0]])
    >>> hlx.nn.functional.cosine_embedding_loss(x, x, hlx.tensor([-1])).item()
    1.0
    """
    word = reduction_word("cosine_embedding_loss", size_average, reduce, reduction)
    products = [
        _hlx.sum_dim(_binary(a, b, "mul"), [-1], False)
        for a, b in ((input1, input2), (input1, input1), (input2, input2))
    ]
    squares = [_binary(square, 1e-12, "add") for square in products[1:]]
    cosine = _binary(products[0], _unary(_binary(*squares, "mul"), "sqrt"), "div")
    near = _hlx.where_(_binary(1.0, cosine, "sub"), _binary(target, 1, "eq"), 0.0)
    far = _hlx.clamp_min(_binary(cosine, margin, "sub"), 0.0)
    return reduced(_binary(near, _hlx.where_(far, _binary(target, -1, "eq"), 0.0), "add"), word)
