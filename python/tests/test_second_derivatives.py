"""A sample of the second derivatives beside PyTorch's, where PyTorch is installed."""

import argparse
import warnings
from types import ModuleType

import pytest

import hlx

STRIDE = 23


@pytest.fixture(scope="module")
def judge() -> ModuleType:
    """The judge of all samples."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("expecttest", reason="expecttest, which PyTorch's samples need, is not installed")
    pytest.importorskip("scipy", reason="SciPy, which PyTorch's samples need, is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import judge_second_derivatives
    return judge_second_derivatives


def options(operation: str | None = None, stride: int = 1) -> argparse.Namespace:
    """What the judge reads from its command line."""
    return argparse.Namespace(device="cpu", operation=operation, stride=stride)


@pytest.mark.filterwarnings("ignore")
def test_no_sample_has_other_second_derivatives(judge: ModuleType) -> None:
    """One sample in some, and the first of each operation."""
    rows, _ = judge.judged(options(stride=STRIDE))
    assert [f"{row.name}: {row.failed}" for row in rows if row.failed] == []
    assert len(rows) > 290 and sum(row.passed for row in rows) > 400


@pytest.mark.filterwarnings("ignore")
def test_a_wrong_derivative_fails(judge: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge sees a first and a second derivative that are off, and one that is missing."""
    right = hlx.sigmoid
    (row,), _ = judge.judged(options("sigmoid"))
    assert row.passed == row.samples
    wrong = {
        "by a thousandth": lambda x: right(x) * 1.001,
        "cut off": lambda x: right(x.detach()) + (x - x.detach()),
        "in the second derivative alone": lambda x: right(x) + 0.01 * (x - x.detach()).square(),
    }
    for name, function in wrong.items():
        monkeypatch.setattr(hlx, "sigmoid", function)
        (row,), _ = judge.judged(options("sigmoid"))
        assert row.failed, name
