"""Losses over several classes of a sample, and over distances of samples."""

from collections.abc import Callable

from hlx import _hlx, errors
from hlx._operations._arguments import whole_range
from hlx._operations._rounding import rounded_once
from hlx._operations._types import INT32, Tensor
from hlx.nn._functional.activations import logsigmoid
from hlx.nn._functional.losses import reduced, reduction_word
from hlx.nn._functional.vectors import pairwise_distance

_unary, _binary = _hlx.unary, _hlx.binary


@rounded_once
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes the mean over classes of `-(t log sigmoid(x) + (1 - t) log sigmoid(-x))`.

    >>> hlx.nn.functional.multilabel_soft_margin_loss(hlx.tensor([[100.0]]), hlx.tensor([[1.0]])).item()
    0.0
    """
    word = reduction_word("multilabel_soft_margin_loss", size_average, reduce, reduction)
    positive = _binary(target, logsigmoid(input), "mul")
    negative = _binary(_binary(1.0, target, "sub"), logsigmoid(_unary(input, "neg")), "mul")
    loss = _unary(_binary(positive, negative, "add"), "neg")
    if weight is not None:
        loss = _binary(loss, weight, "mul")
    return reduced(_hlx.mean_dim(loss, [-1], False), word)


@rounded_once
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Computes the sum over the other classes of `max(0, margin - x[t] + x[c])^p`, over the number of classes.

    >>> hlx.nn.functional.multi_margin_loss(hlx.tensor([[0.0, 0.5]]), hlx.tensor([0])).item()
    0.75
    """
    word = reduction_word("multi_margin_loss", size_average, reduce, reduction)
    if p not in (1, 2):
        raise errors.RuntimeError(f"multi_margin_loss: p is {p}, expected 1 or 2")
    rows = input if input.ndim == 2 else _hlx.reshape(input, [1, input.numel()])
    ids = _hlx.reshape(target, [rows.shape[0], 1])
    margins = _binary(_binary(rows, _hlx.gather(rows, 1, ids), "sub"), margin, "add")
    loss = _hlx.clamp_min(margins, 0.0)
    loss = _unary(loss, "square") if p == 2 else loss
    if weight is not None:
        loss = _binary(loss, _hlx.unsqueeze(_hlx.index_select(weight, 0, _hlx.reshape(ids, [-1])), 1), "mul")
    classes = whole_range(input.device, rows.shape[1])
    others = _hlx.masked_fill(loss, _binary(classes, ids, "eq"), 0.0)
    sums = _binary(_hlx.sum_dim(others, [1], False), float(rows.shape[1]), "div")
    return reduced(_hlx.reshape(sums, list(target.shape)), word)


@rounded_once
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """Computes `max(0, d(anchor, positive) - d(anchor, negative) + margin)` of any distance d.

    >>> x = hlx.zeros(1, 2)
    >>> hlx.nn.functional.triplet_margin_with_distance_loss(x, x, x).item()
    1.0
    """
    word = reduction_word("triplet_margin_with_distance_loss", None, None, reduction)
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _binary(far, distance(positive, negative), "minimum")
    return reduced(_hlx.clamp_min(_binary(_binary(near, far, "sub"), margin, "add"), 0.0), word)


@rounded_once
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Computes the p-norms of the differences of all pairs of rows, in the order of pairs.

    >>> hlx.nn.functional.pdist(hlx.tensor([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [5.0]
    """
    if input.ndim != 2:
        raise errors.RuntimeError(f"pdist: the input has shape {list(input.shape)}, expected [N, M]")
    n = input.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    sides = (_hlx.zeros(input.device, [0], INT32),) * 2
    if pairs:
        firsts, seconds = zip(*pairs, strict=True)
        sides = (_hlx.tensor(list(firsts), INT32, input.device), _hlx.tensor(list(seconds), INT32, input.device))
    one, two = (_hlx.index_select(input, 0, side) for side in sides)
    return _hlx.norm(_binary(one, two, "sub"), float(p), [1], False)
