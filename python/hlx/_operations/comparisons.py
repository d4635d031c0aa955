"""Comparisons, logic, bits, and the choice of elements by a condition."""

import builtins
import math
from typing import overload

from hlx import _hlx, errors
from hlx._operations._arguments import binary, tensor_of
from hlx._operations._register import function, method, operation
from hlx._operations._types import BOOL, FLOAT32, UINT8, Operand, Tensor


@operation
def eq(input: Operand, other: Operand) -> Tensor:
    """Tells whether two elements are equal; NaN is equal to nothing.

    >>> hlx.eq(hlx.tensor([1, 2]), 2).tolist()
    [False, True]
    """
    return binary("eq", input, other)


@operation("ne", "not_equal")
def ne(input: Operand, other: Operand) -> Tensor:
    """Tells whether two elements differ.

    >>> hlx.ne(hlx.tensor([1, 2]), 2).tolist()
    [True, False]
    """
    return binary("ne", input, other)


@operation("lt", "less")
def lt(input: Operand, other: Operand) -> Tensor:
    """Tells whether `input < other`.

    >>> hlx.lt(hlx.tensor([1, 2]), 2).tolist()
    [True, False]
    """
    return binary("lt", input, other)


@operation("le", "less_equal")
def le(input: Operand, other: Operand) -> Tensor:
    """Tells whether `input <= other`.

    >>> hlx.le(hlx.tensor([1, 3]), 2).tolist()
    [True, False]
    """
    return binary("le", input, other)


@operation("gt", "greater")
def gt(input: Operand, other: Operand) -> Tensor:
    """Tells whether `input > other`.

    >>> hlx.gt(hlx.tensor([1, 3]), 2).tolist()
    [False, True]
    """
    return binary("gt", input, other)


@operation("ge", "greater_equal")
def ge(input: Operand, other: Operand) -> Tensor:
    """Tells whether `input >= other`.

    >>> hlx.ge(hlx.tensor([1, 2]), 2).tolist()
    [False, True]
    """
    return binary("ge", input, other)


@operation
def logical_and(input: Operand, other: Operand) -> Tensor:
    """Tells whether both elements are other than 0.

    >>> hlx.logical_and(hlx.tensor([0, 1]), hlx.tensor([1, 1])).tolist()
    [False, True]
    """
    return binary("logical_and", input, other)


@operation
def logical_or(input: Operand, other: Operand) -> Tensor:
    """Tells whether one of two elements is other than 0.

    >>> hlx.logical_or(hlx.tensor([0, 1]), hlx.tensor([0, 0])).tolist()
    [False, True]
    """
    return binary("logical_or", input, other)


@operation
def logical_xor(input: Operand, other: Operand) -> Tensor:
    """Tells whether exactly one of two elements is other than 0.

    >>> hlx.logical_xor(hlx.tensor([0, 1]), hlx.tensor([1, 1])).tolist()
    [True, False]
    """
    return binary("logical_xor", input, other)


@operation
def bitwise_and(input: Operand, other: Operand) -> Tensor:
    """Computes the bits that both integers have; of bool, whether both are true.

    >>> hlx.bitwise_and(hlx.tensor([6]), 3).tolist()
    [2]
    """
    return binary("bitwise_and", input, other)


@operation
def bitwise_or(input: Operand, other: Operand) -> Tensor:
    """Computes the bits that one of two integers has; of bool, whether one is true.

    >>> hlx.bitwise_or(hlx.tensor([6]), 3).tolist()
    [7]
    """
    return binary("bitwise_or", input, other)


@operation
def bitwise_xor(input: Operand, other: Operand) -> Tensor:
    """Computes the bits that exactly one of two integers has; of bool, whether exactly one is true.

    >>> hlx.bitwise_xor(hlx.tensor([6]), 3).tolist()
    [5]
    """
    return binary("bitwise_xor", input, other)


@operation
def bitwise_left_shift(input: Operand, other: Operand) -> Tensor:
    """Computes `input 2^other` of integers, and 0 for shifts by 32 and more.

    >>> hlx.bitwise_left_shift(hlx.tensor([3]), 2).tolist()
    [12]
    """
    return binary("left_shift", input, other)


@operation
def bitwise_right_shift(input: Operand, other: Operand) -> Tensor:
    """Computes `floor(input / 2^other)` of integers.

    >>> hlx.bitwise_right_shift(hlx.tensor([13]), 2).tolist()
    [3]
    """
    return binary("right_shift", input, other)


@overload
def where(condition: Tensor, input: None = None, other: None = None) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Operand, other: Operand) -> Tensor: ...
@function
def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None) -> Tensor | tuple[Tensor, ...]:
    """Takes the input's element where the condition holds, else the other's; all three broadcast.

    With the condition alone the places where it holds, as `nonzero(condition, as_tuple=True)`.

    >>> hlx.where(hlx.tensor([True, False]), hlx.tensor([1.0, 2.0]), 0.0).tolist()
    [1.0, 0.0]
    """
    if input is None and other is None:
        from hlx._operations.indexing import nonzero

        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise errors.TypeError("where: one of input and other is missing, expected both or neither")
    if condition.dtype == UINT8:
        condition = _hlx.to_dtype(condition, BOOL)
    return _hlx.where_(input, condition, other)


