"""Measures what a call from Python costs beside PyTorch: `python benches/python_overhead.py`.

Operations run on the CPU device on one thread, in turns with PyTorch's if it is installed, over 1,024 elements and
over one: the time of one element is that of the call, with next to nothing to compute. Each number is the median of the
rounds; a round calls the operation many times. The time to import is that of a process, less that of an empty one.
"""

import os

# Before the libraries start their threads. So many elements are computed on the calling thread anyway.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HLX_THREADS", "1")

import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import hlx

try:
    import torch
except ImportError:
    torch = None

ROUNDS, CALLS, ELEMENTS = 21, 2000, 1024

#: A name, and what it computes of two tensors.
OPERATIONS: list[tuple[str, Callable[[Any, Any], Any]]] = [
    ("x + y", lambda x, y: x + y),
    ("x * 2.0", lambda x, y: x * 2.0),
    ("x.exp()", lambda x, y: x.exp()),
    ("x.relu()", lambda x, y: x.relu()),
    ("x.add_(1.0)", lambda x, y: x.add_(1.0)),
    ("x.sum()", lambda x, y: x.sum()),
    ("x.reshape(1, -1)", lambda x, y: x.reshape(1, -1)),
    ("x[:512]", lambda x, y: x[:512]),
]


def microseconds(operation: Callable[[Any, Any], Any], x: Any, y: Any, calls: int) -> float:
    """The time of one call, from that of many."""
    begun = time.perf_counter_ns()
    for _ in range(calls):
        operation(x, y)
    return (time.perf_counter_ns() - begun) / calls / 1e3


def medians(cases: dict[str, tuple[Callable[[Any, Any], Any], Any, Any, int]]) -> dict[str, float]:
    """The median time of each case; every round runs all of them, so that the machine's mood is the same for all."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(ROUNDS + 2):
        for name, case in cases.items():
            found = microseconds(*case)
            if number >= 2:
                times[name].append(found)
    return {name: statistics.median(found) for name, found in times.items()}


def rows() -> Iterator[tuple[str, ...]]:
    """A row per operation: HLX and PyTorch over many elements, then over one."""
    libraries = {"hlx": hlx} | ({"torch": torch} if torch else {})
    for name, operation in OPERATIONS:
        cases = {}
        for library_name, library in libraries.items():
            for count in (ELEMENTS, 1):
                x, y = library.ones(count), library.ones(count)
                cases[f"{library_name} {count}"] = (operation, x, y, CALLS)
        with hlx.no_grad():
            found = medians(cases)
        shown = [f"{library} {count}" for count in (ELEMENTS, 1) for library in ("hlx", "torch")]
        yield name, *(f"{found[case]:.2f}" if case in found else "-" for case in shown)


def import_seconds(module: str) -> float:
    """The median time of a process that imports a module, less that of an empty process."""
    times: dict[str, list[float]] = {"pass": [], f"import {module}": []}
    for _ in range(7):
        for line, found in times.items():
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", line], check=True)
            found.append(time.perf_counter() - begun)
    empty, full = (statistics.median(found) for found in times.values())
    return full - empty


def main() -> None:
    """Prints the tables."""
    print(f"Python {platform.python_version()}, PyTorch {torch.__version__ if torch else 'is not installed'}")
    print("| us per call | HLX, 1,024 elements | PyTorch | HLX, 1 element | PyTorch |\n|---|---|---|---|---|")
    for row in rows():
        print(f"| `{row[0]}` | {' | '.join(row[1:])} |")
    modules = ["hlx"] + (["numpy", "torch"] if torch else [])
    print("\n| import | seconds |\n|---|---|")
    for module in modules:
        print(f"| `{module}` | {import_seconds(module):.2f} |")


if __name__ == "__main__":
    if torch:
        torch.set_num_threads(1)
    main()
