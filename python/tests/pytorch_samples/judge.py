"""Carries out samples, judges the results, and counts the verdicts by operation."""

import re
from collections import Counter
from typing import Any, NamedTuple

import numpy

import hlx

from .arguments import Arguments
from .calls import operation
from .compare import NAMES, Different, Tolerance, compare, values_of
from .fixture import FLOATS, Fixture, drawn

PASSED, REFUSED, DIFFERS, FAILED = "passed", "refused", "by another rule", "failed"


class Verdict(NamedTuple):
    """What became of a sample, and why."""

    kind: str
    reason: str = ""


#: Whose gradients are sums or differences of terms of about 1, which cancel.
_DIFFERENCES = {"layer_norm", "group_norm", "batch_norm", "instance_norm", "normalize", "prelu", "cov"}


def bounds(name: str) -> tuple[Tolerance, Tolerance]:
    """How close results and gradients have to be."""
    functional = name.removeprefix("nn.functional.")
    forward, gradient = 5e-7, 2e-6
    if functional in ("interpolate/bilinear", "upsample_bilinear"):
        # Places in an image of 1,000 pixels are known to 6e-5 of a pixel in f32.
        forward = gradient = 5e-5
    elif functional == "scaled_dot_product_attention":
        # Scores reach 230, which f32 knows to 8e-6: so much may a weight be off, in parts of itself.
        forward = gradient = 1e-5
    # A derivative such as 1 - y^2 is known to a unit of 1; normalised values are differences of such.
    absolute = 5e-6 if functional in _DIFFERENCES else 2.4e-7
    # A loss of weighted classes is a difference of their terms.
    forward_absolute = 4e-6 if functional == "cross_entropy" else 0.0
    return Tolerance(2e-6, forward, forward_absolute), Tolerance(1e-5, gradient, absolute)


def plain(message: str) -> str:
    """A message without the numbers of one sample: N stands for numbers, but not within words such as `f32`."""
    message = re.sub(r"\[[^\]]*\]", "[..]", message.partition("\n")[0])
    return re.sub(r"(?<![A-Za-z0-9])[0-9]+", "N", message)


def another_rule(name: str, sample: dict[str, Any], arguments: Arguments) -> str | None:
    """Where HLX's rule is another one than PyTorch's, or PyTorch has none."""
    if name in ("byte", "char", "int") and sample["t"] in FLOATS:
        return "a float out of the integers' range saturates, and NaN is 0; PyTorch leaves them open"
    if name == "nn.functional.elu":
        return "the gradient at NaN is dy; PyTorch's is that or NaN, by the element's place in memory"
    if name == "arange" and arguments.keywords.get("dtype", hlx.int32) != hlx.float32:
        return "elements are start + i step, converted; PyTorch converts start and step before"
    if name == "linspace":
        return "f16 and bf16 are f32 rounded once; PyTorch computes in 16 bits"
    if name == "nn.functional.embedding_bag" and sample["t"] != "f32" and "max_norm" in arguments.keywords:
        return "rows that are scaled in place have 16 bits before they are summed"
    return _COMPOSED_RULES.get(name)


_AT_NAN = "the gradient at NaN is 0 or dy; PyTorch's is one of them or NaN, by the element's place in memory"
#: Where a composition's rule is another one than PyTorch's.
_COMPOSED_RULES = {
    "index_copy": "of several writes to one place the last one has the gradient, in PyTorch all of them",
    "logaddexp": "equal infinite operands share the gradient, PyTorch's is NaN",
    "copysign": "the gradient at infinity is a sign, PyTorch's is NaN",
    "logit": "the gradient beyond 0 and 1, where the value is NaN, is the formula's; PyTorch's is NaN",
    "xlogy": "the gradient by the other operand where both are 0 is 0, PyTorch's is NaN",
    "cov": "the sum of equal elements' distances may be 2^-40, PyTorch's is 0",
    "nn.functional.soft_margin_loss": "f16 is f32 rounded once; PyTorch computes in 16 bits",
    **dict.fromkeys(
        [
            f"nn.functional.{name}"
            for name in ("celu", "selu", "hardshrink", "softshrink", "hardtanh", "relu6", "margin_ranking_loss")
        ],
        _AT_NAN,
    ),
}


def judged(fixture: Fixture, sample: dict[str, Any], device: str) -> Verdict:
    """Carries out a sample and compares its results and gradients with PyTorch's."""
    if "no" in sample:
        return Verdict(REFUSED, sample["no"])
    name = sample["op"]
    try:
        arguments = Arguments(fixture, sample, device)
        outputs = flat(operation(name)(*arguments.positional, **arguments.keywords))
        # An index out of range is found on the device, and reported by the first wait.
        for output in outputs:
            values_of(output)
    except hlx.errors.Error as error:
        return Verdict(REFUSED, plain(str(error)))
    forward, gradient = bounds(name)
    try:
        _compare_results(fixture, sample, arguments, outputs, forward)
        if "d" in sample:
            _compare_gradients(fixture, sample, arguments, outputs, gradient)
    except Different as difference:
        rule = another_rule(name, sample, arguments)
        if (
            name in _COMPOSED_RULES
            and "gradient" in _COMPOSED_RULES[name]
            and not str(difference).startswith("gradient")
        ):
            rule = None
        return Verdict(DIFFERS, rule) if rule else Verdict(FAILED, str(difference))
    return Verdict(PASSED)


def flat(outputs: Any) -> list[hlx.Tensor]:
    """The results of an operation in a list."""
    if isinstance(outputs, hlx.Tensor):
        return [outputs]
    return [tensor for output in outputs for tensor in flat(output)]


