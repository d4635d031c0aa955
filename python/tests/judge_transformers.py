"""Compares language models of the library transformers with the same ones read by HLX, family by family.

    python judge_transformers.py [--device cpu] [--models A,B] [--json FILE]

transformers makes a small model with random weights of each family that HLX reads, and writes it by
`save_pretrained`. HLX reads the folder by `hlx.load_model`. Compared are

    logits        batches of several sizes, and padded rows of several lengths
    cache         a prompt and then tokens one by one; the bits are those of the whole sequence
    gradients     the cross-entropy and its gradients by all parameters
    tokens        the likeliest tokens after prompts, one by one and in a batch
    files         `model.save` for transformers and for HLX, and read again: the same bits
    adapter       an adapter of the library PEFT: logits, gradients, and the file that HLX writes

transformers computes them in f64 and in f32. The largest error of HLX against f64 may be 4 times that of
transformers' own f32, and 2^-22 of the largest number in any case. Needs torch, transformers, peft and safetensors.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

CHECKS = ("logits", "cache", "gradients", "tokens", "files", "adapter")


def checked(config: Any, device: str) -> dict[str, dict[str, Any]]:
    """What came of each check of a model."""
    from transformers_models import beside

    import hlx

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        single = beside.made(config, folder)
        double = beside.doubled(single)
        ours = hlx.load_model(folder, device, dtype=hlx.float32)
        checks: dict[str, Callable[[], dict[str, Any]]] = {
            "logits": lambda: beside.logits(single, double, ours, device),
            "cache": lambda: beside.cached(single, double, ours, device),
            "gradients": lambda: beside.gradients(single, double, ours, device),
            "tokens": lambda: beside.generated(double, ours),
            "files": lambda: beside.saved(single, ours, device),
            "adapter": lambda: beside.adapted(single, folder, device),
        }
        return {check: outcome(checks[check]) for check in CHECKS}


def outcome(check: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a check, or the error that ended it."""
    try:
        return check()
    except Exception as error:
        return {"passed": False, "why": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}


def main() -> int:
    """Judges the models; 1 if a check fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import torch
    import transformers
    from transformers_models.shapes import configs

    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.disable(logging.WARNING)
    started, wanted = time.monotonic(), set(filter(None, options.models.split(";")))
    models = {name: config for name, config in configs() if not wanted or name in wanted}
    print(f"{'model':34} {' '.join(f'{check:>10}' for check in CHECKS)}   (HLX's error / that of f32)")
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name, config in models.items():
        found = results[name] = checked(config, options.device)
        cells = [
            f"{c['ratio']:10.2f}" if "ratio" in c else f"{'equal' if c['passed'] else 'FAILED':>10}"
            for c in found.values()
        ]
        print(f"{name:34} {' '.join(cells)}", flush=True)
        for check, result in found.items():
            if not result["passed"]:
                print(f"  {check} failed: {result.get('why', result)}\n{result.get('trace', '')}", flush=True)
    every = [result for found in results.values() for result in found.values()]
    failed = sum(not result["passed"] for result in every)
    report = {
        "suite": "transformers",
        "transformers": transformers.__version__,
        "torch": torch.__version__,
        "device": options.device,
        "seconds": round(time.monotonic() - started, 1),
        "passed": len(every) - failed,
        "failed": failed,
        "largest ratio": max((result.get("ratio", 0.0) for result in every), default=0.0),
        "models": results,
    }
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    print(f"transformers {transformers.__version__} on {options.device}, {report['seconds']} s")
    print(f"transformers: {len(models)} models, {report['passed']} checks passed, {failed} failed")
    return 1 if failed or not models else 0


if __name__ == "__main__":
    sys.exit(main())
