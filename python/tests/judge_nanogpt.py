"""Runs nanoGPT's programs with HLX in the place of PyTorch, and with PyTorch, and compares.

    python judge_nanogpt.py FOLDER [--device cpu] [--steps 1000] [--text FILE] [--plot FILE] [--json FILE]

FOLDER is a checkout of github.com/karpathy/nanoGPT, which stays as it is: the edits below are made in copies. FILE of
`--text` is Tiny Shakespeare, which nanoGPT's `prepare.py` downloads if there is none.

nanoGPT, as it is, trains one step and writes a checkpoint. PyTorch and HLX go on from this file, with the same batches:

- the losses of all steps, and those on the training and validation parts, are compared with PyTorch's;
- on the device, compiled and as it is, all losses and the final weights have the bits of the CPU device;
- nanoGPT's `sample.py`, as it is, reads the checkpoint that HLX has written, and writes the text that HLX writes.

Needs PyTorch, NumPy, tiktoken and requests, which nanoGPT imports.
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
import time
from pathlib import Path
from typing import Any, NamedTuple


class Edit(NamedTuple):
    """A place of a file of nanoGPT that is replaced."""

    file: str
    before: str
    after: str


#: What a program for PyTorch needs to run on HLX: other imports.
PORT = [
    Edit(
        "model.py",
        "import torch\nimport torch.nn as nn\nfrom torch.nn import functional as F\n",
        "import hlx as torch\nimport hlx.nn as nn\nfrom hlx.nn import functional as F\n",
    ),
    Edit(
        "train.py",
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        "from torch.distributed import init_process_group, destroy_process_group\n",
        "import hlx as torch\n",
    ),
    Edit("sample.py", "import torch\n", "import hlx as torch\n"),
]
#: What both need to be compared: batches that PyTorch's random numbers do not choose, and losses with all digits.
COMPARISON = [
    Edit("train.py", "def get_batch(split):\n", "draws = np.random.default_rng(1337)\ndef get_batch(split):\n"),
    Edit(
        "train.py",
        "ix = torch.randint(len(data) - block_size, (batch_size,))",
        "ix = draws.integers(len(data) - block_size, size=batch_size)",
    ),
    Edit("train.py", "loss {lossf:.4f}", "loss {lossf!r}"),
    Edit(
        "train.py",
        "train loss {losses['train']:.4f}, val loss {losses['val']:.4f}",
        "train loss {losses['train'].item()!r}, val loss {losses['val'].item()!r}",
    ),
]
#: A GPT of 0.8 million parameters.
SHAPE = {
    "dataset": "shakespeare_char",
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "block_size": 64,
    "batch_size": 12,
    "gradient_accumulation_steps": 1,
    "dtype": "float32",
    "learning_rate": 1e-3,
    "min_lr": 1e-4,
    "warmup_iters": 100,
    "beta2": 0.99,
    "eval_iters": 20,
}
#: What losses may differ: in the first steps by rounding alone, later by what rounding has grown to.
FIRST, NEAR, FAR = 50, 1e-4, 0.1
DATA = Path("data/shakespeare_char")


class Run(NamedTuple):
    """What a training run has printed."""

    losses: dict[int, float]
    evaluations: dict[int, tuple[float, float]]
    seconds: float


def edited(folder: Path, copy: Path, edits: list[Edit]) -> Path:
    """A copy of the checkout with edits; the program ends where one does not apply."""
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git", "*.ipynb", "assets", "out*"))
    for edit in edits:
        file = copy / edit.file
        text = file.read_text(encoding="utf-8")
        if text.count(edit.before) != 1:
            sys.exit(f"judge_nanogpt: {edit.file} has {text.count(edit.before)} of these, expected 1:\n{edit.before}")
        file.write_text(text.replace(edit.before, edit.after), encoding="utf-8")
    return copy


def program(folder: Path, name: str, **options: Any) -> str:
    """What a program of nanoGPT prints."""
    arguments = [f"--{key}={value}" for key, value in options.items()]
    run = subprocess.run([sys.executable, name, *arguments], cwd=folder, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"judge_nanogpt: {name} in {folder.name} ended with status {run.returncode}:\n{run.stderr[-3000:]}")
    return run.stdout


def trained(folder: Path, start: Path, out: str, steps: int, **options: Any) -> Run:
    """A run from a checkpoint to the step."""
    (folder / out).mkdir()
    shutil.copy(start, folder / out / "ckpt.pt")
    settings = {**SHAPE, "max_iters": steps, "lr_decay_iters": steps, "eval_interval": min(250, steps), **options}
    started = time.monotonic()
    printed = program(folder, "train.py", init_from="resume", out_dir=out, always_save_checkpoint=True, **settings)
    seconds = time.monotonic() - started
    number = r"([-+0-9.einfa]+)"
    losses = re.findall(rf"^iter (\d+): loss {number},", printed, re.M)
    evaluations = re.findall(rf"^step (\d+): train loss {number}, val loss {number}$", printed, re.M)
    return Run(
        {int(step): float(loss) for step, loss in losses},
        {int(step): (float(train), float(val)) for step, train, val in evaluations},
        round(seconds, 1),
    )


def weights_digest(checkpoint: Path) -> str:
    """The SHA-256 over the weights of a checkpoint, whether the model was compiled or not."""
    import hlx

    state = hlx.load(checkpoint)["model"]
    return hlx.digest({name.removeprefix("_orig_mod."): tensor for name, tensor in state.items()})


def sampled(folder: Path, out: Path, device: str) -> str:
    """Text by `sample.py`, which takes the likeliest character each time."""
    printed = program(
        folder, "sample.py", out_dir=out, device=device, num_samples=1, max_new_tokens=200, top_k=1, dtype="float32"
    )
    return printed.split("data/shakespeare_char/meta.pkl...\n", 1)[-1]


def plotted(curves: dict[str, dict[int, float]], file: Path) -> None:
    """Writes the curves as an SVG, by some 200 of their points."""
    width, height, left, bottom = 640, 300, 46, 34
    steps = max(step for curve in curves.values() for step in curve)
    most = max(loss for curve in curves.values() for loss in curve.values())

    def at(step: float, loss: float) -> str:
        x = left + step / steps * (width - left - 12)
        return f"{x:.1f},{(height - bottom) - loss / most * (height - bottom - 12):.1f}"

    lines = [f'<rect width="{width}" height="{height}" fill="#ffffff"/>']
    for loss in range(int(most) + 1):
        (x, y), (end, _) = at(0, loss).split(","), at(steps, loss).split(",")
        lines.append(f'<path d="M{x} {y}H{end}" stroke="#e2e8f0"/>')
        lines.append(f'<text x="{left - 8}" y="{float(y) + 4:.1f}" text-anchor="end">{loss}</text>')
    for step in range(0, steps + 1, max(1, steps // 4)):
        x = at(step, 0).split(",")[0]
        lines.append(f'<text x="{x}" y="{height - bottom + 16}" text-anchor="middle">{step}</text>')
    colors = ["#d9480f", "#1864ab"]
    for place, ((name, curve), color) in enumerate(zip(curves.items(), colors, strict=True)):
        some = [(step, loss) for step, loss in sorted(curve.items()) if step % max(1, steps // 200) == 0 or step == 1]
        points = " ".join(at(step, loss) for step, loss in some)
        dashes = ' stroke-dasharray="6 5"' if place else ""
        style = f'fill="none" stroke="{color}" stroke-width="{1.6 if place else 3}"{dashes}'
        lines.append(f'<polyline points="{points}" {style}/>')
        lines.append(f'<text x="{width - 150}" y="{30 + 20 * place}" fill="{color}">{name}</text>')
    label = f'<text x="{width / 2}" y="{height - 4}" text-anchor="middle">step</text>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif"'
    file.write_text(f'{head} font-size="12" fill="#475569">\n' + "\n".join([*lines, label]) + "\n</svg>\n")


def judged(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Runs everything; the results."""
    original = edited(options.folder, work / "original", [])
    if options.text:
        shutil.copy(options.text, original / DATA / "input.txt")
    program(original, str(DATA / "prepare.py"))
    # One step of nanoGPT as it is.
    begin = {**SHAPE, "eval_iters": 1, "eval_interval": 1, "max_iters": 1, "device": "cpu", "compile": False}
    program(original, "train.py", out_dir="start", **begin)
    start = original / "start/ckpt.pt"
    pytorch = edited(original, work / "pytorch", COMPARISON)
    ported = edited(original, work / "hlx", PORT + COMPARISON)

    steps, device = options.steps, options.device
    runs = {"PyTorch": trained(pytorch, start, "out", steps, device="cpu", compile=False)}
    runs["HLX, cpu"] = trained(ported, start, "out-cpu", steps, device="cpu", compile=False)
    runs[f"HLX, {device}, compiled"] = trained(ported, start, "out-compiled", steps, device=device, compile=True)
    folders = ["out-cpu", "out-compiled"]
    if device != "cpu":
        runs[f"HLX, {device}"] = trained(ported, start, "out-device", steps, device=device, compile=False)
        folders.append("out-device")
    for name, run in runs.items():
        print(f"{name}: loss {run.losses[1]:.4f} at step 1, {run.losses[steps]:.4f} at {steps}, {run.seconds} s")
    theirs, ours = runs["PyTorch"], runs["HLX, cpu"]
    apart = {step: abs(loss - ours.losses[step]) for step, loss in theirs.losses.items()}
    pairs = [(pair, ours.evaluations[step]) for step, pair in theirs.evaluations.items()]
    evaluated = [abs(a - b) for pair, other in pairs for a, b in zip(pair, other, strict=True)]
    digests = [weights_digest(ported / out / "ckpt.pt") for out in folders]
    alike = [run for name, run in runs.items() if name.startswith("HLX")]
    checks = {
        f"the first {FIRST} losses are PyTorch's within {NEAR}": max(list(apart.values())[:FIRST]) <= NEAR,
        f"all losses are PyTorch's within {FAR}": max(apart.values()) <= FAR,
        f"evaluations are PyTorch's within {FAR}": max(evaluated) <= FAR,
        "losses have the bits of the CPU device, compiled too": all(run[:2] == ours[:2] for run in alike),
        "weights have the bits of the CPU device, compiled too": len(set(digests)) == 1,
    }
    texts = [sampled(folder, ported / "out-cpu", "cpu") for folder in (original, ported)]
    checks["sample.py writes the text that PyTorch writes from the same checkpoint"] = texts[0] == texts[1]
    if options.plot:
        plotted({"PyTorch": theirs.losses, "HLX": ours.losses}, options.plot)
    return {
        "steps": steps,
        "edits": {"port": len(PORT), "comparison": len(COMPARISON)},
        "checks": checks,
        "runs": {name: run._asdict() for name, run in runs.items()},
        "largest difference of the first losses": max(list(apart.values())[:FIRST]),
        "largest difference of losses": max(apart.values()),
        "mean difference of losses": sum(apart.values()) / len(apart),
        "largest difference of evaluations": max(evaluated),
        "weights": digests[0],
        "text": texts[1],
    }


