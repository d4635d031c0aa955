"""Programs for PyTorch run on HLX as they are: `pytorch_programs.py` has them."""

import functools
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("numpy")
from pytorch_programs import PROGRAMS

import hlx

Program = Callable[[Any, Any], Any]


def course(program: Program, device: Any, state: Any = None) -> tuple[list[Any], str]:
    """The numbers of a program on HLX, and the digest of its model at the end."""
    hlx.manual_seed(3)
    running = program(hlx, device)
    model = next(running)
    if state is not None:
        model.load_state_dict(state)
    return list(running), model.digest()


@functools.cache
def on_the_cpu(program: Program) -> tuple[list[Any], str]:
    """What the CPU device has computed."""
    return course(program, "cpu")


def close(a: Any, b: Any) -> bool:
    """Whether numbers are PyTorch's, but for rounding that training has amplified."""
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b, strict=True))
    return a == b if isinstance(a, str) else abs(a - b) <= 1e-4 * max(1.0, abs(a))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_has_the_same_bits_everywhere(program: Program, device: hlx.device) -> None:
    """All its numbers and its weights at the end."""
    found = course(program, device)
    assert found == on_the_cpu(program)
    assert len(found[0]) >= 4


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_computes_what_it_computes_on_pytorch(program: Program) -> None:
    """From the same initial values, with the same data."""
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    running = program(torch, "cpu")
    state = {name: hlx.from_torch(tensor) for name, tensor in next(running).state_dict().items()}
    found, _ = course(program, "cpu", state)
    expected = list(running)
    assert close(expected, found), [pair for pair in zip(expected, found, strict=True) if not close(*pair)]
