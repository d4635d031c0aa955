"""Schedulers beside PyTorch's, whose rates are a fixture (pytorch_schedulers/make.py), and what they refuse."""

import json
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
from pytorch_schedulers import cases

import hlx
from hlx.optim import lr_scheduler
from hlx.optim.lr_scheduler._arithmetic import cos_pi, power

FIXTURE = json.loads((Path(__file__).parent / "pytorch_schedulers/rates.json").read_text(encoding="utf-8"))


class Still(hlx.optim.Optimizer):
    """An optimizer whose step leaves the parameters as they are."""

    def step(self, closure: Any = None) -> None:
        """Does nothing."""


def still(rates: tuple[float, ...] = cases.RATES) -> Still:
    """An optimizer with a group per rate."""
    groups = [{"params": [hlx.zeros(1, requires_grad=True)], "lr": rate} for rate in rates]
    return Still(groups, {"lr": 1.0, "momentum": 0.5})


def test_every_scheduler_is_compared() -> None:
    """A new scheduler needs a case, and a case the fixture."""
    assert list(FIXTURE)[1:] == list(cases.CASES)
    compared = {name.split()[0] for name in cases.CASES}
    assert compared == set(lr_scheduler.__all__) - {"LRScheduler"}


@pytest.mark.parametrize("name", cases.CASES)
def test_rates_are_those_of_pytorch(name: str) -> None:
    """At every step, for both groups."""
    expected, found = FIXTURE[name], cases.rates(cases.CASES[name], lr_scheduler, still())
    assert found.keys() == expected.keys()
    for series, of_pytorch in zip(found["rates"], expected["rates"], strict=True):
        assert series == pytest.approx(of_pytorch, rel=1e-11, abs=1e-15)
        assert len(set(series)) > 1
    if "momentum" in expected:
        assert found["momentum"] == pytest.approx(expected["momentum"], rel=1e-11)


@pytest.mark.parametrize("name", cases.CASES)
def test_a_scheduler_goes_on_from_its_state_dict(name: str) -> None:
    """A second scheduler with the states of the first at step 33 sets the same rates, word by word."""
    value = cases.LOSSES

    def step(scheduler: Any, optimizer: Still, at: int) -> list[float]:
        optimizer.step()
        scheduler.step(value[at]) if isinstance(scheduler, lr_scheduler.ReduceLROnPlateau) else scheduler.step()
        return [group["lr"] for group in optimizer.param_groups] + [optimizer.param_groups[0]["momentum"]]

    first, second = still(), still()
    whole, resumed = (cases.CASES[name](lr_scheduler, optimizer) for optimizer in (first, second))
    for at in range(33):
        step(whole, first, at)
    saved = pickle.loads(pickle.dumps(picklable((whole.state_dict(), first.state_dict()))))
    resumed.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    assert [step(resumed, second, at) for at in range(33, 90)] == [step(whole, first, at) for at in range(33, 90)]


def picklable(value: Any) -> Any:
    """A state dict without functions: it has none."""
    if isinstance(value, dict):
        return {key: picklable(one) for key, one in value.items()}
    assert not callable(value)
    return value


def test_a_state_dict_has_the_attributes_of_callable_objects_and_no_functions() -> None:
    """As PyTorch's LambdaLR."""

    class Scale:
        def __init__(self, by: float) -> None:
            self.by = by

        def __call__(self, epoch: int) -> float:
            return self.by

    scheduler = lr_scheduler.LambdaLR(still(), [Scale(0.5), lambda epoch: 1.0])
    assert scheduler.state_dict()["lr_lambdas"] == [{"by": 0.5}, None]
    other = lr_scheduler.LambdaLR(still(), [Scale(0.1), lambda epoch: 1.0])
    other.load_state_dict(scheduler.state_dict())
    assert other.lr_lambdas[0].by == 0.5


@pytest.mark.parametrize(
    "name", ["StepLR", "MultiStepLR", "LinearLR", "ExponentialLR", "CosineAnnealingLR", "PolynomialLR"]
)
def test_a_step_to_an_epoch_has_the_rate_of_that_epoch(name: str) -> None:
    """By the formula of the epoch alone."""
    optimizer = still()
    scheduler = cases.CASES[name](lr_scheduler, optimizer)
    optimizer.step()
    scheduler.step(57)
    expected = [series[57] for series in FIXTURE[name]["rates"]]
    assert scheduler.get_last_lr() == pytest.approx(expected, rel=1e-9)


def test_warm_restarts_take_parts_of_epochs() -> None:
    """As PyTorch's example: epoch + batch / batches."""
    optimizer = still()
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 10, 2)
    scheduler.step(32.5)
    assert (scheduler.T_cur, scheduler.T_i, scheduler.last_epoch) == (2.5, 40, 32)
    expected = [rate * (1 + math.cos(math.pi * 2.5 / 40)) / 2 for rate in cases.RATES]
    assert scheduler.get_last_lr() == pytest.approx(expected)


