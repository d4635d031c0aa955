"""PyTorch's samples through the package: one in seven and the first of each operation, or all (`--all-samples`)."""

import pytest
from pytorch_samples.fixture import COMPOSED, PATH, Fixture
from pytorch_samples.judge import DIFFERS, FAILED, PASSED, REFUSED, bits, chosen, described, elements, judged

import hlx

STRIDE = 7
#: On Vulkan no sample of more elements is carried out: software drivers take long for them.
VULKAN_ELEMENTS = 1024
#: Of all samples of a fixture, at least these pass.
PASSED_OF_ALL = {PATH: 28_685, COMPOSED: 24_071}

pytestmark = pytest.mark.skipif(not PATH.exists(), reason="the samples are in the repository alone")


@pytest.fixture(scope="module", params=[PATH, COMPOSED], ids=lambda path: path.stem)
def fixture(request: pytest.FixtureRequest) -> Fixture:
    """The samples of the operations in Rust, and of those that are composed of them."""
    return Fixture(request.param)


def test_samples_pass_or_are_refused(fixture: Fixture, pytestconfig: pytest.Config) -> None:
    """No sample has another result than PyTorch's, unless the judge names the rule."""
    everything = pytestconfig.getoption("--all-samples")
    counts = dict.fromkeys((PASSED, REFUSED, DIFFERS, FAILED), 0)
    failures = []
    for i in chosen(fixture, 1 if everything else STRIDE):
        verdict = judged(fixture, fixture.samples[i], "cpu")
        counts[verdict.kind] += 1
        if verdict.kind == FAILED:
            failures.append(f"sample {i}, {described(fixture.samples[i])}: {verdict.reason}")
    assert not failures, f"{len(failures)} samples differ:\n" + "\n".join(failures[:40])
    if everything:
        assert counts[PASSED] >= PASSED_OF_ALL[fixture.path], counts


def test_every_operation_has_a_sample_that_passes(fixture: Fixture) -> None:
    """Each operation of the samples is there: one of its samples passes, unless all need float64."""
    samples_of: dict[str, list[int]] = {}
    for i, sample in enumerate(fixture.samples):
        if "no" not in sample:
            samples_of.setdefault(sample["op"], []).append(i)
    assert len(samples_of) > 150
    missing = []
    for name, samples in samples_of.items():
        verdicts = (judged(fixture, fixture.samples[i], "cpu") for i in samples)
        if not any(verdict.kind == PASSED for verdict in verdicts):
            missing.append(name)
    assert not missing


def test_vulkan_has_the_cpus_bits(fixture: Fixture, vulkan: hlx.device) -> None:
    """The first sample of each operation, if it is small."""
    for i in chosen(fixture, len(fixture.samples)):
        sample = fixture.samples[i]
        if "no" not in sample and elements([sample.get(part) for part in "ako"]) <= VULKAN_ELEMENTS:
            here, there = bits(fixture, sample, "cpu"), bits(fixture, sample, str(vulkan))
            assert here == there, described(sample)


def test_a_wrong_result_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge sees a result and a gradient that are off."""
    fixture = Fixture(PATH)
    i = next(i for i, sample in enumerate(fixture.samples) if sample["op"] == "exp" and "seed" in sample)
    right = hlx.exp
    assert judged(fixture, fixture.samples[i], "cpu").kind == PASSED
    monkeypatch.setattr(hlx, "exp", lambda x: right(x) * 1.00001)
    assert "result 0 element" in judged(fixture, fixture.samples[i], "cpu").reason
    monkeypatch.setattr(hlx, "exp", lambda x: right(x) + (x - x.detach()))
    assert "gradient 0 element" in judged(fixture, fixture.samples[i], "cpu").reason
