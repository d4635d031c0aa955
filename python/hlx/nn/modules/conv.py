"""Convolutions of signals and images."""

from collections.abc import Sequence

from hlx import errors
from hlx._hlx import Tensor, dtype
from hlx._operations._types import Device
from hlx.nn import functional as F
from hlx.nn._functional.images import Sizes
from hlx.nn.modules._making import each, parameter, uniform_by_inputs
from hlx.nn.modules.module import Module
from hlx.nn.parameter import Parameter

__all__ = ["Conv1d", "Conv2d", "ConvTranspose1d", "ConvTranspose2d"]


class _Conv(Module):
    """What all convolutions have; `n` dimensions are convolved."""

    in_channels: int
    out_channels: int
    groups: int
    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: str | tuple[int, ...]
    output_padding: tuple[int, ...]

    n = 2
    is_transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes,
        padding: Sizes | str,
        output_padding: Sizes,
        dilation: Sizes,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Device,
        dtype: dtype | None,
    ) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        name = self._get_name()
        self.kernel_size = each(name, "kernel_size", kernel_size, self.n)
        self.stride, self.dilation = each(name, "stride", stride, self.n), each(name, "dilation", dilation, self.n)
        self.padding = padding if isinstance(padding, str) else each(name, "padding", padding, self.n)
        self.output_padding = each(name, "output_padding", output_padding, self.n)
        self.padding_mode = padding_mode
        self._check()
        channels = [out_channels, in_channels // groups]
        if self.is_transposed:
            channels = [in_channels, out_channels // groups]
        self.weight = parameter([*channels, *self.kernel_size], 0.0, device, dtype)
        self.register_parameter("bias", parameter([out_channels], 0.0, device, dtype) if bias else None)
        self.reset_parameters()

    def _check(self) -> None:
        name = self._get_name()
        if self.groups <= 0:
            raise errors.ValueError(f"{name}: groups is {self.groups}, expected at least 1")
        for word, n in (("in_channels", self.in_channels), ("out_channels", self.out_channels)):
            if n % self.groups:
                raise errors.ValueError(f"{name}: {word} is {n}, expected a multiple of {self.groups} groups")
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise errors.ValueError(f"{name}: padding is {self.padding!r}, expected numbers, 'same' or 'valid'")
            if self.padding == "same" and any(step != 1 for step in self.stride):
                raise errors.ValueError(f"{name}: padding is 'same' with stride {self.stride}, expected stride 1")
        modes = ("zeros",) if self.is_transposed else ("zeros", "reflect", "replicate", "circular")
        if self.padding_mode not in modes:
            raise errors.ValueError(
                f"{name}: padding_mode is {self.padding_mode!r}, expected one of {', '.join(modes)}"
            )

    def reset_parameters(self) -> None:
        """Draws initial values."""
        uniform_by_inputs(self.weight, self.bias)

    def _around(self) -> list[int]:
        """The widths of the padding, last dimension first."""
        widths: list[int] = []
        for i in reversed(range(self.n)):
            if isinstance(self.padding, str):
                total = self.dilation[i] * (self.kernel_size[i] - 1) if self.padding == "same" else 0
                widths += [total // 2, total - total // 2]
            else:
                widths += [self.padding[i]] * 2
        return widths

    def extra_repr(self) -> str:
        """The sizes, and what is not the default."""
        words = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        if self.padding != (0,) * self.n:
            words.append(f"padding={self.padding}")
        for name, value, usual in (
            ("dilation", self.dilation, (1,) * self.n),
            ("output_padding", self.output_padding, (0,) * self.n),
            ("groups", self.groups, 1),
        ):
            if value != usual:
                words.append(f"{name}={value}")
        if self.bias is None:
            words.append("bias=False")
        if self.padding_mode != "zeros":
            words.append(f"padding_mode={self.padding_mode}")
        return ", ".join(words)


class _Forward(_Conv):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor) -> Tensor:
        """Convolves."""
        convolve = F.conv1d if self.n == 1 else F.conv2d
        padding: Sizes | str = self.padding
        # One sample has no dimension of samples.
        is_one = input.ndim == self.n + 1
        x = input.unsqueeze(0) if is_one else input
        if self.padding_mode != "zeros":
            x, padding = F.pad(x, self._around(), self.padding_mode), 0
        y = convolve(x, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)
        return y.squeeze(0) if is_one else y


class Conv1d(_Forward):
    """Convolves signals [N, C, L], or one of them, with kernels [O, C / groups, K].

    Initial values are uniform within `1 / sqrt(C / groups K)`. `padding_mode` is `zeros`, `reflect`, `replicate` or
    `circular`.

    >>> hlx.nn.Conv1d(3, 8, 5, padding=2)(hlx.ones(2, 3, 10)).shape
    hlx.Size([2, 8, 10])
    """

    n = 1


class Conv2d(_Forward):
    """Convolves images [N, C, H, W], or one of them, with kernels [O, C / groups, K, L].

    Initial values are uniform within `1 / sqrt(C / groups K L)`. `padding_mode` is `zeros`, `reflect`, `replicate` or
    `circular`.

    >>> hlx.nn.Conv2d(3, 8, 3, padding="same")(hlx.ones(2, 3, 10, 10)).shape
    hlx.Size([2, 8, 10, 10])
    """

    n = 2


class _Transposed(_Conv):
    is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Sizes = 1,
        padding_mode: str = "zeros",
        device: Device = None,
        dtype: dtype | None = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _padding_for(self, input: Tensor, output_size: Sequence[int]) -> Sizes:
        """The padding at the ends of the output that makes it have a size."""
        wanted = list(output_size)[-self.n :]
        found: list[int] = []
        for i in range(self.n):
            window = self.dilation[i] * (self.kernel_size[i] - 1) + 1
            least = (input.shape[i - self.n] - 1) * self.stride[i] - 2 * int(self.padding[i]) + window
            if not least <= wanted[i] < least + self.stride[i]:
                raise errors.ValueError(
                    f"{self._get_name()}: output_size is {list(output_size)}, expected {least} to"
                    f" {least + self.stride[i] - 1} in dimension {i}"
                )
            found.append(wanted[i] - least)
        return found

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        """Convolves transposed; `output_size` chooses one of the sizes that the stride allows."""
        convolve = F.conv_transpose1d if self.n == 1 else F.conv_transpose2d
        extra: Sizes = self.output_padding if output_size is None else self._padding_for(input, output_size)
        is_one = input.ndim == self.n + 1
        x = input.unsqueeze(0) if is_one else input
        padding: Sizes = self.padding  # type: ignore[assignment] # pyright: ignore
        y = convolve(x, self.weight, self.bias, self.stride, padding, extra, self.groups, self.dilation)
        return y.squeeze(0) if is_one else y


class ConvTranspose1d(_Transposed):
    """Convolves signals [N, C, L] transposed with kernels [C, O / groups, K].

    >>> hlx.nn.ConvTranspose1d(3, 8, 4, stride=2)(hlx.ones(2, 3, 10)).shape
    hlx.Size([2, 8, 22])
    """

    n = 1


class ConvTranspose2d(_Transposed):
    """Convolves images [N, C, H, W] transposed with kernels [C, O / groups, K, L].

    >>> hlx.nn.ConvTranspose2d(3, 8, 2, stride=2)(hlx.ones(2, 3, 5, 5)).shape
    hlx.Size([2, 8, 10, 10])
    """

    n = 2
