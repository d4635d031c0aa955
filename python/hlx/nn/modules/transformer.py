"""Transformers: encoder and decoder layers, and the two together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor, dtype
from hlx._operations._arguments import place
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn import init
from hlx.nn.modules.attention import MultiheadAttention
from hlx.nn.modules.container import ModuleList
from hlx.nn.modules.dropout import Dropout
from hlx.nn.modules.linear import Linear
from hlx.nn.modules.module import Module
from hlx.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]

Activation = str | Callable[[Tensor], Tensor]


def _activation(named: Activation) -> Callable[[Tensor], Tensor]:
    if callable(named):
        return named
    if named not in ("relu", "gelu"):
        raise errors.RuntimeError(f"Transformer: activation is {named!r}, expected 'relu', 'gelu' or a function")
    return F.relu if named == "relu" else F.gelu


def _copies(layer: Module, n: int) -> ModuleList:
    return ModuleList(copy.deepcopy(layer) for _ in range(n))


class _Layer(Module):
    """The parts that both kinds of layers have."""

    linear1: Linear
    dropout: Dropout
    linear2: Linear
    activation: Callable[[Tensor], Tensor]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int,
        dropout: float,
        activation: Activation,
        layer_norm_eps: float,
        batch_first: bool,
        norm_first: bool,
        bias: bool,
        device: Device,
        dtype: dtype | None,
        attentions: tuple[str, ...],
    ) -> None:
        super().__init__()
        for name in attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, device=device, dtype=dtype
            )
            self.add_module(name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, device, dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, device, dtype)
        self.norm_first = norm_first
        numbers = range(1, len(attentions) + 2)
        for i in numbers:
            self.add_module(f"norm{i}", LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype))
        for i in numbers:
            self.add_module(f"dropout{i}", Dropout(dropout))
        self.activation = _activation(activation)

    def _attend(
        self, attention: Module, dropout: Module, x: Tensor, keys: Tensor, mask: Tensor | None, hidden: Tensor | None
    ) -> Tensor:
        attended = attention(x, keys, keys, attn_mask=mask, key_padding_mask=hidden, need_weights=False)
        found: Tensor = dropout(attended[0])
        return found

    def _feed_forward(self, x: Tensor, dropout: Module) -> Tensor:
        found: Tensor = dropout(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return found


class TransformerEncoderLayer(_Layer):
    """Self-attention and a network of two linear layers, each added to its input and normalised after or before.

    >>> hlx.nn.TransformerEncoderLayer(8, 2, batch_first=True)(hlx.ones(3, 5, 8)).shape
    hlx.Size([3, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            ("self_attn",),
        )

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Computes the layer; `is_causal` is a hint beside `src_mask`."""
        x = src

        def attend(x: Tensor) -> Tensor:
            return self._attend(self.self_attn, self.dropout1, x, x, src_mask, src_key_padding_mask)

        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + self._feed_forward(self.norm2(x), self.dropout2)
        x = self.norm1(x + attend(x))
        found: Tensor = self.norm2(x + self._feed_forward(x, self.dropout2))
        return found


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, and a network, each added to its input and normalised after or before.

    >>> layer = hlx.nn.TransformerDecoderLayer(8, 2, batch_first=True)
    >>> layer(hlx.ones(3, 4, 8), hlx.ones(3, 5, 8)).shape
    hlx.Size([3, 4, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
            ("self_attn", "multihead_attn"),
        )

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Computes the layer; `tgt_is_causal` and `memory_is_causal` are hints beside the masks."""
        x = tgt

        def attend(x: Tensor) -> Tensor:
            return self._attend(self.self_attn, self.dropout1, x, x, tgt_mask, tgt_key_padding_mask)

        def recall(x: Tensor) -> Tensor:
            return self._attend(self.multihead_attn, self.dropout2, x, memory, memory_mask, memory_key_padding_mask)

        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + recall(self.norm2(x))
            return x + self._feed_forward(self.norm3(x), self.dropout3)
        x = self.norm1(x + attend(x))
        x = self.norm2(x + recall(x))
        found: Tensor = self.norm3(x + self._feed_forward(x, self.dropout3))
        return found


class TransformerEncoder(Module):
    """Applies copies of an encoder layer one after the other, and a norm. Nested tensors are not used.

    >>> layer = hlx.nn.TransformerEncoderLayer(8, 2, batch_first=True)
    >>> hlx.nn.TransformerEncoder(layer, num_layers=2)(hlx.ones(3, 5, 8)).shape
    hlx.Size([3, 5, 8])
    """

    layers: ModuleList
    num_layers: int
    norm: Module | None

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """Computes the layers; `is_causal` is a hint beside `mask`."""
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class TransformerDecoder(Module):
    """Applies copies of a decoder layer one after the other, and a norm.

    >>> layer = hlx.nn.TransformerDecoderLayer(8, 2, batch_first=True)
    >>> hlx.nn.TransformerDecoder(layer, num_layers=2)(hlx.ones(3, 4, 8), hlx.ones(3, 5, 8)).shape
    hlx.Size([3, 4, 8])
    """

    layers: ModuleList
    num_layers: int
    norm: Module | None

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Computes the layers; `tgt_is_causal` and `memory_is_causal` are hints beside the masks."""
        x = tgt
        for layer in self.layers:
            x = layer(
                x,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal),
                memory_is_causal=memory_is_causal,
            )
        return x if self.norm is None else self.norm(x)  # type: ignore[no-any-return]


class Transformer(Module):
    """An encoder of the source and a decoder of the target (Vaswani et al., 2017).

    >>> model = hlx.nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
    >>> model(hlx.ones(3, 5, 8), hlx.ones(3, 4, 8)).shape
    hlx.Size([3, 4, 8])
    """

    encoder: Any
    decoder: Any
    d_model: int
    nhead: int
    batch_first: bool

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        arguments: tuple[Any, ...] = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps)
        arguments += (batch_first, norm_first, bias, device, dtype)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, True, bias, device, dtype)

        if custom_encoder is None:
            custom_encoder = TransformerEncoder(TransformerEncoderLayer(*arguments), num_encoder_layers, norm())
        if custom_decoder is None:
            custom_decoder = TransformerDecoder(TransformerDecoderLayer(*arguments), num_decoder_layers, norm())
        self.encoder, self.decoder = custom_encoder, custom_decoder
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        for one in self.parameters():
            if one.ndim > 1:
                init.xavier_uniform_(one)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encodes the source, and decodes the target beside it."""
        if src.ndim != tgt.ndim or src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise errors.RuntimeError(
                f"Transformer: src and tgt have shapes {list(src.shape)} and {list(tgt.shape)}, expected as many"
                f" dimensions, the last {self.d_model}"
            )
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        found: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return found

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Device = None, dtype: dtype | None = None) -> Tensor:
        """A mask [sz, sz] of minus infinity above the diagonal and zeros elsewhere: it hides later positions."""
        kind = _hlx.default_dtype() if dtype is None else dtype
        lower = _hlx.tril(_hlx.ones(place(device), [sz, sz], kind), 0)
        return _hlx.masked_fill(_hlx.zeros(lower.device, [sz, sz], kind), lower == 0, float("-inf"))
