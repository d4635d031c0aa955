"""Runs tinygrad's test of its operations with HLX in the place of PyTorch, its reference.

    python judge_tinygrad.py FOLDER [--device cpu] [--reference hlx|torch] [--json FILE] [-- OPTIONS OF PYTEST]

FOLDER is a checkout of github.com/tinygrad/tinygrad. Its `test_ops.py` computes each operation and its gradients
with tinygrad and with the module that `import torch` finds, here `hlx`, and compares both. tinygrad itself
computes on its CPU device, for which it needs clang (`CC` names another one).

A test **passes** if all of its comparisons do. It is **refused** if HLX has no such name or returns an error, which
becomes the reason. Otherwise it **fails**. Needs pytest and numpy.
"""

from __future__ import annotations

import argparse
import builtins
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

TEST = ("test/backend/test_ops.py", "test/test_ops.py")


def shortened(message: str) -> str:
    """The beginning of an error in one line, with N for numbers and [..] for lists."""
    line = " ".join(message.split())
    line = re.sub(r"\[[^\]]*\]|\((?:\d+, ?)*\d*,?\)", "[..]", line)
    return re.sub(r"(?<![A-Za-z_0-9])-?\d+(\.\d+)?(e-?\d+)?", "N", line)[:160]


def name_of(item: pytest.Item) -> str:
    """The class and the name of a test."""
    return item.nodeid.split("::", 1)[-1].replace("::", ".")


class Results:
    """A plugin of pytest that keeps the worst outcome of each test."""

    def __init__(self, reference: ModuleType) -> None:
        """`reference` is the module in the place of PyTorch."""
        self.reference = reference.__name__
        self.error = reference.errors.Error if reference.__name__ == "hlx" else ()
        self.outcomes: dict[str, tuple[str, str]] = {}

    def judged(self, value: BaseException, frames: list[str]) -> tuple[str, str]:
        """The outcome that an exception means, and its reason."""
        if "helper_test_exception" in frames and isinstance(value, self.error or ()):
            return "refused", f"an error of another type than PyTorch's: {type(value).__name__}"
        missing = isinstance(value, AttributeError) and "hlx" in str(value)
        unknown = isinstance(value, builtins.TypeError) and "unexpected keyword" in str(value)
        if isinstance(value, self.error or ()) or missing or unknown:
            return "refused", shortened(str(value))
        return "failed", f"{type(value).__name__}: {' '.join(str(value).split())[:300]}"

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo):
        """Counts a test or subtest that has ended."""
        report = yield
        if report.skipped:
            self.outcomes.setdefault(name_of(item), ("skipped", "by the suite"))
        elif call.excinfo is not None:
            frames = [entry.name for entry in call.excinfo.traceback]
            found = self.judged(call.excinfo.value, frames)
            if self.outcomes.get(name_of(item), ("", ""))[0] != "failed":
                self.outcomes[name_of(item)] = found
        elif report.when == "call":
            self.outcomes.setdefault(name_of(item), ("passed", ""))
        return report

    def summary(self) -> dict:
        """Counts by outcome, refusals by reason and the failures."""
        result: dict = {"suite": "tinygrad", "passed": 0, "failed": 0, "refused": {}, "failures": []}
        for name, (outcome, reason) in sorted(self.outcomes.items()):
            if outcome == "passed":
                result["passed"] += 1
            elif outcome == "failed":
                result["failed"] += 1
                result["failures"].append({"test": name, "why": reason})
            else:
                result["refused"].setdefault(reason, []).append(name)
        return result


def in_place_of_torch(device: str) -> ModuleType:
    """Makes `import torch` find HLX, with its modules under PyTorch's names."""
    import hlx
    import hlx.linalg
    import hlx.nn.functional

    hlx.set_default_device(device)
    for name, module in list(sys.modules.items()):
        if name == "hlx" or name.startswith("hlx."):
            sys.modules["torch" + name.removeprefix("hlx")] = module
    return hlx


def find_clang() -> None:
    """Names a compiler for tinygrad's CPU device in the environment."""
    versions = sorted((f"clang-{n}" for n in range(11, 30)), reverse=True)
    found = next((name for name in ["clang", *versions] if shutil.which(name)), None)
    if "CC" not in os.environ and found is None:
        sys.exit("judge_tinygrad: no clang found, which tinygrad's CPU device needs; CC names another one")
    os.environ.setdefault("CC", found or "")


def commit(folder: Path) -> str:
    """The checkout's commit, if it is one."""
    found = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 and (folder / ".git").exists() else "unknown"


def main() -> int:
    """Reads the arguments, runs the suite and prints its summary; 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--reference", choices=("hlx", "torch"), default="hlx")
    parser.add_argument("--json", type=Path)
    own, pytests = sys.argv[1:], []
    if "--" in own:
        own, pytests = own[: own.index("--")], own[own.index("--") + 1 :]
    options = parser.parse_args(own)
    tests = [options.folder / name for name in TEST if (options.folder / name).exists()]
    if not tests:
        sys.exit(f"judge_tinygrad: {options.folder} has no {TEST[0]}")
    find_clang()
    sys.path.insert(0, str(options.folder.resolve()))
    if options.reference == "torch":
        import torch as reference
    else:
        reference = in_place_of_torch(options.device)
    results = Results(reference)
    arguments = [str(tests[0]), "-q", "--no-header", "--tb=short", "-p", "no:cacheprovider", "-W", "ignore"]
    pytest.main([*arguments, *pytests], plugins=[results])
    result = results.summary() | {"version": commit(options.folder), "device": options.device}
    result["reference"] = options.reference
    if not results.outcomes:
        return 1
    print(f"tinygrad: {result['passed']} passed, {result['failed']} failed")
    for reason, names in sorted(result["refused"].items(), key=lambda pair: -len(pair[1])):
        print(f"  {len(names)} refused: {reason}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