def test_a_scheduler_before_the_optimizer_warns() -> None:
    """The first rate would be skipped."""
    optimizer = still()
    scheduler = lr_scheduler.StepLR(optimizer, 3)
    with pytest.warns(UserWarning, match="before the optimizer's step"):
        scheduler.step()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.StepLR(o, 0), "StepLR: step_size is 0, expected a whole number above 0"),
        (lambda o: lr_scheduler.StepLR(None, 1), "StepLR: optimizer is NoneType, expected an hlx.optim.Optimizer"),
        (lambda o: lr_scheduler.StepLR(o, 1, last_epoch=3), "StepLR: group 0 has no initial_lr"),
        (lambda o: lr_scheduler.LinearLR(o, 0.0), "LinearLR: start_factor is 0.0, expected more than 0 and at most 1"),
        (lambda o: lr_scheduler.ConstantLR(o, 2.0), "ConstantLR: factor is 2.0, expected more than 0"),
        (lambda o: lr_scheduler.LambdaLR(o, [abs]), "LambdaLR: lr_lambda has 1 functions, expected one for each of 2"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1), "OneCycleLR: total_steps is missing"),
        (
            lambda o: lr_scheduler.CyclicLR(o, 0.1, 1.0, mode="square"),
            "CyclicLR: mode is 'square', expected triangular",
        ),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), "ReduceLROnPlateau: factor is 1.0, expected less"),
        (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]), "SequentialLR: 1 milestones for 1"),
        (lambda o: lr_scheduler.ChainedScheduler([]), "ChainedScheduler: schedulers is empty"),
    ],
)
def test_what_a_scheduler_refuses(make: Any, message: str) -> None:
    """In one line."""
    with pytest.raises(hlx.Error) as caught:
        make(still())
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_cycle_is_not_stepped_past_its_end() -> None:
    """As PyTorch."""
    optimizer = still()
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3)
    optimizer.step()
    for _ in range(3):
        scheduler.step()
    with pytest.raises(hlx.errors.ValueError, match="OneCycleLR: step is 4, expected at most total_steps=3"):
        scheduler.step()


def test_cosines_and_powers_do_not_use_the_system() -> None:
    """They are within one rounding of the C library's, and stated here by their bits."""
    for place in range(-50, 400):
        assert cos_pi(place, 37) == pytest.approx(math.cos(math.pi * place / 37), abs=1e-13)
        assert power(0.97, place / 3 + 20) == pytest.approx(0.97 ** (place / 3 + 20), rel=1e-13)
    assert [cos_pi(n, 2) for n in range(5)] == [1.0, 0.0, -1.0, 0.0, 1.0]
    assert cos_pi(1, 3) == 0.5 and cos_pi(1, 4) == math.sqrt(0.5)
    assert cos_pi(1, 7).hex() == "0x1.cd4bca9cb5c71p-1"
    assert power(0.9, 0.9).hex() == "0x1.d1ae40f9d88d8p-1"


RESUMED: dict[str, Any] = {
    "StepLR": lambda m, o, n: m.StepLR(o, 7, 0.8, last_epoch=n),
    "MultiStepLR": lambda m, o, n: m.MultiStepLR(o, [3, 20, 20], 0.5, last_epoch=n),
    "ConstantLR": lambda m, o, n: m.ConstantLR(o, 0.25, 12, last_epoch=n),
    "LinearLR": lambda m, o, n: m.LinearLR(o, 0.1, 0.7, 60, last_epoch=n),
    "ExponentialLR": lambda m, o, n: m.ExponentialLR(o, 0.97, last_epoch=n),
    "CosineAnnealingLR": lambda m, o, n: m.CosineAnnealingLR(o, 40, 0.001, last_epoch=n),
    "PolynomialLR": lambda m, o, n: m.PolynomialLR(o, 120, 0.9, last_epoch=n),
    "LambdaLR": lambda m, o, n: m.LambdaLR(o, lambda t: 1 / (1 + t), last_epoch=n),
    "MultiplicativeLR": lambda m, o, n: m.MultiplicativeLR(o, lambda t: 0.9, last_epoch=n),
    "CyclicLR": lambda m, o, n: m.CyclicLR(o, 0.01, 0.1, 12, cycle_momentum=False, last_epoch=n),
    "CosineAnnealingWarmRestarts": lambda m, o, n: m.CosineAnnealingWarmRestarts(o, 10, 2, last_epoch=n),
}


@pytest.mark.parametrize("name", RESUMED)
def test_a_last_epoch_is_continued_as_in_pytorch(name: str) -> None:
    """From `initial_lr` and the rate that an optimizer's state dict has."""
    torch = pytest.importorskip("torch")
    for last_epoch in (0, 5, 6, 11, 19, 39, 41):
        series = []
        for module, library in ((lr_scheduler, hlx), (torch.optim.lr_scheduler, torch)):
            group = {"params": [library.zeros(1, requires_grad=True)], "lr": 0.05, "initial_lr": 0.1}
            optimizer = library.optim.SGD([group], lr=1.0, momentum=0.5)
            scheduler = RESUMED[name](module, optimizer, last_epoch)
            rates = []
            for _ in range(30):
                rates.append(float(scheduler.get_last_lr()[0]))
                group["params"][0].grad = library.zeros(1)
                optimizer.step()
                scheduler.step()
            series.append(rates)
        assert series[0] == pytest.approx(series[1], rel=1e-11, abs=1e-15)
