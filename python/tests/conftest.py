"""Devices under test, as for the tests in Rust: docs/testing.md.

`HLX_TEST_DEVICES` is `all` (the CPU device and every Vulkan device found), `cpu`, or `vulkan` (as `all`, but it is
an error if there is no Vulkan device). `HLX_TEST_REPORT` names a file to which each test appends the devices it
ran on; `cargo xtask python` prints a summary of its lines.
"""

import functools
import os
from collections.abc import Iterator

import pytest

import hlx


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options of the package's tests."""
    parser.addoption("--all-samples", action="store_true", help="carry out all of PyTorch's samples")


@functools.cache
def devices_under_test() -> list[str]:
    """The names of the devices under test, the CPU first."""
    chosen = os.environ.get("HLX_TEST_DEVICES") or "all"
    if chosen not in ("all", "cpu", "vulkan"):
        raise pytest.UsageError(f"HLX_TEST_DEVICES is {chosen}, expected all, cpu or vulkan")
    vulkan = [] if chosen == "cpu" else list(vulkan_devices())
    if chosen == "vulkan" and not vulkan:
        raise pytest.UsageError("HLX_TEST_DEVICES is vulkan, but no Vulkan device was found")
    return ["cpu", *vulkan]


def vulkan_devices() -> Iterator[str]:
    """The names of the Vulkan devices that can be opened."""
    for index in range(16):
        name = f"vulkan:{index}"
        try:
            hlx.device(name).hardware  # noqa: B018 (opens the device)
        except hlx.Error:
            return
        yield name


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test that takes `device` once per device under test, and one that takes `vulkan` on the Vulkan devices."""
    if "device" in metafunc.fixturenames:
        metafunc.parametrize("device", devices_under_test(), indirect=True)
    if "vulkan" in metafunc.fixturenames:
        metafunc.parametrize("vulkan", devices_under_test()[1:], indirect=True)


@pytest.fixture
def device(request: pytest.FixtureRequest) -> hlx.device:
    """A device under test."""
    return _noted(request)


@pytest.fixture
def vulkan(request: pytest.FixtureRequest) -> hlx.device:
    """A Vulkan device under test."""
    return _noted(request)


def _noted(request: pytest.FixtureRequest) -> hlx.device:
    found = hlx.device(request.param)
    report = os.environ.get("HLX_TEST_REPORT")
    if report:
        fields = ("ran", request.node.path.stem, request.node.name, request.param, found.hardware)
        with open(report, "a", encoding="utf-8") as file:
            file.write("\t".join(fields) + "\n")
    return found


@pytest.fixture(autouse=True)
def _fresh_generator() -> None:
    """Gives every test the same draws, whichever ran before."""
    hlx.manual_seed(0)
