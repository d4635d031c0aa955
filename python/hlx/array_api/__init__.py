"""The array API standard, 2025.12, over `hlx.Tensor`: functions with the standard's names, types and rules.

>>> import hlx.array_api as xp
>>> x = xp.asarray([3, 1, 2])
>>> xp.sort(x, descending=True)
tensor([3, 2, 1], dtype=hlx.int32)
>>> xp.mean(xp.astype(x, xp.float32))
tensor(2.)

A library that is written for the standard gets this namespace from `x.__array_namespace__()`.

Left out, because HLX does not have it:

- `int16`, `uint16`, `int64`, `uint64`, `float64`, `complex64` and `complex128`, with `imag`. The default
  integer is int32. `float16` and `bfloat16` exist beyond the standard.
- `nextafter`, and the sign of a NaN in `signbit` and `copysign`: HLX has one NaN, and no operation reads a
  float's bits.
- The extensions `linalg` and `fft`.

Different from the standard:

- `x.size` is PyTorch's method: `x.size()` is the shape. `math.prod(x.shape)` is the number of elements.
- The operators of a tensor promote as in PyTorch: a tensor without dimensions decides the kind of a result, not
  its width. The functions of this namespace promote as the standard says.
- int8 beside uint8 gives int32 (the standard: int16), uint32 beside a signed type int32 (the standard: int64).
- Subnormal numbers are 0. At most 8 dimensions.
"""

from hlx import bool, float32, int8, int32, uint8, uint32

from ._creation import (
    arange, asarray, empty, empty_like, eye, from_dlpack, full, full_like, linspace, meshgrid, ones,
    ones_like, tril, triu, zeros, zeros_like,
)  # fmt: skip
from ._dtypes import astype, can_cast, finfo, iinfo, isdtype, result_type
from ._elementwise import (
    abs, acos, acosh, asin, asinh, atan, atanh, bitwise_invert, ceil, clip, conj, cos, cosh, exp, expm1,
    floor, isfinite, isinf, isnan, log, log10, log1p, log2, logical_not, negative, positive, real, reciprocal,
    round, sign, signbit, sin, sinh, sqrt, square, tan, tanh, trunc,
)  # fmt: skip
from ._elementwise_binary import (
    add, atan2, bitwise_and, bitwise_left_shift, bitwise_or, bitwise_right_shift, bitwise_xor, copysign,
    divide, equal, floor_divide, greater, greater_equal, hypot, less, less_equal, logaddexp, logical_and,
    logical_or, logical_xor, maximum, minimum, multiply, not_equal, pow, remainder, subtract,
)  # fmt: skip
from ._info import __array_namespace_info__
from ._manipulation import (
    broadcast_arrays, broadcast_shapes, broadcast_to, concat, expand_dims, flip, moveaxis, permute_dims,
    repeat, reshape, roll, squeeze, stack, take, take_along_axis, tile, unstack,
)  # fmt: skip
from ._products import matmul, matrix_transpose, tensordot, vecdot
from ._searching import (
    argmax, argmin, argsort, count_nonzero, isin, nonzero, searchsorted, sort, unique_all, unique_counts,
    unique_inverse, unique_values, where,
)  # fmt: skip
from ._statistics import (
    all, any, cumulative_prod, cumulative_sum, diff, max, mean, min, prod, std, sum, var,
)  # fmt: skip

__array_api_version__ = "2025.12"

e = 2.718281828459045
inf = float("inf")
nan = float("nan")
newaxis = None
pi = 3.141592653589793

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "abs", "acos", "acosh", "add", "all", "any",
    "arange", "argmax", "argmin", "argsort", "asarray", "asin", "asinh", "astype", "atan", "atan2", "atanh",
    "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor",
    "bool", "broadcast_arrays", "broadcast_shapes", "broadcast_to", "can_cast", "ceil", "clip", "concat",
    "conj", "copysign", "cos", "cosh", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "divide",
    "e", "empty", "empty_like", "equal", "exp", "expand_dims", "expm1", "eye", "finfo", "flip", "float32",
    "floor", "floor_divide", "from_dlpack", "full", "full_like", "greater", "greater_equal", "hypot", "iinfo",
    "inf", "int32", "int8", "isdtype", "isfinite", "isin", "isinf", "isnan", "less", "less_equal", "linspace",
    "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor",
    "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "nan", "negative", "newaxis", "nonzero", "not_equal", "ones", "ones_like", "permute_dims",
    "pi", "positive", "pow", "prod", "real", "reciprocal", "remainder", "repeat", "reshape", "result_type",
    "roll", "round", "searchsorted", "sign", "signbit", "sin", "sinh", "sort", "sqrt", "square", "squeeze",
    "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "tril",
    "triu", "trunc", "uint32", "uint8", "unique_all", "unique_counts", "unique_inverse", "unique_values",
    "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip
