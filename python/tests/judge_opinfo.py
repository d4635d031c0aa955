"""Carries out PyTorch's samples by `import hlx` and prints what became of them, by operation.

    python judge_opinfo.py [--device cpu] [--stride 1] [--elements N] [--operations a,b] [--json FILE]

With a stride of n every n-th sample is carried out, and the first of each operation; `--elements` leaves out
samples of more elements, for slow devices. PyTorch is not needed.
"""

import argparse
import json
import sys
import time
from collections import Counter

from pytorch_samples.fixture import Fixture
from pytorch_samples.judge import DIFFERS, FAILED, PASSED, Tally, chosen, described, elements, judged


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--elements", type=int, default=sys.maxsize)
    parser.add_argument("--operations", default="")
    parser.add_argument("--json", default="")
    return parser.parse_args()


def main() -> int:
    """Judges the samples; 1 if one fails."""
    options = _parsed()
    fixture, started = Fixture(), time.monotonic()
    wanted = set(filter(None, options.operations.split(",")))
    tallies: dict[str, Tally] = {}
    failures, left_out = [], 0
    for i in chosen(fixture, options.stride):
        sample = fixture.samples[i]
        if wanted and sample["op"] not in wanted:
            continue
        if elements([sample.get(part) for part in "ako"]) > options.elements:
            left_out += 1
            continue
        verdict = judged(fixture, sample, options.device)
        tallies.setdefault(sample["op"], Tally()).add(verdict)
        if verdict.kind == FAILED:
            failures.append({"sample": i, "call": described(sample), "difference": verdict.reason})
    report = _report(fixture, options, tallies, failures, left_out)
    report["seconds"] = round(time.monotonic() - started, 1)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    _print(report)
    return 1 if failures else 0


def _report(
    fixture: Fixture, options: argparse.Namespace, tallies: dict[str, Tally], failures: list[dict], left_out: int
) -> dict:
    kinds: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    differs: Counter[str] = Counter()
    operations = {}
    for name, tally in sorted(tallies.items()):
        kinds += tally.kinds
        refused += tally.refused
        differs += tally.differs
        operations[name] = {
            "passed": tally.kinds[PASSED],
            "failed": tally.kinds[FAILED],
            "refused": dict(tally.refused),
            "by_another_rule": dict(tally.differs),
        }
    return {
        "suite": "opinfo",
        "torch": fixture.version,
        "device": options.device,
        "stride": options.stride,
        "samples": kinds.total(),
        "left_out": left_out,
        "passed": kinds[PASSED],
        "failed": kinds[FAILED],
        "by_another_rule": dict(differs),
        "refused": dict(refused),
        "failures": failures,
        "operations": operations,
    }


def _print(report: dict) -> None:
    print(f"{'operation':56} {'passed':>7} {'refused':>7} {DIFFERS:>15} {'failed':>7}")
    for name, entry in report["operations"].items():
        refused, differs = sum(entry["refused"].values()), sum(entry["by_another_rule"].values())
        print(f"{name:56} {entry['passed']:7} {refused:7} {differs:15} {entry['failed']:7}")
    for failure in report["failures"][:40]:
        print(f"sample {failure['sample']}, {failure['call']}: {failure['difference']}")
    if report["left_out"]:
        print(f"{report['left_out']} samples of too many elements were left out")
    print(f"{report['samples']} samples of PyTorch {report['torch']} on {report['device']}, {report['seconds']} s")
    for rule, count in report["by_another_rule"].items():
        print(f"  {count} by another rule: {rule}")
    print(f"opinfo: {report['passed']} passed, {report['failed']} failed")
    for reason, count in sorted(report["refused"].items(), key=lambda item: -item[1]):
        print(f"  {count} refused: {reason}")


if __name__ == "__main__":
    sys.exit(main())