@method("where")
def where_of(input: Tensor, condition: Tensor, other: Operand) -> Tensor:
    """Takes this tensor's element where the condition holds, else the other's.

    >>> hlx.tensor([1.0, 2.0]).where(hlx.tensor([True, False]), 0.0).tolist()
    [1.0, 0.0]
    """
    return where(condition, input, other)


@operation
def isinf(input: Tensor) -> Tensor:
    """Tells whether an element is infinite, of either sign.

    >>> hlx.isinf(hlx.tensor([1.0, -hlx.inf])).tolist()
    [False, True]
    """
    if not input.dtype.is_floating_point:
        return _hlx.binary(input, input, "ne")
    return _hlx.binary(_hlx.unary(input, "abs"), math.inf, "eq")


@operation
def isposinf(input: Tensor) -> Tensor:
    """Tells whether an element is positive infinity.

    >>> hlx.isposinf(hlx.tensor([hlx.inf, -hlx.inf])).tolist()
    [True, False]
    """
    if not input.dtype.is_floating_point:
        return _hlx.binary(input, input, "ne")
    return _hlx.binary(input, math.inf, "eq")


@operation
def isneginf(input: Tensor) -> Tensor:
    """Tells whether an element is negative infinity.

    >>> hlx.isneginf(hlx.tensor([hlx.inf, -hlx.inf])).tolist()
    [False, True]
    """
    if not input.dtype.is_floating_point:
        return _hlx.binary(input, input, "ne")
    return _hlx.binary(input, -math.inf, "eq")


@operation
def isreal(input: Tensor) -> Tensor:
    """Tells whether an element is real: every one is.

    >>> hlx.isreal(hlx.tensor([1.0])).tolist()
    [True]
    """
    return _hlx.ones(input.device, list(input.shape), BOOL)


@operation
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: builtins.bool = False
) -> Tensor:
    """Tells whether `|input - other| <= atol + rtol |other|`, or both are equal.

    >>> hlx.isclose(hlx.tensor([1.0, 2.0]), hlx.tensor([1.000001, 2.1])).tolist()
    [True, False]
    """
    if input.dtype != other.dtype:
        raise errors.RuntimeError(f"isclose: other has elements of {other.dtype}, expected {input.dtype}")
    if rtol < 0 or atol < 0:
        raise errors.RuntimeError(f"isclose: rtol is {rtol} and atol {atol}, expected none below 0")
    close = _hlx.binary(input, other, "eq")
    if not input.dtype.is_floating_point:
        input, other = _hlx.to_dtype(input, FLOAT32), _hlx.to_dtype(other, FLOAT32)
    if equal_nan:
        nan = _hlx.binary(_hlx.unary(input, "isnan"), _hlx.unary(other, "isnan"), "logical_and")
        close = _hlx.binary(close, nan, "logical_or")
    distance = _hlx.unary(_hlx.binary(input, other, "sub"), "abs")
    allowed = _hlx.binary(_hlx.binary(_hlx.unary(other, "abs"), rtol, "mul"), atol, "add")
    within = _hlx.binary(_hlx.binary(distance, allowed, "le"), _hlx.unary(distance, "isfinite"), "logical_and")
    return _hlx.binary(close, within, "logical_or")


@operation
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: builtins.bool = False
) -> builtins.bool:
    """Tells whether all elements are close, as `isclose` does; waits for the device.

    >>> hlx.allclose(hlx.tensor([1.0]), hlx.tensor([1.000001]))
    True
    """
    return builtins.bool(_hlx.all(isclose(input, other, rtol, atol, equal_nan), [], False).item())


@operation
def equal(input: Tensor, other: Tensor) -> builtins.bool:
    """Tells whether two tensors have one shape and equal elements; waits for the device.

    >>> hlx.equal(hlx.tensor([1, 2]), hlx.tensor([1, 2]))
    True
    """
    return _hlx.equal(input, other)


@function
def isin(
    elements: Operand, test_elements: Operand, *, assume_unique: builtins.bool = False, invert: builtins.bool = False
) -> Tensor:
    """Tells of each element whether it is among others, which are sorted and bisected.

    >>> hlx.isin(hlx.tensor([1, 2, 3]), hlx.tensor([2, 9])).tolist()
    [False, True, False]
    """
    elements = tensor_of(elements, test_elements if isinstance(test_elements, Tensor) else None)
    others = _hlx.reshape(tensor_of(test_elements, elements), [-1])
    if others.numel() == 0:
        found = _hlx.zeros(elements.device, list(elements.shape), BOOL)
    else:
        found = _is_among(elements, _hlx.sort(others, 0, False)[0])
    return _hlx.unary(found, "logical_not") if invert else found


def _is_among(elements: Tensor, others: Tensor) -> Tensor:
    from hlx._operations.extremes import searchsorted
    from hlx._operations.facts import promote_types

    wide = _hlx.to_dtype(others, promote_types(others.dtype, elements.dtype))
    places = _hlx.clamp_max(searchsorted(wide, elements), others.shape[0] - 1)
    nearest = _hlx.reshape(_hlx.index_select(wide, 0, _hlx.reshape(places, [-1])), list(elements.shape))
    return _hlx.binary(nearest, elements, "eq")
