"""Distances between rows."""

from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn.modules.module import Module

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """Computes the cosine of the angle between two tensors along a dimension.

    >>> hlx.nn.CosineSimilarity()(hlx.tensor([[1.0, 0.0]]), hlx.tensor([[2.0, 0.0]])).tolist()
    [1.0]
    """

    dim: int
    eps: float

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The cosines."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """Computes the p-norm of `x1 - x2 + eps` along the last dimension.

    >>> hlx.nn.PairwiseDistance(eps=0.0)(hlx.tensor([[3.0, 4.0]]), hlx.zeros(1, 2)).tolist()
    [5.0]
    """

    norm: float
    eps: float
    keepdim: bool

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """The distances."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
