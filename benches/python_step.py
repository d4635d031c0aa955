"""Compares a recorded training step from Python with the same step from Rust: `python benches/python_step.py`.

The step is `tiny` of docs/benchmarks.md: the batch goes up, then forward, loss of all positions, backward by eight
shards, a limit of 1.0 on the gradients' norm, and AdamW. Rust's side is `hlx-bench serve` (`--bench`, by default that
of the target folder). The two sides run in turns, each in its own process; a row is the median of its rounds, a round
the median of five rows of steps, one step behind the other. It needs no other package:

    PYTHONPATH=python python benches/python_step.py --device vulkan --bench ./hlx-bench
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

#: The configuration and batch of each step that hlx-bench knows under the name.
STEPS = {
    "mini": ({"vocabulary": 64, "width": 32, "n_layers": 1, "n_heads": 2, "positions": 16}, 8),
    "tiny": ({"vocabulary": 256, "width": 256, "n_layers": 4, "n_heads": 4, "positions": 128}, 8),
    "small": ({"vocabulary": 256, "width": 512, "n_layers": 6, "n_heads": 8, "positions": 256}, 32),
}
SHARDS, TRIES = 8, 5


class Rust:
    """A running `hlx-bench serve`."""

    def __init__(self, program: str, device: str) -> None:
        command = [program, "serve", "--device", device]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.description = self._line().removeprefix("ready ")

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise SystemExit("python_step: hlx-bench ended before it answered")
        return line

    def run(self, case: str) -> dict[str, float]:
        """The numbers of a case: `ms`, and `launches`."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"run {case}\n")
        self._process.stdin.flush()
        answer = self._line()
        if not answer.startswith("ok "):
            raise SystemExit(f"python_step: hlx-bench said {answer!r}")
        return {name: float(value) for name, value in (pair.split("=") for pair in answer.split()[1:])}

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate()


def first_loss(program: str, device: str, name: str) -> str:
    """The loss of Rust's first step, with five decimals."""
    command = [program, "first-step", name, "--device", device]
    done = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    pairs = (pair.split("=") for pair in done.stdout.splitlines()[0].split()[1:])
    return dict(pair for pair in pairs if len(pair) == 2)["loss"]


def tokens(count: int, vocabulary: int) -> Iterator[int]:
    """hlx-bench's ids: the finalizer of MurmurHash3 of each place."""
    for x in range(count):
        x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF
        x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
        yield (x ^ (x >> 16)) % vocabulary


class Python:
    """The same training in this process."""

    def __init__(self, device: str, name: str) -> None:
        import hlx

        sizes, batch = STEPS[name]
        config = {**sizes, "feed_forward_width": 4 * sizes["width"], "dropout": 0.0, "attention_dropout": 0.0}
        if name == "mini":
            config["feed_forward_width"] = 64
        self.device = hlx.device(device)
        model = hlx.models.CausalLM(config, self.device, seed=1)
        optimizer = hlx.optim.AdamW(model.parameters(), lr=3e-4)
        count, shape = batch * sizes["positions"], (batch, sizes["positions"])
        ids = hlx.tensor(list(tokens(count + 1, sizes["vocabulary"])), device="cpu")
        #: The batch on the host, as a loader gives it.
        self.batch = [ids[:-1].reshape(shape).contiguous(), ids[1:].reshape(shape).contiguous()]

        def step(ids: hlx.Tensor, targets: hlx.Tensor) -> hlx.Tensor:
            optimizer.zero_grad()
            loss = hlx.nn.functional.cross_entropy(model(ids).flatten(0, 1), targets.flatten())
            loss.backward(shards=SHARDS)
            hlx.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss

        self.compiled = hlx.compile(step)
        self.first_loss = f"{self.step().item():.5f}"
        self._hlx = hlx

    def step(self):
        """Uploads the batch and launches a step; nothing is waited for."""
        return self.compiled(*(part.to(self.device) for part in self.batch))

    def run(self, seconds: float) -> float:
        """Milliseconds per step: the median of several rows of about `seconds` in all, as hlx-bench has them."""
        self._timed(1)
        once = self._timed(2)
        count = int(min(max(seconds * 1e3 / (TRIES * once), 1), 1e5))
        return statistics.median(self._timed(count) for _ in range(TRIES))

    def _timed(self, count: int) -> float:
        begun = time.perf_counter()
        for _ in range(count):
            self.step()
        self._hlx.vulkan.synchronize(self.device)
        return (time.perf_counter() - begun) * 1e3 / count

    def launches(self) -> int:
        """The launches of the recorded step."""
        self.step()
        return self.compiled.launches()


def compared(rust: Rust, python: Python, name: str, rounds: int, seconds: float) -> Iterator[tuple[float, float]]:
    """The times of both sides, round by round; a first round does not count."""
    for number in range(rounds + 1):
        sides: list[Callable[[], float]] = [lambda: rust.run(f"step {name}")["ms"], lambda: python.run(seconds)]
        # The side that begins changes, so that a clock that falls is on neither's side.
        order = (0, 1) if number % 2 else (1, 0)
        times = {side: sides[side]() for side in order}
        if number:
            yield times[0], times[1]


def arguments() -> argparse.Namespace:
    """The command line."""
    root = Path(__file__).resolve().parent.parent
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--device", default="cpu", help="cpu, vulkan, vulkan:N or auto")
    parser.add_argument("--bench", default=str(target / "release" / "hlx-bench"), help="the program hlx-bench")
    parser.add_argument("--step", default="tiny", choices=STEPS, help="which step")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of both sides")
    parser.add_argument("--seconds", type=float, default=0.25, help="seconds of Python's side per round")
    parser.add_argument("--most", type=float, help="fails if Python takes this many percent more than Rust")
    return parser.parse_args()


def main() -> int:
    """Prints the table."""
    given = arguments()
    python = Python(given.device, given.step)
    expected = first_loss(given.bench, given.device, given.step)
    if python.first_loss != expected:
        print(f"python_step: the first loss is {python.first_loss}, and Rust's is {expected}: not the same step")
        return 1
    rust = Rust(given.bench, given.device)
    times = list(compared(rust, python, given.step, given.rounds, given.seconds))
    launches = rust.run(f"step {given.step}").get("launches")
    rust.close()
    ratio = statistics.median(ours / theirs for theirs, ours in times)
    of_rust, of_python = (statistics.median(column) for column in zip(*times, strict=True))
    version = sys.version.split()[0]
    print(f"{rust.description}; Python {version}; {given.rounds} rounds in turns; first loss {expected}")
    print("| training step | Rust ms | Python ms | Python / Rust | launches of Rust | of Python |")
    print("|---|---|---|---|---|---|")
    shown = "-" if launches is None else int(launches)
    print(f"| {given.step} | {of_rust:.4g} | {of_python:.4g} | {ratio:.3f} | {shown} | {python.launches()} |")
    return int(given.most is not None and ratio > 1 + given.most / 100)


if __name__ == "__main__":
    sys.exit(main())
