"""Initial values of parameters, as `torch.nn.init`: each function fills a tensor and returns it.

The distributions are PyTorch's. The draws are those of HLX's generator, equal on all devices.
"""

import math
import statistics
from typing import Any

from hlx import _hlx, errors
from hlx._hlx import Generator, Tensor
from hlx._modes import no_grad
from hlx._operations._types import FLOAT32

__all__ = [
    "calculate_gain",
    "constant_",
    "dirac_",
    "eye_",
    "kaiming_normal_",
    "kaiming_uniform_",
    "normal_",
    "ones_",
    "orthogonal_",
    "sparse_",
    "trunc_normal_",
    "uniform_",
    "xavier_normal_",
    "xavier_uniform_",
    "zeros_",
]

_binary, _unary = _hlx.binary, _hlx.unary


def _filled(tensor: Tensor, values: Any) -> Tensor:
    with no_grad():
        if isinstance(values, Tensor):
            _hlx.copy_(tensor, _hlx.to_dtype(values, tensor.dtype))
        else:
            tensor.fill_(values)
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills a tensor with draws from [a, b).

    >>> hlx.nn.init.uniform_(hlx.empty(2), 3.0, 3.0).tolist()
    [3.0, 3.0]
    """
    with no_grad():
        return tensor.uniform_(a, b, generator=generator)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills a tensor with draws from the normal distribution.

    >>> hlx.nn.init.normal_(hlx.empty(2), 5.0, 0.0).tolist()
    [5.0, 5.0]
    """
    with no_grad():
        return tensor.normal_(mean, std, generator=generator)


def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Fills a tensor with draws from the part of the normal distribution that is within [a, b].

    Uniform draws go through the inverse of the distribution, in f32.

    >>> bool((hlx.nn.init.trunc_normal_(hlx.empty(100)).abs() <= 2).all())
    True
    """
    if std == 0:
        return _filled(tensor, min(max(mean, a), b))
    normal = statistics.NormalDist()
    low, high = (normal.cdf((bound - mean) / std) for bound in (a, b))
    with no_grad():
        uniform = _hlx.rand(tensor.device, list(tensor.shape), _hlx.next_seed(generator))
        spread = _binary(_binary(uniform, 2 * (high - low), "mul"), 2 * low - 1, "add")
        deviations = _binary(_erfinv(spread), math.sqrt(2.0) * std, "mul")
        values = _binary(deviations, mean, "add")
        return _filled(tensor, _hlx.clamp_max(_hlx.clamp_min(values, float(a)), float(b)))


#: Giles, Approximating the erfinv function (GPU Computing Gems, 2011), in f32: polynomials of w - 2.5, w below 5, and
#: of sqrt(w) - 3 above, with w = -log(1 - x^2); the highest power first.
_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip


def _erfinv(x: Tensor) -> Tensor:
    w = _unary(_unary(_binary(_binary(1.0, x, "sub"), _binary(x, 1.0, "add"), "mul"), "log"), "neg")
    near = _polynomial(_NEAR, _binary(w, 2.5, "sub"))
    far = _polynomial(_FAR, _binary(_unary(w, "sqrt"), 3.0, "sub"))
    return _binary(_hlx.where_(near, _binary(w, 5.0, "lt"), far), x, "mul")


def _polynomial(coefficients: tuple[float, ...], x: Tensor) -> Tensor:
    value = _binary(_binary(x, coefficients[0], "mul"), coefficients[1], "add")
    for coefficient in coefficients[2:]:
        value = _binary(_binary(value, x, "mul"), coefficient, "add")
    return value


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fills a tensor with a value.

    >>> hlx.nn.init.constant_(hlx.empty(2), 0.5).tolist()
    [0.5, 0.5]
    """
    return _filled(tensor, val)


def ones_(tensor: Tensor) -> Tensor:
    """Fills a tensor with ones.

    >>> hlx.nn.init.ones_(hlx.empty(2)).tolist()
    [1.0, 1.0]
    """
    return _filled(tensor, 1)


def zeros_(tensor: Tensor) -> Tensor:
    """Fills a tensor with zeros.

    >>> hlx.nn.init.zeros_(hlx.empty(2)).tolist()
    [0.0, 0.0]
    """
    return _filled(tensor, 0)


