"""Normalisation by the statistics of a batch, or of each sample, with running values."""

from typing import Any

from hlx import errors
from hlx._hlx import Tensor, dtype
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn.modules._making import counter, filled, parameter
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "InstanceNorm1d", "InstanceNorm2d"]


class _Norm(Module):
    """Gain, bias and running values by channel."""

    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool
    #: How many dimensions an input may have.
    ranks: tuple[int, ...] = ()
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Device,
        dtype: dtype | None,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        shape = [num_features]
        self.register_parameter("weight", parameter(shape, 1.0, device, dtype) if affine else None)
        self.register_parameter("bias", parameter(shape, 0.0, device, dtype) if affine and bias else None)
        self.register_buffer("running_mean", filled(shape, 0.0, device, dtype) if track_running_stats else None)
        self.register_buffer("running_var", filled(shape, 1.0, device, dtype) if track_running_stats else None)
        self.register_buffer("num_batches_tracked", counter(device) if track_running_stats else None)

    def reset_running_stats(self) -> None:
        """Sets the running values to mean 0 and variance 1."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Sets gain 1 and bias 0, and the running values."""
        self.reset_running_stats()
        for parameter_, value in ((self.weight, 1), (self.bias, 0)):
            if parameter_ is not None:
                parameter_.detach().fill_(value)

    def _expect(self, input: Tensor, channel: int) -> None:
        if input.ndim not in self.ranks:
            expected = " or ".join(str(rank) for rank in self.ranks)
            raise errors.ValueError(
                f"{self._get_name()}: the input has shape {list(input.shape)}, expected {expected} dimensions"
            )
        if input.shape[channel] != self.num_features and (self.affine or self.track_running_stats):
            raise errors.ValueError(
                f"{self._get_name()}: the input has shape {list(input.shape)}, expected {self.num_features} channels"
            )

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *arguments: Any) -> None:
        # States of PyTorch before 0.4.1 have no count.
        key = f"{prefix}num_batches_tracked"
        if self.num_batches_tracked is not None and key not in state_dict:
            state_dict[key] = self.num_batches_tracked.clone()
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def extra_repr(self) -> str:
        """The sizes."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine},"
            f" bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Device = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """In training normalises by the batch and moves the running values; else normalises by them."""
        self._expect(input, 1)
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:
                momentum = 1.0 / self.num_batches_tracked.item()
        by_batch = self.training or self.running_mean is None
        is_used = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if is_used else None,
            self.running_var if is_used else None,
            self.weight,
            self.bias,
            by_batch,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalises channels of rows [N, C] or signals [N, C, L] by the mean and variance of the batch.

    In training the running values move toward those of the batch; in evaluation they take their place. With
    `momentum=None` they are the mean over all batches.

    >>> hlx.nn.BatchNorm1d(3)(hlx.ones(2, 3)).tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    ranks: tuple[int, ...] = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises channels of images [N, C, H, W] by the mean and variance of the batch.

    In training the running values move toward those of the batch; in evaluation they take their place. With
    `momentum=None` they are the mean over all batches.

    >>> norm = hlx.nn.BatchNorm2d(3)
    >>> y = norm(hlx.ones(2, 3, 4, 4))
    >>> norm.running_mean
    tensor([0.1000, 0.1000, 0.1000])
    """

    ranks: tuple[int, ...] = (4,)


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Device = None,
        dtype: dtype | None = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        """Normalises each channel of each sample; in evaluation by the running values, if there are any."""
        is_one = input.ndim == self.ranks[0]
        self._expect(input, 0 if is_one else 1)
        y = F.instance_norm(
            input.unsqueeze(0) if is_one else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return y.squeeze(0) if is_one else y


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each signal of [N, C, L], or of one [C, L], by its mean and variance.

    >>> hlx.nn.InstanceNorm1d(1)(hlx.ones(2, 1, 2)).tolist()
    [[[0.0, 0.0]], [[0.0, 0.0]]]
    """

    ranks: tuple[int, ...] = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each image of [N, C, H, W], or of one [C, H, W], by its mean and variance.

    >>> hlx.nn.InstanceNorm2d(3, affine=True)(hlx.ones(2, 3, 4, 4)).shape
    hlx.Size([2, 3, 4, 4])
    """

    ranks: tuple[int, ...] = (3, 4)
