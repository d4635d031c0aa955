"""Carries out PyTorch's samples by `import hlx` and prints what became of them, by operation.

    python judge_opinfo.py [--device cpu] [--stride 1] [--elements N] [--operations a,b] [--samples all] [--json FILE]

With a stride of n every n-th sample is carried out, and the first of each operation; `--elements` leaves out
samples of more elements, for slow devices. `--samples` is `rust`, the samples of the Rust test
(crates/hlx-autograd/tests/pytorch_samples), `composed`, those of operations that the package composes, or `all`.
PyTorch is not needed.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path

from pytorch_samples.fixture import COMPOSED, PATH, Fixture
from pytorch_samples.judge import DIFFERS, FAILED, PASSED, REFUSED, Tally, chosen, described, elements, judged

FIXTURES = {"rust": PATH, "composed": COMPOSED}


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--stride", type=int, default=1)
    parser.add_argument("--elements", type=int, default=sys.maxsize)
    parser.add_argument("--operations", default="")
    parser.add_argument("--samples", default="all", choices=["all", *FIXTURES])
    parser.add_argument("--json", default="")
    return parser.parse_args()


def main() -> int:
    """Judges the samples; 1 if one fails."""
    options = _parsed()
    started = time.monotonic()
    names = list(FIXTURES) if options.samples == "all" else [options.samples]
    judgements = {name: Judgement(FIXTURES[name], options) for name in names}
    report = _report(options, judgements)
    report["seconds"] = round(time.monotonic() - started, 1)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    _print(report)
    return 1 if report["failed"] else 0


class Judgement:
    """What became of the samples of a fixture."""

    def __init__(self, path: Path, options: argparse.Namespace) -> None:
        """Carries them out."""
        fixture = Fixture(path)
        self.version = fixture.version
        self.tallies: dict[str, Tally] = {}
        self.failures: list[dict[str, object]] = []
        self.left_out = 0
        wanted = set(filter(None, options.operations.split(",")))
        for i in chosen(fixture, options.stride):
            sample = fixture.samples[i]
            if wanted and sample["op"] not in wanted:
                continue
            if elements([sample.get(part) for part in "ako"]) > options.elements:
                self.left_out += 1
                continue
            verdict = judged(fixture, sample, options.device)
            self.tallies.setdefault(sample["op"], Tally()).add(verdict)
            if verdict.kind == FAILED:
                failure = {"sample": i, "call": described(sample), "difference": verdict.reason}
                self.failures.append({"fixture": path.stem, **failure})

    def counts(self) -> dict[str, int]:
        """How many samples there were, and of each verdict."""
        kinds = sum((tally.kinds for tally in self.tallies.values()), Counter())
        words = {"passed": PASSED, "failed": FAILED, "refused": REFUSED, "by_another_rule": DIFFERS}
        counts = {word: kinds[kind] for word, kind in words.items()}
        return {"operations": len(self.tallies), "samples": kinds.total(), **counts}


def _report(options: argparse.Namespace, judgements: dict[str, Judgement]) -> dict:
    refused: Counter[str] = Counter()
    differs: Counter[str] = Counter()
    operations = {}
    for judgement in judgements.values():
        for name, tally in sorted(judgement.tallies.items()):
            refused += tally.refused
            differs += tally.differs
            operations[name] = {
                "passed": tally.kinds[PASSED],
                "failed": tally.kinds[FAILED],
                "refused": dict(tally.refused),
                "by_another_rule": dict(tally.differs),
            }
    counts = {name: judgement.counts() for name, judgement in judgements.items()}
    return {
        "suite": "opinfo",
        "torch": next(iter(judgements.values())).version,
        "device": options.device,
        "stride": options.stride,
        "samples": sum(count["samples"] for count in counts.values()),
        "left_out": sum(judgement.left_out for judgement in judgements.values()),
        "passed": sum(count["passed"] for count in counts.values()),
        "failed": sum(count["failed"] for count in counts.values()),
        "fixtures": counts,
        "by_another_rule": dict(differs),
        "refused": dict(refused),
        "failures": [failure for judgement in judgements.values() for failure in judgement.failures],
        "operations": operations,
    }


def _print(report: dict) -> None:
    print(f"{'operation':56} {'passed':>7} {'refused':>7} {DIFFERS:>15} {'failed':>7}")
    for name, entry in report["operations"].items():
        refused, differs = sum(entry["refused"].values()), sum(entry["by_another_rule"].values())
        print(f"{name:56} {entry['passed']:7} {refused:7} {differs:15} {entry['failed']:7}")
    for failure in report["failures"][:40]:
        print(f"sample {failure['sample']} of {failure['fixture']}, {failure['call']}: {failure['difference']}")
    if report["left_out"]:
        print(f"{report['left_out']} samples of too many elements were left out")
    for name, count in report["fixtures"].items():
        print(f"{name}: " + ", ".join(f"{number} {word.replace('_', ' ')}" for word, number in count.items()))
    print(f"{report['samples']} samples of PyTorch {report['torch']} on {report['device']}, {report['seconds']} s")
    for rule, count in report["by_another_rule"].items():
        print(f"  {count} by another rule: {rule}")
    print(f"opinfo: {report['passed']} passed, {report['failed']} failed")
    for reason, count in sorted(report["refused"].items(), key=lambda item: -item[1]):
        print(f"  {count} refused: {reason}")


if __name__ == "__main__":
    sys.exit(main())
