"""Compares HLX's second derivatives with PyTorch's, on PyTorch's own samples of its operations.

    python judge_second_derivatives.py [--device cpu] [--operation NAME] [--stride N] [--json FILE] [--page FILE]

For every operation of `op_db` (torch.testing._internal.common_methods_invocations) that has second derivatives in
PyTorch and a name in HLX, and each of its f32 `sample_inputs`: from outputs y(x), an upstream gradient u and a
direction v the gradients g = (dy/dx)^T u are computed with `create_graph=True`, then the gradients of <g, v> by x and
by u. PyTorch computes them in f64 from the same f32 numbers, HLX in f32.

A sample **passes** if the pattern of NaN and infinity is PyTorch's and every number differs by at most 1e-4 of
itself, 2e-5 of the largest among the sample's second derivatives, and 1e-5. It passes **by another rule** if only
HLX's zeros in the place of NaN differ, at points that docs/tensors.md names. It is **refused** if HLX returns an
error, which becomes the reason; otherwise it **fails**. Needs torch, numpy, scipy and expecttest.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
import types
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

import hlx

OF_VALUE, OF_LARGEST, ABSOLUTE = 1e-4, 2e-5, 1e-5
#: Operations whose second derivative at 0 is 0 in HLX, where PyTorch's is NaN (docs/tensors.md, "Special points").
ZERO_FOR_NAN = re.compile("norm$|^(std|atan2|pow|cdist|dist)$|normalize$|cosine")
#: Operations that draw random numbers, which differ between the libraries.
RANDOM = re.compile("bernoulli|dropout|fractional_max_pool|multinomial|^normal$|rrelu|_lowrank")
#: Properties of a tensor, which PyTorch samples as operations.
PROPERTIES = ("T", "mT", "H", "mH")

PAGE = """# Second derivatives beside PyTorch's

`python3 python/tests/judge_second_derivatives.py --page docs/second-derivatives.md` writes this page. The script says
how samples are compared, and [judges.md](judges.md) how it is run.