def eye_(tensor: Tensor) -> Tensor:
    """Fills a matrix with the identity.

    >>> hlx.nn.init.eye_(hlx.empty(2, 2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if tensor.ndim != 2:
        raise errors.ValueError(f"eye_: the tensor has shape {list(tensor.shape)}, expected 2 dimensions")
    return _filled(tensor, _hlx.eye_of(tensor.device, *tensor.shape))


def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """Fills kernels of a convolution [O, I, ..] with such that pass on their inputs, in each group the same ones.

    >>> hlx.nn.init.dirac_(hlx.empty(1, 1, 3)).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5):
        raise errors.ValueError(f"dirac_: the tensor has shape {list(tensor.shape)}, expected 3 to 5 dimensions")
    rows, columns, *kernel = tensor.shape
    if rows % groups:
        raise errors.ValueError(f"dirac_: {rows} rows are no multiple of {groups} groups")
    zeros_(tensor)
    middle = [extent // 2 for extent in kernel]
    with no_grad():
        for group in range(groups):
            for i in range(min(rows // groups, columns)):
                tensor[(group * (rows // groups) + i, i, *middle)] = 1
    return tensor


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity's initial weights are scaled.

    >>> hlx.nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        if isinstance(slope, bool) or not isinstance(slope, int | float):
            raise errors.ValueError(f"calculate_gain: the slope is {slope!r}, expected a number")
        return math.sqrt(2.0 / (1 + slope**2))
    linear = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
    gains = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4, "sigmoid": 1.0, **dict.fromkeys(linear, 1.0)}
    if nonlinearity not in gains:
        known = ", ".join(["leaky_relu", *gains])
        raise errors.ValueError(f"calculate_gain: the nonlinearity is {nonlinearity!r}, expected one of {known}")
    return gains[nonlinearity]


def _fans(operation: str, tensor: Tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input."""
    if tensor.ndim < 2:
        raise errors.ValueError(
            f"{operation}: the tensor has shape {list(tensor.shape)}, expected 2 or more dimensions"
        )
    outputs, inputs, *kernel = tensor.shape
    size = math.prod(kernel)
    return inputs * size, outputs * size


def _xavier_std(operation: str, tensor: Tensor, gain: float) -> float:
    return gain * math.sqrt(2.0 / sum(_fans(operation, tensor)))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills weights with draws from [-a, a), `a = gain sqrt(6 / (inputs + outputs))` (Glorot and Bengio, 2010).

    >>> bool((hlx.nn.init.xavier_uniform_(hlx.empty(3, 3)).abs() <= 1).all())
    True
    """
    bound = math.sqrt(3.0) * _xavier_std("xavier_uniform_", tensor, gain)
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Fills weights with normal draws of deviation `gain sqrt(2 / (inputs + outputs))` (Glorot and Bengio, 2010).

    >>> hlx.nn.init.xavier_normal_(hlx.empty(1, 2), gain=0.0).tolist()
    [[0.0, 0.0]]
    """
    return normal_(tensor, 0.0, _xavier_std("xavier_normal_", tensor, gain), generator)


def _kaiming_std(operation: str, tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise errors.ValueError(f"{operation}: mode is {mode!r}, expected 'fan_in' or 'fan_out'")
    fan = _fans(operation, tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills weights with draws from [-b, b), `b = gain sqrt(3 / inputs)` (He et al., 2015).

    >>> bool((hlx.nn.init.kaiming_uniform_(hlx.empty(3, 6)).abs() <= 1).all())
    True
    """
    if 0 in tensor.shape:
        return tensor
    bound = math.sqrt(3.0) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Fills weights with normal draws of deviation `gain / sqrt(inputs)` (He et al., 2015).

    >>> hlx.nn.init.kaiming_normal_(hlx.empty(3, 6)).shape
    hlx.Size([3, 6])
    """
    if 0 in tensor.shape:
        return tensor
    return normal_(tensor, 0.0, _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity), generator)


def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """Fills a tensor, as a matrix [first, rest], with orthonormal rows or columns times a gain (Saxe et al., 2013).

    Columns of normal draws are made orthogonal one after the other, twice (Gram and Schmidt): so their distribution
    is PyTorch's, that of uniformly drawn rotations. A matrix of n columns takes n steps.

    >>> q = hlx.nn.init.orthogonal_(hlx.empty(3, 3))
    >>> bool(((q @ q.T - hlx.eye(3)).abs() < 1e-5).all())
    True
    """
    if tensor.ndim < 2:
        raise errors.ValueError(
            f"orthogonal_: the tensor has shape {list(tensor.shape)}, expected 2 or more dimensions"
        )
    if tensor.numel() == 0:
        return tensor
    rows = tensor.shape[0]
    shape = [rows, tensor.numel() // rows]
    with no_grad():
        drawn = _hlx.randn(tensor.device, [min(shape), max(shape)], _hlx.next_seed(generator))
        made = _orthonormal_rows(drawn)
        matrix = made if shape[0] <= shape[1] else _hlx.transpose(made, 0, 1)
        return _filled(tensor, _binary(_hlx.reshape(matrix, list(tensor.shape)), gain, "mul"))


def _orthonormal_rows(drawn: Tensor) -> Tensor:
    made = _hlx.zeros(drawn.device, list(drawn.shape), FLOAT32)
    for i in range(drawn.shape[0]):
        row = _hlx.narrow(drawn, 0, i, 1)
        for _ in range(2):
            # Rows that are not there yet are zeros, which take nothing away.
            along = _hlx.matmul(row, _hlx.transpose(made, 0, 1))
            row = _binary(row, _hlx.matmul(along, made), "sub")
        row = _binary(row, _hlx.norm(row, 2.0, [1], True), "div")
        made = _hlx.cat([_hlx.narrow(made, 0, 0, i), row, _hlx.narrow(made, 0, i + 1, drawn.shape[0] - i - 1)], 0)
    return made


def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Fills a matrix with normal draws, and a part `sparsity` of each column with zeros (Martens, 2010).

    >>> int((hlx.nn.init.sparse_(hlx.empty(10, 3), 0.5) == 0).sum())
    15
    """
    if tensor.ndim != 2:
        raise errors.ValueError(f"sparse_: the tensor has shape {list(tensor.shape)}, expected 2 dimensions")
    rows, columns = tensor.shape
    normal_(tensor, 0.0, std, generator)
    with no_grad():
        order = _hlx.rand(tensor.device, [rows, columns], _hlx.next_seed(generator))
        ranks = _hlx.argsort(_hlx.argsort(order, 0, False), 0, False)
        return _filled(tensor, _hlx.masked_fill(tensor.detach(), _binary(ranks, math.ceil(sparsity * rows), "lt"), 0.0))
