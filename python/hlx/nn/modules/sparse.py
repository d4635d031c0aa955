"""Tables of vectors."""

from typing import Self

from hlx import errors
from hlx._hlx import Tensor, dtype
from hlx._modes import no_grad
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn import init
from hlx.nn.modules._making import parameter
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


class Embedding(Module):
    """Takes rows of a table [num_embeddings, embedding_dim] by their ids; the row `padding_idx` gets no gradient.

    Initial values are normal draws, and zeros in the row `padding_idx`. An id outside of the table gives NaN.

    >>> table = hlx.nn.Embedding(10, 3, padding_idx=0)
    >>> table(hlx.tensor([[0, 7]])).shape
    hlx.Size([1, 2, 3])
    """

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    sparse: bool
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise errors.ValueError(
                f"Embedding: padding_idx is {padding_idx}, expected {-num_embeddings} to {num_embeddings - 1}"
            )
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        if _weight is None:
            self.weight = parameter([num_embeddings, embedding_dim], 0.0, device, dtype)
            self.weight.requires_grad_(not _freeze)
            self.reset_parameters()
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise errors.ValueError(
                f"Embedding: the weight has shape {list(_weight.shape)}, expected {[num_embeddings, embedding_dim]}"
            )
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draws initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, input: Tensor) -> Tensor:
        """Takes rows."""
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """A layer over a table that is given, without a gradient if `freeze` is true."""
        if embeddings.ndim != 2:
            raise errors.ValueError(f"from_pretrained: the table has shape {list(embeddings.shape)}, expected [V, C]")
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        words = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, value, usual in (
            ("padding_idx", self.padding_idx, None),
            ("max_norm", self.max_norm, None),
            ("norm_type", self.norm_type, 2.0),
            ("scale_grad_by_freq", self.scale_grad_by_freq, False),
        ):
            if value != usual:
                words.append(f"{name}={value}")
        return ", ".join([*words, "sparse=True"] if self.sparse else words)


class EmbeddingBag(Module):
    """Takes the sum, mean or maximum of the rows of a table [num_embeddings, embedding_dim] for each bag of ids.

    Bags are the rows of ids [N, L], or parts of ids [N] that begin at `offsets`. Ids of `padding_idx` count nothing,
    and empty bags give zeros. Initial values are normal draws, and zeros in the row `padding_idx`.

    >>> table = hlx.nn.EmbeddingBag(10, 3, mode="sum")
    >>> table(hlx.tensor([1, 2, 4, 5, 4]), hlx.tensor([0, 3])).shape
    hlx.Size([2, 3])
    """

    num_embeddings: int
    embedding_dim: int
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    mode: str
    sparse: bool
    include_last_offset: bool
    padding_idx: int | None
    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise errors.ValueError(
                f"EmbeddingBag: padding_idx is {padding_idx}, expected {-num_embeddings} to {num_embeddings - 1}"
            )
        if mode not in ("sum", "mean", "max"):
            raise errors.ValueError(f"EmbeddingBag: mode is {mode!r}, expected 'sum', 'mean' or 'max'")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        if _weight is None:
            self.weight = parameter([num_embeddings, embedding_dim], 0.0, device, dtype)
            self.reset_parameters()
        elif list(_weight.shape) != [num_embeddings, embedding_dim]:
            raise errors.ValueError(
                f"EmbeddingBag: the weight has shape {list(_weight.shape)}, expected {[num_embeddings, embedding_dim]}"
            )
        else:
            self.weight = Parameter(_weight)

    def reset_parameters(self) -> None:
        """Draws initial values."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx] = 0

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Takes the rows of each bag together; `per_sample_weights` multiplies rows, in the mode "sum" alone."""
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """A layer over a table that is given, without a gradient if `freeze` is true."""
        if embeddings.ndim != 2:
            raise errors.ValueError(f"from_pretrained: the table has shape {list(embeddings.shape)}, expected [V, C]")
        rows, columns = embeddings.shape
        made = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        made.weight.requires_grad_(not freeze)
        return made

    def extra_repr(self) -> str:
        """The sizes, the mode, and what is not the default."""
        words = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, value, usual in (
            ("max_norm", self.max_norm, None),
            ("norm_type", self.norm_type, 2.0),
            ("scale_grad_by_freq", self.scale_grad_by_freq, False),
        ):
            if value != usual:
                words.append(f"{name}={value}")
        words.append(f"mode={self.mode!r}")
        return ", ".join(words if self.padding_idx is None else [*words, f"padding_idx={self.padding_idx}"])
