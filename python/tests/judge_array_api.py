"""Runs array-api-tests, the test suite of the array API standard, against `hlx.array_api`.

    python judge_array_api.py FOLDER [--device cpu] [--json FILE] [--max-examples N] [-- OPTIONS OF PYTEST]

FOLDER is a checkout of github.com/data-apis/array-api-tests with its submodule array-api. It is copied into a
temporary folder, where the lines of `CHANGES` are replaced: the suite expects complex numbers and int64 in a few
places, and some strategies draw what HLX states that it does otherwise. `array_api_skips.txt` lists the tests that
are left out, each with its reason; pytest loads this file as a plugin that marks them. Needs pytest, hypothesis,
ndindex and pytest-json-report.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

SKIPS = Path(__file__).with_name("array_api_skips.txt")
#: The environment variable that tells the plugin the device.
DEVICE = "HLX_JUDGE_DEVICE"
MISSING_TYPES = "int16,uint16,int64,uint64,float64,complex64,complex128"
#: File, text, its replacement: each text must occur exactly once.
CHANGES = [
    (
        "array_api_tests/dtype_helpers.py",
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes], key=lambda x: x[1]\n",
        "[(dt, dtype_nbits[dt]) for dt in complex_dtypes], key=lambda x: x[1], default=(None, 0)\n",
    ),
    (
        "array_api_tests/dtype_helpers.py",
        '{"complex64": xp.float32, "complex128": xp.float64}',
        '{"complex64": "float32", "complex128": "float64"}',
    ),
    (
        "array_api_tests/test_signatures.py",
        "cmplx_name = dh.dtype_to_name[dh.widest_complex_dtype]",
        'cmplx_name = "complex64"',
    ),
    (
        "array_api_tests/test_signatures.py",
        'for dtype_name in [float_name, "bool", "int64", cmplx_name]:',
        'for dtype_name in [float_name, "bool", "int32", cmplx_name]:',
    ),
    (
        "array_api_tests/test_special_cases.py",
        "            dtype = dh.widest_complex_dtype\n",
        '            dtype = dh.widest_complex_dtype or pytest.skip("no complex data types")\n',
    ),
    # At most 8 dimensions.
    (
        "array_api_tests/test_manipulation_functions.py",
        "    shape=hh.reshape_shapes(reshape_shape),\n",
        "    shape=hh.reshape_shapes(reshape_shape).filter(lambda shape: len(shape) <= 8),\n",
    ),
    (
        "array_api_tests/test_linalg.py",
        "def test_tensordot(x1, x2, kw):\n",
        "def test_tensordot(x1, x2, kw):\n    __import__('hypothesis').assume(x1.ndim + x2.ndim <= 8)\n",
    ),
    # Operators promote as in PyTorch: an array without dimensions does not decide the width of the other one.
    (
        "array_api_tests/test_operators_and_elementwise_functions.py",
        """                mutual_shapes = st.shared(
                    hh.mutually_broadcastable_shapes(2, **shapes_kw)
                )
""",
        """                mutual_shapes = st.shared(
                    hh.mutually_broadcastable_shapes(2, **shapes_kw).filter(
                        lambda pair: func_type is FuncType.FUNC or (pair[0] == ()) == (pair[1] == ())
                    )
                )
""",
    ),
]


def copied(source: Path, target: Path) -> None:
    """Copies the suite and makes the changes."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".git", ".hypothesis", "__pycache__", "spec/draft"))
    for name, old, new in CHANGES:
        path = target / name
        text = path.read_text()
        if text.count(old) != 1:
            sys.exit(f"judge_array_api: {name} has no single line to change any more: {old.strip()}")
        path.write_text(text.replace(old, new))


