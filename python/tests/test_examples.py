"""The examples run, and say what to do without a Vulkan device."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from shaders import EXAMPLES

FOLDER = EXAMPLES / "python"
NAMES = ["gemm.py", "conv2d.py", "inference.py"]


def run(example: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs an example from another folder than its own."""
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), **environment}
    command = [sys.executable, str(FOLDER / example), *arguments]
    return subprocess.run(command, cwd=Path("/"), env=variables, capture_output=True, text=True, check=False)


def test_every_example_is_in_the_list():
    """A new example is tested, too."""
    assert sorted(path.name for path in FOLDER.glob("*.py")) == sorted(NAMES)


@pytest.mark.parametrize("example", NAMES)
def test_an_example_runs_on_a_vulkan_device(example, vulkan):
    """It ends without an error, after it has compared its bits with those of the CPU."""
    arguments = {"gemm.py": [str(vulkan), "48"], "conv2d.py": [str(vulkan)], "inference.py": ["cpu", str(vulkan)]}
    done = run(example, *arguments[example])
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    if example == "inference.py":
        cpu, vulkan = (line.split()[0] for line in lines)
        assert cpu == vulkan and "[cpu]" in lines[0] and "[vulkan:" in lines[1]
    else:
        assert "on the CPU" in lines[-1] and lines[-1].startswith("digest  ")


@pytest.mark.parametrize("example", NAMES)
def test_an_example_says_what_to_do_without_vulkan(example):
    """With no driver."""
    done = run(example, VK_ICD_FILENAMES="/none", VK_DRIVER_FILES="/none")
    if example == "inference.py":
        assert done.returncode == 0 and "only on the CPU: VulkanContext: " in done.stdout
    else:
        assert done.returncode == 1 and "it needs a Vulkan driver" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("example", ["gemm.py", "conv2d.py"])
def test_an_example_refuses_the_cpu_in_words(example):
    """Those that are nothing but a shader."""
    done = run(example, "cpu")
    assert done.returncode == 1 and done.stderr.startswith("The CPU device runs no SPIR-V")
