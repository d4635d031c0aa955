"""Attention of several heads."""

from hlx import _hlx, errors
from hlx._hlx import Tensor, dtype
from hlx._operations import joining
from hlx._operations._types import BOOL, Device
from hlx.nn import functional as F
from hlx.nn import init
from hlx.nn._functional.attention import _weights
from hlx.nn.modules._making import parameter
from hlx.nn.modules.linear import Linear
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Projects queries, keys and values, attends in `num_heads` heads, and projects the result.

    Inputs are [T, B, C], with `batch_first` [B, T, C], or [T, C]. Without weights and masks it is computed by the
    attention kernel.

    >>> attention = hlx.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = hlx.ones(3, 5, 8)
    >>> y, weights = attention(x, x, x)
    >>> y.shape, weights.shape
    (hlx.Size([3, 5, 8]), hlx.Size([3, 5, 5]))
    """

    embed_dim: int
    num_heads: int
    head_dim: int
    kdim: int
    vdim: int
    dropout: float
    batch_first: bool
    add_zero_attn: bool
    out_proj: Linear
    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise errors.ValueError(f"MultiheadAttention: embed_dim {embed_dim} is no multiple of {num_heads} heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        same = self.kdim == embed_dim and self.vdim == embed_dim
        widths = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        for name, width in widths.items():
            made = None if same else parameter([embed_dim, width], 0.0, device, dtype)
            self.register_parameter(name, made)
        joint = parameter([3 * embed_dim, embed_dim], 0.0, device, dtype) if same else None
        self.register_parameter("in_proj_weight", joint)
        self.register_parameter("in_proj_bias", parameter([3 * embed_dim], 0.0, device, dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, parameter([1, 1, embed_dim], 0.0, device, dtype) if add_bias_kv else None)
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attends, and returns the result with the weights [B, T, S], by head or their mean, or None.

        Masks [B, S] of keys, and [T, S] or [B heads, T, S], hide where they are true, or are added to the scores.
        `is_causal` is a hint beside `attn_mask`, which must be given.
        """
        if is_causal and attn_mask is None:
            raise errors.RuntimeError("MultiheadAttention: is_causal is True without attn_mask, expected a mask too")
        has_samples = query.ndim == 3
        operands = [query, key, value]
        if not has_samples:
            operands = [x.unsqueeze(0) for x in operands]
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            operands = [x.transpose(0, 1) for x in operands]
        self._expect(operands)
        q, k, v = self._projected(operands)
        mask = self._mask(q, k, key_padding_mask, attn_mask)
        q, k, v, mask = self._heads(q, k, v, mask)
        attended, weights = self._attended(q, k, v, mask, need_weights)
        attended = attended.transpose(1, 2).flatten(2)
        y = self.out_proj(attended)
        if weights is not None and average_attn_weights:
            weights = weights.mean(1)
        if not has_samples:
            return y.squeeze(0), None if weights is None else weights.squeeze(0)
        return (y if self.batch_first else y.transpose(0, 1)), weights

    def _expect(self, operands: list[Tensor]) -> None:
        widths = (self.embed_dim, self.kdim, self.vdim)
        for name, x, width in zip(("query", "key", "value"), operands, widths, strict=True):
            if x.ndim != 3 or x.shape[2] != width:
                raise errors.RuntimeError(
                    f"MultiheadAttention: {name} has shape {list(x.shape)}, expected [B, T, {width}]"
                )

    def _projected(self, operands: list[Tensor]) -> list[Tensor]:
        c = self.embed_dim
        biases = [None] * 3 if self.in_proj_bias is None else self.in_proj_bias.split(c)
        if self.in_proj_weight is None:
            weights: list[Tensor | None] = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        elif operands[0] is operands[1] and operands[1] is operands[2]:
            return list(F.linear(operands[0], self.in_proj_weight, self.in_proj_bias).split(c, -1))
        else:
            weights = list(self.in_proj_weight.split(c))
        return [F.linear(x, w, b) for x, w, b in zip(operands, weights, biases, strict=True)]  # type: ignore[arg-type]

    def _mask(self, q: Tensor, k: Tensor, keys: Tensor | None, mask: Tensor | None) -> Tensor | None:
        """Both masks as one that is added to scores [B, heads, T, S]."""
        batch, t, s = q.shape[0], q.shape[1], k.shape[1]
        found = None
        if mask is not None:
            one, all_heads = [t, s], [batch * self.num_heads, t, s]
            if list(mask.shape) not in (one, all_heads):
                raise errors.RuntimeError(
                    f"MultiheadAttention: attn_mask has shape {list(mask.shape)}, expected {one} or {all_heads}"
                )
            found = _added(mask, q.dtype)
            if mask.ndim == 3:
                found = found.reshape(batch, self.num_heads, t, s)
        if keys is not None:
            if list(keys.shape) != [batch, s]:
                raise errors.RuntimeError(
                    f"MultiheadAttention: key_padding_mask has shape {list(keys.shape)}, expected {[batch, s]}"
                )
            hidden = _added(keys, q.dtype).reshape(batch, 1, 1, s)
            found = hidden if found is None else found + hidden
        return found

    def _heads(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        batch, extra = q.shape[0], 0
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (
                joining.cat([x, bias.expand(batch, 1, self.embed_dim)], 1)
                for x, bias in ((k, self.bias_k), (v, self.bias_v))
            )
            extra += 1
        if self.add_zero_attn:
            k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
            extra += 1
        if mask is not None and extra:
            mask = F.pad(mask, (0, extra))
        q, k, v = (x.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2) for x in (q, k, v))
        return q, k, v, mask

    def _attended(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            return F.scaled_dot_product_attention(q, k, v, mask, dropout), None
        scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
        weights = _weights(scores, mask)
        if dropout:
            weights = F.dropout(weights, dropout)
        return weights @ v, weights


def _added(mask: Tensor, kind: dtype) -> Tensor:
    """A mask of bool, true where a key is hidden, as one that is added to scores."""
    if mask.dtype != BOOL:
        return mask
    return _hlx.masked_fill(_hlx.zeros(mask.device, list(mask.shape), kind), mask, float("-inf"))
