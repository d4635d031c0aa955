"""Losses with a margin."""

from collections.abc import Callable

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn.modules.distance import PairwiseDistance
from hlx.nn.modules.loss import Loss, WeightedLoss
from hlx.nn.modules.module import Module

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]


class SoftMarginLoss(Loss):
    """Computes the mean of `log(1 + exp(-target x))`.

    >>> hlx.nn.SoftMarginLoss()(hlx.tensor([200.0]), hlx.tensor([1.0])).item()
    0.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(Loss):
    """Computes the mean of x where the target is 1, and of `max(0, margin - x)` where it is -1.

    >>> hlx.nn.HingeEmbeddingLoss()(hlx.tensor([0.25]), hlx.tensor([-1.0])).item()
    0.75
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.hinge_embedding_loss(input, target, self.margin, reduction=self.reduction)


class MarginRankingLoss(Loss):
    """Computes the mean of `max(0, -target (x1 - x2) + margin)`.

    >>> hlx.nn.MarginRankingLoss()(hlx.tensor([1.0]), hlx.tensor([3.0]), hlx.tensor([1.0])).item()
    2.0
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.margin_ranking_loss(input1, input2, target, self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(Loss):
    """Computes the mean of `1 - cos(x1, x2)` where the target is 1, where it is -1 of `max(0, cos(x1, x2) - margin)`.

    >>> x = hlx.tensor([[1.0, 0.0]])
    >>> hlx.nn.CosineEmbeddingLoss()(x, x, hlx.tensor([-1])).item()
    1.0
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.cosine_embedding_loss(input1, input2, target, self.margin, reduction=self.reduction)


class MultiMarginLoss(WeightedLoss):
    """Computes the mean over classes of `max(0, margin - x[c] + x)^p` of scores [N, C] and classes c [N].

    >>> hlx.nn.MultiMarginLoss()(hlx.tensor([[0.0, 1.0]]), hlx.tensor([0])).item()
    1.0
    """

    margin: float

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise errors.ValueError(f"MultiMarginLoss: p is {p}, expected 1 or 2")
        self.p, self.margin = p, margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.multi_margin_loss(input, target, self.p, self.margin, self.weight, reduction=self.reduction)


class MultiLabelSoftMarginLoss(WeightedLoss):
    """Computes the binary cross-entropy of `sigmoid(x)` over the classes of [N, C].

    >>> hlx.nn.MultiLabelSoftMarginLoss()(hlx.tensor([[100.0]]), hlx.tensor([[1.0]])).item()
    0.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.multilabel_soft_margin_loss(input, target, self.weight, reduction=self.reduction)


class TripletMarginLoss(Loss):
    """Computes the mean of `max(0, d(anchor, positive) - d(anchor, negative) + margin)` of p-norms of differences.

    >>> x = hlx.zeros(1, 2)
    >>> hlx.nn.TripletMarginLoss()(x, x, x).item()
    1.0
    """

    margin: float
    p: float
    eps: float
    swap: bool

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise errors.ValueError(f"TripletMarginLoss: margin is {margin}, expected above 0")
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Computes the loss."""
        return F.triplet_margin_loss(
            anchor, positive, negative, self.margin, self.p, self.eps, self.swap, reduction=self.reduction
        )


class TripletMarginWithDistanceLoss(Module):
    """Computes the same of a distance of your own.

    >>> x = hlx.zeros(1, 2)
    >>> hlx.nn.TripletMarginWithDistanceLoss(margin=2.0)(x, x, x).item()
    2.0
    """

    distance_function: Callable[[Tensor, Tensor], Tensor]
    margin: float
    swap: bool
    reduction: str

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        if margin <= 0:
            raise errors.ValueError(f"TripletMarginWithDistanceLoss: margin is {margin}, expected above 0")
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap, self.reduction = swap, reduction

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Computes the loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
