"""Carries out the samples of PyTorch's modules by `hlx.nn` and prints what became of them, by module.

    python judge_modules.py [--device cpu] [--modules A,B] [--json FILE]

The samples are PyTorch's own (`module_db`, f32): results, buffers and gradients of inputs and parameters are compared
with PyTorch's in f64. Needs PyTorch with expecttest; `test_pytorch_modules.py` needs neither.
"""

import argparse
import json
import sys
import time
from collections import Counter

from pytorch_samples.judge import FAILED, PASSED, REFUSED


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--modules", default="")
    parser.add_argument("--json", default="")
    return parser.parse_args()


def main() -> int:
    """Judges the samples; 1 if one fails."""
    import torch
    from pytorch_samples import live_modules

    options, started = _parsed(), time.monotonic()
    wanted = set(filter(None, options.modules.split(",")))
    counts: dict[str, Counter[str]] = {}
    reasons: Counter[tuple[str, str]] = Counter()
    failures = []
    for name, sample, training in live_modules.samples():
        if wanted and name not in wanted:
            continue
        torch.manual_seed(1)
        verdict = live_modules.judged(name, sample, training, options.device)
        counts.setdefault(name, Counter())[verdict.kind] += 1
        if verdict.kind == FAILED:
            call = f"{name}{sample.constructor_input.args}{sample.constructor_input.kwargs}"
            failures.append({"call": call[:200], "train": training, "difference": verdict.reason})
        elif verdict.kind != PASSED:
            reasons[verdict.kind, f"{name}: {verdict.reason}"] += 1
    total = sum(counts.values(), Counter())
    report = {
        "suite": "module_db",
        "torch": torch.__version__,
        "device": options.device,
        "seconds": round(time.monotonic() - started, 1),
        "modules": {name: dict(count) for name, count in sorted(counts.items())},
        "samples": total.total(),
        "passed": total[PASSED],
        "failed": total[FAILED],
        "others": {f"{kind}: {reason}": n for (kind, reason), n in sorted(reasons.items())},
        "failures": failures,
        "missing": live_modules.missing(),
    }
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    _print(report, total)
    return 1 if failures else 0


def _print(report: dict, total: Counter[str]) -> None:
    print(f"{'module':32} {'samples':>7} {'passed':>7} {'refused':>7} {'failed':>7} {'random':>7}")
    for name, count in report["modules"].items():
        columns = (sum(count.values()), *(count.get(kind, 0) for kind in (PASSED, REFUSED, FAILED, "random")))
        print(f"{name:32} {' '.join(f'{n:7}' for n in columns)}")
    for failure in report["failures"][:40]:
        print(f"{failure['call']} {'in training' if failure['train'] else 'in evaluation'}: {failure['difference']}")
    print(f"{report['samples']} samples of PyTorch {report['torch']} on {report['device']}, {report['seconds']} s")
    print(f"not in HLX: {', '.join(report['missing'])}")
    others = "".join(f", {n} {kind}" for kind, n in sorted(total.items()) if kind not in (PASSED, FAILED))
    print(f"module_db: {report['passed']} passed, {report['failed']} failed{others}")
    for reason, n in report["others"].items():
        print(f"  {n} {reason}")


if __name__ == "__main__":
    sys.exit(main())
