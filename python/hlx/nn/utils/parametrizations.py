"""Parametrizations of weights: by their norm, and by their largest singular value."""

from __future__ import annotations

from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Tensor
from hlx._modes import no_grad
from hlx.nn import functional as F
from hlx.nn.modules.conv import ConvTranspose1d, ConvTranspose2d
from hlx.nn.modules.module import Module
from hlx.nn.utils.parametrize import register_parametrization

__all__ = ["spectral_norm", "weight_norm"]


def _norm_except(x: Tensor, dim: int | None) -> Tensor:
    """The norms over all dimensions but one, which keep their places; over all with None."""
    if dim is None:
        return _hlx.norm(x, 2.0, [], False)
    others = [axis for axis in range(x.ndim) if axis != dim % x.ndim]
    return _hlx.norm(x, 2.0, others, True) if others else x.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None) -> None:
        super().__init__()
        self.dim = None if dim == -1 else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        """The direction `v`, with the lengths `g`."""
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Lengths and direction of a weight."""
        return _norm_except(weight, self.dim), weight


def _tensor_of(operation: str, module: Module, name: str) -> Tensor:
    found = getattr(module, name, None)
    if not isinstance(found, Tensor):
        raise errors.ValueError(f"{operation}: {type(module).__name__} has no parameter or buffer {name!r}")
    return found


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Splits a weight in its length and direction, `g v / |v|` (Salimans and Kingma 2016), and returns the module.

    Lengths are those over all dimensions but `dim`; with None, or -1, there is one length of the whole. The parameters
    are `parametrizations.weight.original0`, g, and `original1`, v.

    >>> layer = hlx.nn.utils.parametrizations.weight_norm(hlx.nn.Linear(20, 40))
    >>> layer.parametrizations.weight.original0.shape, layer.parametrizations.weight.original1.shape
    (hlx.Size([40, 1]), hlx.Size([40, 20]))
    """
    _tensor_of("weight_norm", module, name)
    # A length of 1 more or less is no error of the shape.
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


class _SpectralNorm(Module):
    """The division by the largest singular value, which a power iteration estimates."""

    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int, dim: int, eps: float) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise errors.IndexError(f"spectral_norm: dim is {dim}, and the weight has {weight.ndim} dimensions")
        if not isinstance(n_power_iterations, int) or n_power_iterations < 1:
            raise errors.ValueError(
                f"spectral_norm: n_power_iterations is {n_power_iterations!r}, expected a whole number above 0"
            )
        self.dim, self.eps, self.n_power_iterations = dim % weight.ndim, eps, n_power_iterations
        if weight.ndim > 1:
            with no_grad():
                rows = self._matrix(weight.detach())
                for name, n in (("_u", rows.shape[0]), ("_v", rows.shape[1])):
                    drawn = _hlx.randn(rows.device, [n], _hlx.next_seed())
                    self.register_buffer(name, F.normalize(drawn, dim=0, eps=eps))
                self._iterate(rows, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        if self.dim:
            others = [axis for axis in range(weight.ndim) if axis != self.dim]
            weight = _hlx.permute(weight, [self.dim, *others])
        return _hlx.flatten(weight, 1, -1)

    def _iterate(self, rows: Tensor, times: int) -> None:
        """Moves the estimated singular vectors on, in place."""
        for _ in range(times):
            _hlx.copy_(self._u, F.normalize(_hlx.matmul(rows, self._v), dim=0, eps=self.eps))
            _hlx.copy_(self._v, F.normalize(_hlx.matmul(_hlx.transpose(rows, 0, 1), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        """The weight over its largest singular value."""
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        rows = self._matrix(weight)
        if self.training:
            with no_grad():
                self._iterate(rows.detach(), self.n_power_iterations)
        # A later pass moves the vectors on before this one is differentiated.
        u, v = _hlx.clone(self._u), _hlx.clone(self._v)
        return weight / (u * _hlx.matmul(rows, v)).sum()

    def right_inverse(self, value: Tensor) -> Tensor:
        """The value itself: its norm is divided off when it is read."""
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divides a weight by its largest singular value (Miyato et al. 2018), and returns the module.

    The weight is a matrix with the rows of `dim`: by default 0, and 1 for transposed convolutions. The singular vectors
    are buffers, drawn at first; each reading in training moves them on by `n_power_iterations`.

    >>> layer = hlx.nn.utils.parametrizations.spectral_norm(hlx.nn.Linear(3, 4))
    >>> sorted(name for name, _ in layer.named_buffers())
    ['parametrizations.weight.0._u', 'parametrizations.weight.0._v']
    """
    weight: Any = _tensor_of("spectral_norm", module, name)
    if dim is None:
        dim = 1 if isinstance(module, ConvTranspose1d | ConvTranspose2d) else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
