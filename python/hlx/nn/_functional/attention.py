"""Attention in PyTorch's layout [.., H, T, D], by the kernel where it has the form, else by operations."""

from hlx import _hlx, errors
from hlx._operations._types import BOOL, FLOAT32, INT32, Tensor
from hlx.nn._functional.norms import dropout

_unary, _binary = _hlx.unary, _hlx.binary

#: The most columns of a head of the kernel.
_WIDEST_HEAD = 256


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Computes `softmax(query key^T scale + mask) value` of [.., H, T, D], keys and values of [.., H, S, D].

    `attn_mask` broadcasts to [.., H, T, S]: of bool, where a key is seen, or added to the scores. `is_causal`
    lets query i see the keys up to i. `scale` is 1 / sqrt(D) by default. With `enable_gqa` groups of query
    heads share a head of keys. A query that sees no key gives zeros.

    Without a mask and dropout f32 is computed by the attention kernel, which has no second derivative; all
    else by operations in f32, rounded once to the type of the query.

    >>> x = hlx.ones(1, 1, 2, 2)
    >>> hlx.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]
    """
    if is_causal and attn_mask is not None:
        raise errors.RuntimeError(
            "scaled_dot_product_attention: attn_mask is given with is_causal, expected one of them"
        )
    for name, x in (("query", query), ("key", key), ("value", value)):
        if x.ndim < 2:
            raise errors.RuntimeError(
                f"scaled_dot_product_attention: {name} has shape {list(x.shape)}, expected [.., T, D]"
            )
    if attn_mask is None and dropout_p == 0 and _has_kernel(query, key, value, enable_gqa):
        return _by_kernel(query, key, value, is_causal, scale)
    return _by_operations(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)


def _has_kernel(query: Tensor, key: Tensor, value: Tensor, enable_gqa: bool) -> bool:
    if {query.dtype, key.dtype, value.dtype} != {FLOAT32} or query.ndim not in (3, 4) or key.shape != value.shape:
        return False
    if key.ndim != query.ndim or key.shape[0] != query.shape[0] or 0 in (*query.shape, *key.shape):
        return False
    if key.shape[-1] != query.shape[-1] or query.shape[-1] > _WIDEST_HEAD:
        return False
    if query.ndim == 3 or key.shape[1] == query.shape[1]:
        return True
    return enable_gqa and query.shape[1] % key.shape[1] == 0


def _by_kernel(query: Tensor, key: Tensor, value: Tensor, is_causal: bool, scale: float | None) -> Tensor:
    def heads_behind(x: Tensor) -> Tensor:
        return _hlx.transpose(x if x.ndim == 4 else _hlx.unsqueeze(x, 1), 1, 2)

    # PyTorch's first query is the first position, however many keys there are.
    first = _hlx.zeros(query.device, [query.shape[0]], INT32) if is_causal else None
    operands = [heads_behind(x) for x in (query, key, value)]
    attended = _hlx.attention(*operands, causal=is_causal, scale=scale, first_positions=first)
    attended = _hlx.transpose(attended, 1, 2)
    return attended if query.ndim == 4 else _hlx.squeeze(attended, 1)


def _by_operations(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    dtype = query.dtype
    q, k, v = (_hlx.to_dtype(x, FLOAT32) for x in (query, key, value))
    if enable_gqa and q.ndim > 2:
        k, v = (_hlx.repeat_interleave(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    factor = q.shape[-1] ** -0.5 if scale is None else scale
    scores = _binary(_hlx.matmul(q, _hlx.transpose(k, -2, -1)), factor, "mul")
    if is_causal:
        seen = _hlx.ones(q.device, [q.shape[-2], k.shape[-2]], BOOL)
        mask = _hlx.to_dtype(_hlx.tril(_hlx.to_dtype(seen, INT32), 0), BOOL)
    weights = _weights(scores, mask)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return _hlx.to_dtype(_hlx.matmul(weights, v), dtype)


def _weights(scores: Tensor, mask: Tensor | None) -> Tensor:
    if mask is None:
        return _hlx.softmax_dim(scores, -1)
    if mask.dtype == BOOL:
        scores = _hlx.masked_fill(scores, _unary(mask, "logical_not"), float("-inf"))
    else:
        scores = _binary(scores, _hlx.to_dtype(mask, FLOAT32), "add")
    # A query without keys: its scores are made equal, and its weights 0.
    blind = _hlx.all(_binary(scores, float("-inf"), "eq"), [-1], True)
    weights = _hlx.softmax_dim(_hlx.masked_fill(scores, blind, 0.0), -1)
    return _hlx.masked_fill(weights, blind, 0.0)