def commit(folder: Path) -> str:
    """The checkout's commit, if it is one."""
    found = subprocess.run(["git", "-C", folder, "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 and (folder / ".git").exists() else "unknown"


def main() -> int:
    """Reads the arguments, runs the programs and prints what came of it; 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--text", type=Path, default=os.environ.get("HLX_TINY_SHAKESPEARE"))
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.steps < 2:
        sys.exit(f"judge_nanogpt: --steps is {options.steps}, expected at least 2")
    if not (options.folder / "train.py").exists():
        sys.exit(f"judge_nanogpt: {options.folder} has no train.py")
    import torch

    for edit in PORT + COMPARISON:
        print(f"{edit.file}:\n  - " + edit.before.rstrip().replace("\n", "\n  - "))
        print("  + " + edit.after.rstrip().replace("\n", "\n  + "))
    with tempfile.TemporaryDirectory(prefix="judge-nanogpt-") as work:
        found = judged(options, Path(work))
    head = {"suite": "nanogpt", "version": commit(options.folder), "torch": torch.__version__, "device": options.device}
    result = head | found
    print(result["text"])
    for name in (name for name in result if "difference" in name):
        print(f"{name}: {result[name]:.3g}")
    failed = [name for name, passed in result["checks"].items() if not passed]
    for name, passed in result["checks"].items():
        print(f"{'passed' if passed else 'FAILED'}: {name}")
    print(f"nanogpt: {len(result['checks']) - len(failed)} passed, {len(failed)} failed")
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
