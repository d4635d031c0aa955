"""PyTorch's samples of its modules through `hlx.nn`: all on the CPU, one in eleven and the first of each on Vulkan."""

from collections import Counter

import pytest
from pytorch_samples.fixture import Fixture
from pytorch_samples.judge import FAILED, PASSED, chosen
from pytorch_samples.modules import PATH, judged

import hlx

STRIDE = 11

pytestmark = pytest.mark.skipif(not PATH.exists(), reason="the samples are in the repository alone")


@pytest.fixture(scope="module")
def fixture() -> Fixture:
    """The samples."""
    return Fixture(PATH)


def test_samples_pass(fixture: Fixture, device: hlx.device) -> None:
    """Results, buffers and gradients are PyTorch's, and no sample is refused."""
    counts: Counter[str] = Counter()
    others = []
    for i in chosen(fixture, 1 if device.type == "cpu" else STRIDE):
        sample = fixture.samples[i]
        verdict = judged(fixture, sample, str(device))
        counts[verdict.kind] += 1
        if verdict.kind != PASSED:
            others.append(f"sample {i}, {sample['op']} {sample['k']}: {verdict.kind}, {verdict.reason}"[:300])
    assert not others, f"{len(others)} samples:\n" + "\n".join(others[:40])
    assert counts[PASSED] >= (396 if device.type == "cpu" else 60), counts


def test_a_wrong_result_fails(fixture: Fixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge sees a result, a buffer and a gradient that are off."""
    i = next(i for i, sample in enumerate(fixture.samples) if sample["op"] == "BatchNorm2d" and sample["train"])
    assert judged(fixture, fixture.samples[i], "cpu").kind == PASSED
    right = hlx.nn.functional.batch_norm
    wrong = {
        "result 0 element": lambda *args: right(*args) * 1.0001,
        "running_mean element": lambda x, mean, *args: right(x, None if mean is None else mean.mul_(1.01), *args),
        "the gradient of": lambda x, *args: right(x * 2 - x.detach(), *args),
    }
    for message, function in wrong.items():
        monkeypatch.setattr(hlx.nn.functional, "batch_norm", function)
        verdict = judged(fixture, fixture.samples[i], "cpu")
        assert verdict.kind == FAILED and message in verdict.reason