PyTorch {torch}, device {device}: {samples} samples of {n_operations} operations, {passed} passed,
{n_by_another_rule} by another rule, {failed} failed, {n_refused} refused. By another rule: {rule}
([special points](tensors.md#special-points)). {curved} samples have second derivatives by their inputs other than 0; of the
others the derivatives by the upstream gradient are compared.

"""
RULE = "the second derivative at a point such as the norm of zeros is 0, where PyTorch's is NaN"


@dataclass
class Row:
    """What became of the samples of one operation."""

    name: str
    passed: int = 0
    by_another_rule: int = 0
    refused: dict[str, int] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    #: Samples of which PyTorch has a second derivative by the inputs that is other than 0.
    curved: int = 0
    #: SHA-256 over the bits of all derivatives, to compare devices by.
    digest: str = ""

    @property
    def samples(self) -> int:
        """All samples, whatever became of them."""
        return self.passed + self.by_another_rule + sum(self.refused.values()) + len(self.failed)


class NotComparable(Exception):
    """A sample that PyTorch itself has no second derivatives for."""


def hlx_function(op: Any) -> Callable[..., Any] | None:
    """HLX's function of the name that PyTorch's operation has.

    Where PyTorch's sample is called through a function of its own, such as one with another order of arguments, that
    function is used with HLX in the place of `torch`.
    """
    if op.name in PROPERTIES:
        return lambda x: getattr(x, op.name)
    place: Any = hlx
    for part in op.name.split("."):
        place = getattr(place, part, None)
        if place is None:
            place = getattr(hlx.Tensor, op.name, None)
            break
    if place is not None and isinstance(op.op, types.FunctionType) and "_internal" in op.op.__module__:
        return types.FunctionType(op.op.__code__, {**op.op.__globals__, "torch": hlx}, closure=op.op.__closure__)
    return place


def is_random(op: Any, sample: Any) -> bool:
    """Whether a sample draws random numbers."""
    return bool(RANDOM.search(op.name)) or sample.kwargs.get("dropout_p", 0.0) > 0.0


def to_hlx(value: Any, device: str) -> Any:
    """An argument for HLX: tensors by their values, types by their names."""
    if isinstance(value, torch.dtype):
        return getattr(hlx, str(value).removeprefix("torch."))
    if callable(value):
        raise hlx.errors.TypeError("an argument is a function of PyTorch")
    if not isinstance(value, torch.Tensor):
        return value
    array = value.detach().contiguous().numpy()
    if value.dtype == torch.int64:
        narrow = array.astype(numpy.int32)
        if not numpy.array_equal(narrow, array):
            raise hlx.errors.ValueError("values past 32 bits")
        array = narrow
    return hlx.tensor(array, device=device, requires_grad=value.requires_grad)


def to_f64(value: Any) -> Any:
    """An argument for PyTorch in f64."""
    if not isinstance(value, torch.Tensor):
        return torch.float64 if value == torch.float32 else value
    wide = value.detach().clone(memory_format=torch.contiguous_format)
    wide = wide.double() if value.dtype == torch.float32 else wide
    return wide.requires_grad_(value.requires_grad)


def drawn(seed: int, shapes: list[tuple[int, ...]]) -> list[numpy.ndarray]:
    """Arrays of numbers from -1 to 1."""
    generator = numpy.random.Generator(numpy.random.PCG64(seed))
    return [generator.uniform(-1, 1, shape).astype(numpy.float32) for shape in shapes]


def second_derivatives(
    function: Callable[..., Any], arguments: tuple[Any, tuple, dict], tensor: type, grad: Callable[..., Any],
    made: Callable[[numpy.ndarray], Any], seed: int,
) -> list[numpy.ndarray | None]:  # fmt: skip
    """The gradients of <g, v> by the inputs x and by u, in PyTorch or in HLX."""
    x, args, kwargs = arguments
    outputs = function(x, *args, **kwargs)
    outputs = [outputs] if isinstance(outputs, tensor) else tree_leaves(outputs)
    outputs = [y for y in outputs if isinstance(y, tensor) and y.requires_grad]
    leaves = [t for t in tree_leaves((x, args, kwargs)) if isinstance(t, tensor) and t.requires_grad]
    if not outputs or not leaves:
        raise NotComparable
    shapes = [tuple(t.shape) for t in (*outputs, *leaves)]
    numbers = [made(values) for values in drawn(seed, shapes)]
    upstream = [u.requires_grad_() for u in numbers[: len(outputs)]]
    directions = numbers[len(outputs) :]
    first = grad(outputs, leaves, upstream, create_graph=True, allow_unused=True)
    pairs = [(g, v) for g, v in zip(first, directions, strict=True) if g is not None and g.requires_grad]
    wanted = leaves + upstream
    if not pairs:
        return [None] * len(wanted)
    found = grad([g for g, _ in pairs], wanted, [v for _, v in pairs], allow_unused=True)
    return [None if d is None else to_numpy(d) for d in found]


def to_numpy(tensor: Any) -> numpy.ndarray:
    """A tensor's elements in f64."""
    tensor = tensor.detach()
    return numpy.asarray(tensor.cpu() if isinstance(tensor, torch.Tensor) else tensor.to("cpu"), dtype=numpy.float64)


def in_f32(expected: numpy.ndarray) -> numpy.ndarray:
    """What f32 holds of PyTorch's result: numbers beyond its range are infinite, tiny ones 0."""
    with numpy.errstate(over="ignore", invalid="ignore"):
        return expected.astype(numpy.float32).astype(numpy.float64)


def difference(found: numpy.ndarray | None, expected: numpy.ndarray | None, largest: float) -> str | None:
    """What differs between two derivatives; None of them counts as zeros."""
    if expected is None and found is None:
        return None
    expected = numpy.zeros_like(found) if expected is None else in_f32(expected)
    found = numpy.zeros_like(expected) if found is None else found
    if found.shape != expected.shape:
        return f"has shape {list(found.shape)}, expected {list(expected.shape)}"
    with numpy.errstate(invalid="ignore"):
        allowed = OF_VALUE * numpy.abs(expected) + OF_LARGEST * largest + ABSOLUTE
        equal = (found == expected) | (numpy.isnan(found) & numpy.isnan(expected))
        wrong = ~(equal | (numpy.abs(found - expected) <= allowed))
    if not wrong.any():
        return None
    place = tuple(int(i) for i in numpy.argwhere(wrong)[0])
    return f"element {list(place)} is {found[place]:.7g}, expected {expected[place]:.7g}"


def first_difference(found: list[numpy.ndarray | None], expected: list[numpy.ndarray | None]) -> str | None:
    """What differs first between two lists of derivatives."""
    numbers = [numpy.abs(in_f32(e)) for e in expected if e is not None]
    largest = max((float(n[numpy.isfinite(n)].max(initial=0.0)) for n in numbers), default=0.0)
    differences = (difference(f, e, largest) for f, e in zip(found, expected, strict=True))
    return next((text for text in differences if text), None)


def chained(digest: str, found: list[numpy.ndarray | None]) -> str:
    """A digest that goes on over the f32 bits of derivatives; all NaN count as one."""
    sha = hashlib.sha256(digest.encode())
    for values in found:
        numbers = numpy.zeros(0) if values is None else numpy.where(numpy.isnan(values), numpy.nan, values)
        sha.update(numbers.astype(numpy.float32).tobytes())
    return sha.hexdigest()


def without_nan(found: list[numpy.ndarray | None], expected: list[numpy.ndarray | None]) -> list[numpy.ndarray | None]:
    """PyTorch's derivatives with 0 for NaN where HLX has 0."""
    pairs = zip(found, expected, strict=True)
    return [e if e is None or f is None else numpy.where(numpy.isnan(e) & (f == 0), 0.0, e) for f, e in pairs]


def shortened(error: BaseException) -> str:
    """An error's line with N for numbers and [..] for lists."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    line = re.sub(r"\[[^\]]*\]|\((?:\d+, ?)*\d*,?\)", "[..]", line)
    return re.sub(r"(?<![A-Za-z_0-9])-?\d+(\.\d+)?(e-?\d+)?", "N", line)


def judge(op: Any, function: Callable[..., Any], sample: Any, device: str, seed: int, row: Row) -> None:
    """Compares one sample and counts it."""
    # HLX has one memory format.
    kwargs = {name: value for name, value in sample.kwargs.items() if name != "memory_format"}
    arguments = (sample.input, tuple(sample.args), kwargs)
    try:
        expected = second_derivatives(
            op.op, tree_map(to_f64, arguments), torch.Tensor, torch.autograd.grad,
            lambda values: torch.from_numpy(values).double(), seed,
        )  # fmt: skip
    except (RuntimeError, ValueError, NotImplementedError, NotComparable):
        return
    try:
        found = second_derivatives(
            function, tree_map(lambda value: to_hlx(value, device), arguments), hlx.Tensor, hlx.autograd.grad,
            lambda values: hlx.tensor(values, device=device), seed,
        )  # fmt: skip
    except NotComparable:
        # A result without a gradient has derivatives of zeros.
        found = [None] * len(expected)
    except (hlx.errors.Error, TypeError, AttributeError, NotImplementedError) as error:
        reason = shortened(error)
        row.refused[reason] = row.refused.get(reason, 0) + 1
        return
    except (ArithmeticError, AssertionError, LookupError, RuntimeError, ValueError) as error:
        # Every error that HLX means is one of its own.
        row.failed.append(f"sample {seed:08x}: {type(error).__name__}: {shortened(error)}")
        return
    row.digest = chained(row.digest, found)
    n_leaves = sum(isinstance(t, torch.Tensor) and t.requires_grad for t in tree_leaves(arguments))
    row.curved += any(e is not None and bool(e.any()) for e in expected[:n_leaves])
    wrong = first_difference(found, expected)
    if wrong is None:
        row.passed += 1
    elif ZERO_FOR_NAN.search(op.name) and first_difference(found, without_nan(found, expected)) is None:
        row.by_another_rule += 1
    else:
        row.failed.append(f"sample {seed:08x}: {wrong}")


def samples_of(op: Any) -> Iterator[Any]:
    """PyTorch's samples of an operation, the same ones on each call."""
    torch.manual_seed(zlib.crc32(op.name.encode()))
    numpy.random.seed(zlib.crc32(op.name.encode()))
    yield from op.sample_inputs("cpu", torch.float32, requires_grad=True)


def judged(options: argparse.Namespace) -> tuple[list[Row], list[str]]:
    """The rows of all operations, and the names that HLX does not have."""
    rows, missing = [], []
    for op in op_db:
        full_name = op.name + (f"/{op.variant_test_name}" if op.variant_test_name else "")
        if not op.supports_gradgrad or torch.float32 not in op.dtypes:
            continue
        if options.operation and options.operation not in (op.name, full_name):
            continue
        function = hlx_function(op)
        if not callable(function):
            missing.append(full_name)
            continue
        row = Row(full_name)
        for i, sample in enumerate(samples_of(op)):
            if i % options.stride == 0 and not is_random(op, sample):
                judge(op, function, sample, options.device, zlib.crc32(f"{full_name} {i}".encode()), row)
        if row.samples:
            rows.append(row)
            if row.failed:
                print(f"{full_name}: {len(row.failed)} failed, {row.failed[0]}", flush=True)
    return rows, sorted(missing)


def table(rows: list[Row]) -> str:
    """The rows as a table of Markdown."""
    lines = [
        "| PyTorch | samples | passed | by another rule | failed | refused | why |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: row.name):
        why = "; ".join(f"{n}: {reason}" for reason, n in sorted(row.refused.items()))
        lines.append(
            f"| `{row.name}` | {row.samples} | {row.passed} | {row.by_another_rule} | {len(row.failed)} "
            f"| {sum(row.refused.values())} | {why} |"
        )
    return "\n".join(lines) + "\n"


def report(rows: list[Row], missing: list[str], options: argparse.Namespace) -> dict[str, Any]:
    """The counts over all operations, and the rows."""
    refused: Counter[str] = Counter()
    for row in rows:
        refused.update(row.refused)
    by_another_rule = sum(row.by_another_rule for row in rows)
    return {
        "suite": "second-derivatives",
        "torch": torch.__version__.split("+")[0],
        "device": options.device,
        "stride": options.stride,
        "samples": sum(row.samples for row in rows),
        "curved": sum(row.curved for row in rows),
        "passed": sum(row.passed for row in rows),
        "failed": sum(len(row.failed) for row in rows),
        "by_another_rule": {RULE: by_another_rule} if by_another_rule else {},
        "refused": dict(refused.most_common()),
        "operations": [row.__dict__ for row in rows],
        "missing": missing,
        "digest": hashlib.sha256("".join(row.digest for row in rows).encode()).hexdigest(),
    }


def main() -> int:
    """Reads the arguments, judges all samples and prints a summary; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--operation")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows, missing = judged(options)
    found = report(rows, missing, options)
    print(f"{found['samples']} samples of {len(rows)} operations of PyTorch {found['torch']} on {options.device}")
    print(f"  {found['curved']} have second derivatives by their inputs other than 0")
    for rule, n in found["by_another_rule"].items():
        print(f"  {n} by another rule: {rule}")
    print(f"second-derivatives: {found['passed']} passed, {found['failed']} failed")
    for reason, n in found["refused"].items():
        print(f"  {n} refused: {reason}")
    print(f"  the bits: {found['digest']}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    if options.page:
        counts = {"n_operations": len(rows), "n_refused": sum(found["refused"].values()), "rule": RULE}
        counts["n_by_another_rule"] = sum(found["by_another_rule"].values())
        options.page.write_text(PAGE.format(**found, **counts) + table(rows))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
