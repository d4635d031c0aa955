"""Operations in place: `x.NAME_(..)` writes the result of `NAME` into x's memory and returns x.

The bits are those of the operation without `_`, shape and kind of type do not change, and views of the memory
see the change. What the tape allows is in docs/tensors.md. Most are made from the list below, with the
signature and the text of their operation.
"""

import inspect
from collections.abc import Callable
from typing import Any

from hlx import _hlx, errors
from hlx._operations._register import METHODS, method, operation
from hlx._operations._types import Number, Operand, Tensor

#: The operations whose form in place is the operation, then an assignment.
NAMES = """
abs absolute acos arccos acosh arccosh add addbmm addcdiv addcmul addmm addmv addr asin arcsin asinh arcsinh
atan arctan atan2 arctan2 atanh arctanh baddbmm bitwise_and bitwise_left_shift bitwise_not bitwise_or
bitwise_right_shift bitwise_xor ceil clamp clamp_max clamp_min clip copysign cos cosh cumprod cumsum deg2rad div
divide eq erf erfc exp exp2 expm1 fix floor floor_divide fmod frac ge greater greater_equal gt heaviside hypot
index_add index_copy index_fill index_put ldexp le lerp less less_equal log log10 log1p log2 logical_and
logical_not logical_or logical_xor logit lt masked_fill masked_scatter mul multiply nan_to_num ne neg negative
not_equal pow put rad2deg reciprocal relu remainder renorm round rsqrt scatter scatter_add scatter_reduce sgn
sigmoid sign sin sinc sinh sqrt square sub subtract tan tanh tril triu true_divide trunc xlogy
""".split()

#: Of these PyTorch has functions, too.
FUNCTIONS_TOO = frozenset(
    """
    abs acos arccos acosh arccosh addmv asin arcsin asinh arcsinh atan arctan atanh arctanh ceil clamp clamp_max
    clamp_min clip cos cosh deg2rad erf erfc exp exp2 expm1 fix floor frac index_put ldexp log log10 log1p log2 logit
    nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc xlogy
    """.split()
)


#: The native operations of one other operand, and the native functions, which need no call of Python's.
BINARY = frozenset("add sub mul div remainder eq ne lt le gt ge logical_and logical_or logical_xor".split())
UNARY = frozenset(
    """
    abs neg square sign floor ceil trunc reciprocal sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin
    acos atan sinh cosh tanh sigmoid relu erf
    """.split()
)


def _made(name: str) -> Callable[..., Tensor]:
    computes = METHODS[name]
    label = f"{name}_"
    is_unary, is_binary = name in UNARY, name in BINARY

    def in_place(input: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        if not keywords:
            if is_binary and len(arguments) == 1:
                return _hlx.binary_(input, arguments[0], name)
            if not arguments:
                return _hlx.unary_(input, name) if is_unary else _hlx.in_place(input, label, computes)
        return _hlx.in_place(input, label, lambda x: computes(x, *arguments, **keywords))

    signature = inspect.signature(computes)
    in_place.__signature__ = signature.replace(return_annotation=Tensor)  # type: ignore[attr-defined]
    in_place.__annotations__ = {**computes.__annotations__, "return": Tensor}
    in_place.__name__ = in_place.__qualname__ = label
    in_place.__module__ = computes.__module__
    in_place.__doc__ = _text(name, computes.__doc__ or "")
    return in_place


def _text(name: str, text: str) -> str:
    """The text of a form in place, with the operation's first line and its example's arguments."""
    summary = text.strip().partition("\n")[0]
    _, _, call = text.partition(">>> hlx.")
    first, rest = _split(call.partition("(")[2])
    example = f"    >>> x = {first}\n    >>> x.{name}_({rest}) is x\n    True\n"
    return f"As `{name}`, into the tensor's own memory; returns the tensor.\n\n    {summary}\n\n{example}    "


def _split(arguments: str) -> tuple[str, str]:
    """The first argument of a call and the others, from the text behind its bracket."""
    depth, cut = 1, 0
    for place, character in enumerate(arguments):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        if depth == 1 and character == "," and not cut:
            cut = place
        if depth == 0:
            end = cut or place
            return arguments[:end], arguments[end + 1 : place].strip()
    raise AssertionError(f"the example has no call: {arguments}")


def define() -> None:
    """Registers the forms in place of the operations that are registered so far."""
    for name in NAMES:
        register = operation if name in FUNCTIONS_TOO else method
        register(f"{name}_")(_made(name))


def _overwritten(input: Tensor, name: str, values: Callable[[Tensor], Tensor]) -> Tensor:
    # The values from before have no part in the result: their gradient is zero.
    def overwrite(x: Tensor) -> Tensor:
        new = values(x)
        if not x.requires_grad:
            return new
        return _hlx.where_(new, _hlx.ones(x.device, [], _BOOL), x)

    return _hlx.in_place(input, name, overwrite)


_BOOL = _hlx.dtype("bool")


@operation
def zero_(input: Tensor) -> Tensor:
    """Writes zeros into the tensor.

    >>> hlx.tensor([1.0, 2.0]).zero_().tolist()
    [0.0, 0.0]
    """
    return _overwritten(input, "zero_", lambda x: _hlx.zeros(x.device, list(x.shape), x.dtype))


@operation
def fill_(input: Tensor, value: Operand) -> Tensor:
    """Writes one value, which may be a tensor without dimensions, to every element.

    >>> hlx.tensor([1.0, 2.0]).fill_(7).tolist()
    [7.0, 7.0]
    """
    if isinstance(value, Tensor):
        if value.ndim:
            raise errors.RuntimeError(f"fill_: value has shape {list(value.shape)}, expected no dimensions")
        return copy_(input, value)
    return _overwritten(input, "fill_", lambda x: _hlx.full(x.device, list(x.shape), value, x.dtype))


@method
def copy_(input: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    """Writes the elements of another tensor, broadcast and converted; the gradient goes to it.

    >>> hlx.zeros(2).copy_(hlx.tensor([1, 2])).tolist()
    [1.0, 2.0]
    """
    if src.device != input.device:
        src = _hlx.to(src, input.device)
    return _overwritten(input, "copy_", lambda x: _hlx.expand(_hlx.to_dtype(src, x.dtype), list(x.shape)))


@method
def fill_diagonal_(input: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """Writes a value to the diagonal of a matrix.

    >>> hlx.zeros(2, 2).fill_diagonal_(5).tolist()
    [[5.0, 0.0], [0.0, 5.0]]
    """
    if input.ndim != 2 or wrap:
        raise errors.RuntimeError(
            f"fill_diagonal_: shape {list(input.shape)} and wrap {wrap}, expected a matrix without"
        )
    rows, columns = input.shape
    mask = _hlx.to_dtype(_hlx.eye_of(input.device, rows, columns), _BOOL)
    return _hlx.in_place(input, "fill_diagonal_", lambda x: _hlx.masked_fill(x, mask, fill_value))
