"""Sums, means and maxima of the rows of a table that bags of ids name."""

from hlx import _hlx, errors
from hlx._operations._arguments import whole_range
from hlx._operations._rounding import rounded_once
from hlx._operations._types import FLOAT32, INT32, Tensor
from hlx._operations.extremes import searchsorted
from hlx._operations.grouping import scatter_reduce
from hlx.nn._functional.norms import embedding, limit_rows

_binary = _hlx.binary


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[Tensor, Tensor, int]:
    """The ids one after another, the bag of each, and how many bags there are."""
    if input.ndim == 2:
        if offsets is not None:
            raise errors.ValueError("embedding_bag: offsets are given beside ids of 2 dimensions, expected None")
        n, width = input.shape
        rows = whole_range(input.device, n)
        return _hlx.reshape(input, [-1]), _hlx.repeat_interleave(rows, width, 0), n
    if input.ndim != 1 or offsets is None or offsets.ndim != 1:
        shape = list(input.shape)
        raise errors.ValueError(f"embedding_bag: the input has shape {shape}, expected [N, L], or [N] with offsets")
    starts = _hlx.to_dtype(offsets, INT32)
    n = starts.shape[0] - 1 if include_last_offset else starts.shape[0]
    starts = _hlx.narrow(starts, 0, 0, n)
    places = whole_range(input.device, input.shape[0])
    return input, _binary(searchsorted(starts, places, right=True), 1, "sub"), n


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Takes the sum, mean or maximum of the rows of a table [V, C] for each bag of ids.

    Bags are the rows of [N, L], or begin at `offsets` of [N]. Ids of `padding_idx` count nothing. Empty bags give
    zeros. `per_sample_weights` multiplies rows, in the mode "sum" alone.

    >>> hlx.nn.functional.embedding_bag(hlx.tensor([[0, 1]]), hlx.tensor([[1.0], [3.0]])).tolist()
    [[2.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise errors.ValueError(f"embedding_bag: mode is {mode!r}, expected 'sum', 'mean' or 'max'")
    if per_sample_weights is not None and mode != "sum":
        raise errors.NotImplementedError(
            f"embedding_bag: per_sample_weights are given in mode {mode!r}, expected 'sum'"
        )
    if max_norm is not None:
        limit_rows(weight, input, max_norm, norm_type)
    ids, bag, n = _bags(input, offsets, include_last_offset)
    counted = _hlx.ones(ids.device, [ids.shape[0]], INT32)
    if padding_idx is not None:
        counted = _hlx.to_dtype(_binary(ids, padding_idx % weight.shape[0], "ne"), INT32)
    counts = _hlx.unsqueeze(_hlx.index_add(_hlx.zeros(ids.device, [n], INT32), 0, bag, counted), 1)
    rows = embedding(ids, weight, padding_idx, scale_grad_by_freq=scale_grad_by_freq)
    return _joined(rows, counted, per_sample_weights, bag, counts, mode)


@rounded_once
def _joined(rows: Tensor, counted: Tensor, weights: Tensor | None, bag: Tensor, counts: Tensor, mode: str) -> Tensor:
    nothing = float("-inf") if mode == "max" else 0.0
    rows = _hlx.where_(rows, _hlx.unsqueeze(_binary(counted, 0, "ne"), 1), nothing)
    if weights is not None:
        rows = _binary(rows, _hlx.unsqueeze(_hlx.reshape(weights, [-1]), 1), "mul")
    zeros = _hlx.zeros(rows.device, [counts.shape[0], rows.shape[1]], FLOAT32)
    if mode == "max":
        index = _hlx.expand(_hlx.unsqueeze(bag, 1), list(rows.shape))
        largest = scatter_reduce(zeros, 0, index, rows, "amax", include_self=False)
        return _hlx.masked_fill(largest, _binary(counts, 0, "eq"), 0.0)
    total = _hlx.index_add(zeros, 0, bag, rows)
    return total if mode == "sum" else _binary(total, _hlx.clamp_min(counts, 1), "div")
