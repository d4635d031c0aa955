"""Carries out PyTorch's samples of modules (`pytorch_modules.bin`) by `hlx.nn`, and judges the results."""

from pathlib import Path
from typing import Any

import hlx

from .arguments import Arguments, made
from .compare import Different, Tolerance, compare, values_of
from .fixture import Fixture
from .judge import FAILED, PASSED, REFUSED, Verdict, differentiated, flat, plain

PATH = Path(__file__).parents[3] / "crates/hlx-nn/tests/fixtures/pytorch_modules.bin"
FORWARD = Tolerance(2e-6, 1e-6, 5e-7)
#: Normalised values are differences of values of about 1.
GRADIENT = Tolerance(1e-5, 2e-6, 5e-6)


def judged(fixture: Fixture, sample: dict[str, Any], device: str) -> Verdict:
    """Carries out a sample and compares results, buffers and gradients with PyTorch's."""
    if "no" in sample:
        return Verdict(REFUSED, sample["no"])
    given = {"a": [sample["a"][name] for name in sample["in"]], "k": sample["k"]}
    arguments = Arguments(fixture, given, device)
    try:
        module = getattr(hlx.nn, sample["op"])(**arguments.keywords).to(device)
        module.train(sample["train"]).load_state_dict(state(fixture, sample, device))
        outputs = flat(module(**dict(zip(sample["in"], arguments.positional, strict=True))))
        for output in outputs:
            values_of(output)
    except hlx.errors.Error as error:
        return Verdict(REFUSED, plain(str(error)))
    try:
        compared(fixture, sample, module, arguments.leaves, outputs, device)
    except Different as difference:
        return Verdict(FAILED, str(difference))
    return Verdict(PASSED)


def state(fixture: Fixture, sample: dict[str, Any], device: str) -> dict[str, hlx.Tensor]:
    """The values of parameters and buffers."""
    found = {}
    for name, entry in sample["p"].items():
        values, _ = fixture.array(entry)
        found[name] = made(fixture, values, entry["t"], device)
    return found


def compared(
    fixture: Fixture,
    sample: dict[str, Any],
    module: hlx.nn.Module,
    inputs: list[hlx.Tensor],
    outputs: list[hlx.Tensor],
    device: str,
) -> None:
    """Raises `Different` unless all is PyTorch's."""
    buffers = dict(module.named_buffers())
    pairs = [(f"result {i}", found, wanted) for i, (found, wanted) in enumerate(zip(outputs, sample["o"], strict=True))]
    pairs += [(name, buffers[name], wanted) for name, wanted in sample["b"].items()]
    for name, found, wanted in pairs:
        _compared(fixture, name, found, wanted, FORWARD)
    if "d" not in sample:
        return
    try:
        differentiated(sample, outputs, device)
    except hlx.errors.Error as error:
        raise Different(f"backward: {error}") from error
    parameters = dict(module.named_parameters())
    leaves = {f"input {i}": leaf for i, leaf in enumerate(inputs)} | {
        name: parameters[name] for name in sample["names"]
    }
    for (name, leaf), wanted in zip(leaves.items(), sample["d"], strict=True):
        if (leaf.grad is None) != (wanted is None):
            raise Different(f"the gradient of {name} is {leaf.grad}, expected {wanted}")
        if leaf.grad is not None:
            _compared(fixture, f"the gradient of {name}", leaf.grad, wanted, GRADIENT)


def _compared(fixture: Fixture, name: str, found: hlx.Tensor, wanted: dict[str, Any], tolerance: Tolerance) -> None:
    try:
        compare(fixture, found, wanted, tolerance)
    except Different as difference:
        raise Different(f"{name} {difference}") from None