def _compare_results(
    fixture: Fixture, sample: dict[str, Any], arguments: Arguments, outputs: list[hlx.Tensor], tolerance: Tolerance
) -> None:
    expected = sample["o"]
    if len(outputs) != len(expected):
        raise Different(f"{len(outputs)} results, expected {len(expected)}")
    open_places = sample["op"] in ("sort", "argsort", "topk", "kthvalue") and _names_the_values(
        sample["op"], arguments, outputs
    )
    for i, (found, wanted) in enumerate(zip(outputs, expected, strict=True)):
        try:
            compare(fixture, found, wanted, tolerance)
        except Different as difference:
            # PyTorch leaves the places of equal elements open.
            if not (open_places and i == len(outputs) - 1):
                raise Different(f"result {i} {difference}") from None


def _names_the_values(name: str, arguments: Arguments, outputs: list[hlx.Tensor]) -> bool:
    """Whether places name the values that they should: the ones beside them, or, of `argsort`, ones in order."""
    x, places = arguments.positional[0], outputs[-1]
    if places.numel() == 0:
        return True
    words = ("k", "dim", "keepdim") if name in ("topk", "kthvalue") else ("dim", "descending")
    given = dict(zip(words, arguments.positional[1:], strict=False))
    given.update(arguments.keywords)
    dim = given.get("dim", -1)
    if name == "kthvalue" and x.ndim and not given.get("keepdim", False):
        places = places.unsqueeze(dim)
    named = x.detach().gather(dim, places)
    if len(outputs) == 2:
        return numpy.array_equal(values_of(named), values_of(outputs[0]), equal_nan=True)
    rows = named.transpose(dim, -1).contiguous() if named.ndim else named.reshape(1)
    values = values_of(rows).reshape(-1, rows.shape[-1])
    before, after = values[:, :-1], values[:, 1:]
    if given.get("descending", False):
        before, after = after, before
    return bool(((before <= after) | numpy.isnan(after)).all())


def differentiated(sample: dict[str, Any], outputs: list[hlx.Tensor], device: str) -> None:
    """Goes backward from the upstream gradients of the fixture."""
    total = None
    for i, output in enumerate(outputs):
        if "seed" not in sample or not output.requires_grad:
            continue
        upstream = drawn((sample["seed"] + i) % 2**32, -1.0, 1.0, output.numel(), False).astype(numpy.float32)
        weights = hlx.tensor(upstream.reshape(output.shape), device=device)
        part = (output.float() * weights).sum()
        total = part if total is None else total + part
    if total is not None:
        total.backward()


def _compare_gradients(
    fixture: Fixture, sample: dict[str, Any], arguments: Arguments, outputs: list[hlx.Tensor], tolerance: Tolerance
) -> None:
    device = arguments.leaves[0].device if arguments.leaves else None
    try:
        differentiated(sample, outputs, device)  # type: ignore[arg-type]
    except hlx.errors.Error as error:
        raise Different(f"backward: {error}") from error
    if len(arguments.leaves) != len(sample["d"]):
        raise Different(f"{len(arguments.leaves)} leaves, expected {len(sample['d'])}")
    for i, (leaf, expected) in enumerate(zip(arguments.leaves, sample["d"], strict=True)):
        found = leaf.grad
        if (found is None) != (expected is None):
            raise Different(f"gradient {i} is {'missing' if found is None else 'there, PyTorch has none'}")
        if found is not None:
            if found.dtype != leaf.dtype:
                raise Different(f"gradient {i} has elements of {found.dtype}, expected {leaf.dtype}")
            try:
                # The fixture has gradients as f32, whatever the leaf is.
                compare(fixture, found.float(), expected, tolerance.rounded_to(NAMES[found.dtype]))
            except Different as difference:
                raise Different(f"gradient {i} {difference}") from None


def bits(fixture: Fixture, sample: dict[str, Any], device: str) -> list[bytes] | str:
    """The bits of a sample's results and gradients, NaN as one, or the refusal."""
    try:
        arguments = Arguments(fixture, sample, device)
        outputs = flat(operation(sample["op"])(*arguments.positional, **arguments.keywords))
        differentiated(sample, outputs, device)
        gradients = [leaf.grad for leaf in arguments.leaves if leaf.grad is not None]
        values = [values_of(tensor) for tensor in [*outputs, *gradients]]
    except hlx.errors.Error as error:
        return plain(str(error))
    return [numpy.where(numpy.isnan(value), numpy.nan, value).tobytes() for value in values]


def described(sample: dict[str, Any]) -> str:
    """A sample's operation, type and arguments, cut short."""
    return f"{sample['op']} of {sample['t']}: {sample.get('a')} {sample.get('k')}"[:400]


def elements(value: Any) -> int:
    """The elements of a sample's arguments and results."""
    if isinstance(value, list):
        return sum(elements(item) for item in value)
    if not isinstance(value, dict):
        return 0
    if "s" in value:
        return int(numpy.prod(value["s"], dtype=numpy.int64))
    return sum(elements(item) for item in value.values())


class Tally:
    """The verdicts of an operation's samples."""

    def __init__(self) -> None:
        """Begins with none."""
        self.kinds: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.differs: Counter[str] = Counter()

    def add(self, verdict: Verdict) -> None:
        """Counts one."""
        self.kinds[verdict.kind] += 1
        if verdict.kind == REFUSED:
            self.refused[verdict.reason] += 1
        if verdict.kind == DIFFERS:
            self.differs[verdict.reason] += 1


def chosen(fixture: Fixture, stride: int) -> list[int]:
    """Every `stride`-th sample, and the first of each operation."""
    first: dict[str, int] = {}
    for i, sample in enumerate(fixture.samples):
        if "no" not in sample:
            first.setdefault(sample["op"], i)
    return sorted({*range(0, len(fixture.samples), stride), *first.values()})
