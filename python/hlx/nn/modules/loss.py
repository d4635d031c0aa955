"""Losses of distances and probabilities: each is the function of `hlx.nn.functional` with its arguments."""

from collections.abc import Callable

from hlx import errors
from hlx._hlx import Tensor
from hlx.nn import functional as F
from hlx.nn.modules.module import Module

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CrossEntropyLoss",
    "GaussianNLLLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "MSELoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SmoothL1Loss",
]


def reduction_of(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """The reduction that is named, or what PyTorch's old arguments say."""
    if size_average is None and reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


class Loss(Module):
    """Holds the reduction: "mean", "sum" or "none"."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction_of(size_average, reduce, reduction)


class WeightedLoss(Loss):
    """Holds weights too, as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _Plain(Loss):
    _function: Callable[..., Tensor]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return type(self)._function(input, target, reduction=self.reduction)


class MSELoss(_Plain):
    """Computes the mean of `(x - target)^2`.

    >>> hlx.nn.MSELoss()(hlx.tensor([1.0, 3.0]), hlx.tensor([0.0, 0.0])).item()
    5.0
    """

    _function = staticmethod(F.mse_loss)


class L1Loss(_Plain):
    """Computes the mean of `|x - target|`.

    >>> hlx.nn.L1Loss()(hlx.tensor([1.0, 3.0]), hlx.tensor([0.0, 0.0])).item()
    2.0
    """

    _function = staticmethod(F.l1_loss)


class SmoothL1Loss(Loss):
    """Computes the mean of `d^2 / (2 beta)` where `d = |x - target|` is below beta, else of `d - beta / 2`.

    >>> hlx.nn.SmoothL1Loss()(hlx.tensor([3.0]), hlx.tensor([0.0])).item()
    2.5
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(Loss):
    """Computes the mean of `d^2 / 2` where `d = |x - target|` is below delta, else of `delta (d - delta / 2)`.

    >>> hlx.nn.HuberLoss()(hlx.tensor([3.0]), hlx.tensor([0.0])).item()
    2.5
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.huber_loss(input, target, self.reduction, self.delta)


class KLDivLoss(Loss):
    """Computes the mean of `target (log(target) - x)` of log-probabilities x; "batchmean" divides by the samples.

    >>> hlx.nn.KLDivLoss(reduction="batchmean")(hlx.tensor([0.0]), hlx.tensor([1.0])).item()
    0.0
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(WeightedLoss):
    """Computes the mean of `-weight[c] x[c]` of log-probabilities [N, C, ..] and classes c [N, ..].

    >>> hlx.nn.NLLLoss()(hlx.tensor([[-1.0, -2.0]]), hlx.tensor([1])).item()
    2.0
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(WeightedLoss):
    """Computes the mean of `-weight[c] log_softmax(x)[c]` of scores [N, C, ..] and classes c [N, ..].

    Targets may be probabilities [N, C, ..], too.

    >>> hlx.nn.CrossEntropyLoss()(hlx.tensor([[0.0, 200.0]]), hlx.tensor([1])).item()
    0.0
    """

    ignore_index: int
    label_smoothing: float

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.cross_entropy(
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class BCELoss(WeightedLoss):
    """Computes the mean of `-(target log(x) + (1 - target) log(1 - x))` of probabilities x.

    >>> hlx.nn.BCELoss()(hlx.tensor([1.0]), hlx.tensor([1.0])).item()
    0.0
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.binary_cross_entropy(input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(WeightedLoss):
    """Computes the binary cross-entropy of `sigmoid(x)`; `pos_weight` scales the part of the positives.

    >>> hlx.nn.BCEWithLogitsLoss()(hlx.tensor([200.0]), hlx.tensor([1.0])).item()
    0.0
    """

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class PoissonNLLLoss(Loss):
    """Computes the mean of `exp(x) - target x`, or of `x - target log(x + eps)` without `log_input`.

    >>> hlx.nn.PoissonNLLLoss()(hlx.tensor([0.0]), hlx.tensor([1.0])).item()
    1.0
    """

    log_input: bool
    full: bool
    eps: float

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Computes the loss."""
        return F.poisson_nll_loss(log_input, target, self.log_input, self.full, eps=self.eps, reduction=self.reduction)


class GaussianNLLLoss(Loss):
    """Computes the mean of `(log(var) + (x - target)^2 / var) / 2`, with variances of at least eps.

    >>> hlx.nn.GaussianNLLLoss()(hlx.tensor([2.0]), hlx.tensor([0.0]), hlx.tensor([1.0])).item()
    2.0
    """

    full: bool
    eps: float

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        if eps <= 0:
            raise errors.ValueError(f"GaussianNLLLoss: eps is {eps}, expected above 0")
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Computes the loss."""
        return F.gaussian_nll_loss(input, target, var, self.full, self.eps, self.reduction)