def listed_skips() -> list[tuple[re.Pattern[str], str]]:
    """The patterns of the list of skips, each with the comment above it; `*` stands for any text.

    A pattern behind `vulkan:` is for Vulkan devices alone.
    """
    on_vulkan = os.environ.get(DEVICE, "cpu") != "cpu"
    found: list[tuple[re.Pattern[str], str]] = []
    comment: list[str] = []
    for line in SKIPS.read_text().splitlines():
        if line.startswith("#"):
            comment.append(line.removeprefix("#").strip())
        elif line.strip():
            name = line.strip().removeprefix("vulkan:")
            if name == line.strip() or on_vulkan:
                pattern = ".*".join(re.escape(piece) for piece in name.split("*"))
                found.append((re.compile(pattern), " ".join(comment)))
        else:
            comment = []
    return found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the listed tests as skipped; a pattern of the list without a test is an error."""
    skips = listed_skips()
    used = set()
    for item in items:
        for pattern, reason in skips:
            if pattern.fullmatch(item.nodeid):
                item.add_marker(pytest.mark.skip(reason=reason))
                used.add(pattern)
    unused = [pattern.pattern for pattern, _ in skips if pattern not in used]
    if unused and len({item.nodeid.split("::")[0] for item in items}) > 5:
        raise pytest.UsageError(f"array_api_skips.txt: {len(unused)} patterns name no test, the first is {unused[0]}")


def why_skipped(test: dict) -> str:
    """The reason of a skipped test."""
    stage = next((test[s] for s in ("setup", "call") if "longrepr" in test.get(s, {})), {})
    match = re.search(r"Skipped: (.*?)['\"]?\)?$", str(stage.get("longrepr", "")).splitlines()[-1])
    return match.group(1) if match else "skipped by the suite"


def summary(report: dict) -> dict:
    """Counts by outcome, refusals by reason and the failures."""
    result: dict = {"suite": "array-api", "passed": 0, "failed": 0, "refused": {}, "failures": []}
    for test in report["tests"]:
        outcome = test["outcome"]
        if outcome == "passed":
            result["passed"] += 1
        elif outcome == "skipped":
            reason = why_skipped(test)
            result["refused"][reason] = result["refused"].get(reason, 0) + 1
        else:
            result["failed"] += 1
            crash = test.get("call", {}).get("crash", {}).get("message", "") or str(test.get("setup", ""))[:200]
            lines = crash.strip().splitlines() or [""]
            result["failures"].append({"test": test["nodeid"], "why": lines[0][:300]})
    return result


def version(folder: Path) -> str:
    """The suite's commit, where its folder is a checkout."""
    found = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 and (folder / ".git").exists() else "unknown"


def main() -> int:
    """Reads the arguments, runs the suite and prints its summary; 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--max-examples", type=int, default=100)
    own, pytests = sys.argv[1:], []
    if "--" in own:
        own, pytests = own[: own.index("--")], own[own.index("--") + 1 :]
    options = parser.parse_args(own)
    if not (options.folder / "array-api" / "spec").is_dir():
        sys.exit(f"judge_array_api: {options.folder}/array-api is empty; run `git submodule update --init` there")
    with tempfile.TemporaryDirectory() as scratch:
        suite, report = Path(scratch) / "suite", Path(scratch) / "report.json"
        copied(options.folder, suite)
        module = f"exec('import hlx; hlx.set_default_device(\"{options.device}\"); import hlx.array_api as xp')"
        environment = os.environ | {
            "ARRAY_API_TESTS_MODULE": module,
            "ARRAY_API_TESTS_SKIP_DTYPES": MISSING_TYPES,
            DEVICE: options.device,
            "PYTHONPATH": os.pathsep.join(filter(None, [str(SKIPS.parent), os.environ.get("PYTHONPATH")])),
        }
        # Its own settings of pytest would need plugins; a deadline would judge the machine.
        command = [
            sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", "-W", "ignore",
            "--json-report", f"--json-report-file={report}", "--json-report-omit", "log", "streams",
            "-p", "judge_array_api", "--max-examples", str(options.max_examples), "--disable-deadline",
            "--hypothesis-derandomize", *(pytests or ["array_api_tests"]),
        ]  # fmt: skip
        status = subprocess.run(command, cwd=suite, env=environment).returncode
        if not report.exists():
            return status or 1
        result = summary(json.loads(report.read_text()))
    result |= {"version": version(options.folder), "device": options.device, "max_examples": options.max_examples}
    print(f"array-api: {result['passed']} passed, {result['failed']} failed")
    for reason, count in sorted(result["refused"].items(), key=lambda pair: -pair[1]):
        print(f"  {count} refused: {reason}")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
