"""Runs of one model on 1, 2, 4, ... devices of this machine: equal digests, and the time of a step.

  python3 scaling.py digests|strong|weak|parts --hlx PROGRAM [--devices vulkan|cpu] [--counts 1,2,4]
      [--models medium,gpt2] [--arithmetics portable,integer] [--steps N] [--rounds N] [--csv FILE] [--peer]

A model is one of medium, gpt2 and tiny, whose corpora are drawn here; for digests also a configuration, such as
configs/ascii-pairs.toml, and golden: the golden transformer, whose two shards must give the published digests on one
and two devices.

digests: each model is trained on each count of devices; parameters, optimizer and chain must be equal. Then a
  run of the most devices goes on with two (with one where two are the most), and one of these with the most;
  `hlx verify` recomputes one on the CPU where --verify names its model. The status is 1 if anything differs.
  --gpus N lets the ranks of a larger count share N GPUs.
strong: the step of the configuration's batch; the counts take turns, --rounds times.
weak: the batch and its shards grow with the count.
parts: one device computes what one of the count has to: the batch's and the shards' part. No count can be faster.

--peer runs PyTorch's DDP beside it (ddp.py), in the same turns. --csv gets a row for each run as it ends, behind
those that it has: benches/results/MACHINE/ranks.csv, which `cargo xtask bench report` reads.
"""

import argparse
import array
import datetime
import json
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parents[1] / "crates/hlx-train"
MODELS = {
    "tiny": ("width = 64\nn_layers = 2\nn_heads = 2\npositions = 32", "text", 8),
    "medium": ("width = 768\nn_layers = 12\nn_heads = 12\npositions = 512", "text", 32),
    "gpt2": ('architecture = "gpt2"\nvocabulary = 50304', "shards", 8),
}
ROW = "date,device,program,model,batch,mode,ranks,exchange,ms,gradients_ms,hidden,values_ms"


def draw_corpora(folder):
    """Text and tokens that no model learns well, of a size for a few hundred steps."""
    draw = random.Random(1)
    letters = "etaoin shrdlu cmfwyp vbgkqj xz,.\n"
    (folder / "text.txt").write_text("".join(draw.choices(letters, k=1_200_000)))
    tokens = array.array("H", draw.choices(range(50_257), k=600_000))
    if sys.byteorder == "big":
        tokens.byteswap()
    (folder / "tokens.bin").write_bytes(tokens.tobytes())


class Runs:
    """HLX's runs in one folder."""

    def __init__(self, given, folder):
        self.given, self.folder = given, folder
        draw_corpora(folder)
        self.configurations = given.configurations | {"golden": GOLDEN / "src/golden/transformer.toml"}
        pairs = [{"input": f"{n} times {n}", "output": str(n * n)} for n in range(20)]
        (folder / "golden.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        for name, (model, form, batch) in MODELS.items():
            path = {"text": "text.txt", "shards": "tokens.bin"}[form]
            (folder / f"{name}.toml").write_text(
                f'seed = 1\n[model]\n{model}\n[data]\npath = "{path}"\nformat = "{form}"\n'
                f'[train]\nmax_steps = 1\nbatch_size = {batch}\nlearning_rate = 0.0003\n'
                f'optimizer = "adamw"\nclip_norm = 1.0\ncheckpoint_every = 0\n'
            )

    def devices(self, count):
        if self.given.devices == "cpu":
            return ",".join(["cpu"] * count)
        return ",".join(f"vulkan:{number % (self.given.gpus or count)}" for number in range(count))

    def train(self, model, count, out, sets, resume=False):
        """The lines of a run by their kind, each with the keys of `hlx train --json`."""
        which = ["--devices", self.devices(count)] if count > 1 else ["--device", self.devices(1)]
        which += ["--share-devices"] * (1 <= self.given.gpus < count)
        configuration = self.configurations.get(model, f"{model}.toml")
        command = [self.given.hlx, "train", configuration, "--json", "--out", out, *which]
        command += [part for one in sets for part in ("--set", one)] + ["--resume"] * resume
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if ended.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}: status {ended.returncode}: {ended.stderr.strip()}")
        lines = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        return {kind: [one for one in lines if one["kind"] == kind] for kind in ("start", "train", "end")}


def proof(runs, out, lines):
    chain = (runs.folder / out / "chain.jsonl").read_bytes()
    end = lines["end"][-1]
    return end["parameters"], end["optimizer"], chain


def drop_after(folder, step):
    """Leaves a run as if it had been stopped after a step with a checkpoint."""
    for checkpoint in (folder / "checkpoints").glob("step-*"):
        if int(checkpoint.name.removeprefix("step-")) > step:
            shutil.rmtree(checkpoint)


def digests(runs):
    found = [
        same
        for model in runs.given.models
        for arithmetic in runs.given.arithmetics
        for same in (published(runs, arithmetic) if model == "golden" else []) + alike(runs, model, arithmetic)
    ]
    return all(found)


def tell(what, proof, same):
    print(f"{what:45} {'equal' if same else 'DIFFERS'}  {proof[0]} {proof[1]}", flush=True)
    return same


def golden_sets(runs, micro):
    """The pairs of the golden run, and how many samples are computed at a time."""
    return [f"data.path={runs.folder / 'golden.jsonl'}", f"train.micro_batch_size={micro}"]


def published(runs, arithmetic):
    """Whether the golden transformer has the published digests, on the counts that its two shards allow."""
    digests = json.loads((GOLDEN / "golden.json").read_text())
    digests = digests["integer" if arithmetic == "integer" else "transformer"]
    expected = digests["parameters"], digests["optimizer"]
    sets = [f"arithmetic={arithmetic}", *golden_sets(runs, 4 if arithmetic == "integer" else 2)]
    same = []
    for count in [count for count in runs.given.counts if count <= 2]:
        out = f"published-{arithmetic}-{count}"
        found = proof(runs, out, runs.train("golden", count, out, sets))[:2]
        same.append(tell(f"golden {arithmetic}, published, on {count}", found, found == expected))
    return same


def alike(runs, model, arithmetic):
    """Whether a model's runs are equal on all counts, after a change of the count, and on the CPU."""
    given = runs.given
    most, steps = max(given.counts), 8 if model == "golden" else given.steps
    sets = [f"arithmetic={arithmetic}", f"train.max_steps={steps}", f"train.log_every={steps // 2}"]
    sets += [f"train.checkpoint_every={steps // 2}", f"train.shards={max(most, 8)}"]
    sets += golden_sets(runs, 1) if model == "golden" else []
    first, same = None, []

    def compare(what, found):
        nonlocal first
        first = first or found
        same.append(tell(f"{model} {arithmetic}, {what}", found, found == first))

    for count in given.counts:
        out = f"{model}-{arithmetic}-{count}"
        compare(f"on {count}", proof(runs, out, runs.train(model, count, out, sets)))
    few = 2 if most > 2 else 1
    for before, after in [(most, few), (few, most)]:
        out = f"{model}-{arithmetic}-{before}"
        drop_after(runs.folder / out, steps // 2)
        lines = runs.train(model, after, out, sets, resume=True)
        compare(f"{before} then {after}", proof(runs, out, lines))
    if model in given.verify:
        command = [given.hlx, "verify", f"{model}-{arithmetic}-{most}", "--device", "cpu"]
        said = subprocess.run(command, cwd=runs.folder, capture_output=True, text=True, check=False)
        same.append(said.returncode == 0)
        print(f"{f'{model} {arithmetic}, on the CPU':45} {(said.stdout or said.stderr).splitlines()[-1]}", flush=True)
    for out in runs.folder.glob(f"{model}-{arithmetic}-*"):
        shutil.rmtree(out)
    return same


def load(what, model, count, counts):
    """The batch, the shards and the devices of a run."""
    batch, shards = MODELS[model][2], max(8, *counts)
    if what == "weak":
        return batch * count, 8 * count, count
    return (batch // count, shards // count, 1) if what == "parts" else (batch, shards, count)


def speed(runs):
    given = runs.given
    today = datetime.date.today().isoformat()
    found = {}

    def note(key, device, program, batch, ranks, exchange, ms, parts=("", "", "")):
        model, mode, _ = key
        found.setdefault((program, *key), []).append(ms)
        row = f"{today},{device},{program},{model},{batch},{mode},{ranks},{exchange},{ms:.3f},{','.join(parts)}"
        print(row, flush=True)
        if given.csv:
            facts = {"date": today, "device": device, "command": f"scaling.py {' '.join(sys.argv[1:])}"}
            head = "".join(f"# {name}: {fact}\n" for name, fact in facts.items()) + ROW + "\n"
            with given.csv.open("a") as rows:
                rows.write(("" if rows.tell() else head) + row + "\n")

    for turn in range(given.rounds):
        for model in given.models:
            for count in given.counts:
                batch, shards, ranks = load(given.what, model, count, given.counts)
                for arithmetic in given.arithmetics:
                    sets = [f"arithmetic={arithmetic}", f"train.batch_size={batch}", f"train.shards={min(shards, batch)}"]
                    sets += [f"train.max_steps={given.steps}", f"train.log_every={given.steps // 3}"]
                    out = f"{model}-{arithmetic}-{count}-{turn}"
                    lines = runs.train(model, ranks, out, sets)
                    # The first period has the start in it; a step more or less at its end is in the second.
                    times = lines["train"][1:]
                    ms = statistics.mean(one["ms_per_step"] for one in times)
                    exchange = times[-1].get("exchange")
                    parts = [f"{exchange[key]:.3f}" if exchange else "" for key in ("gradients_ms", "hidden", "values_ms")]
                    start = lines["start"][0]
                    key = model, arithmetic, count
                    note(key, start["device"], "HLX", batch, ranks, start.get("exchange") or "", ms, parts)
                    shutil.rmtree(runs.folder / out)
                if given.peer:
                    command = [sys.executable, "ddp.py", model, "--mode", "eager"]
                    command += ["--ranks", str(ranks), "--batch", str(batch // ranks)]
                    said = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=False)
                    if match := re.search(r"ms=([0-9.]+)", said.stdout):
                        exchange = "NCCL" if ranks > 1 else ""
                        key = model, "f32 eager", count
                        note(key, start["device"], "PyTorch DDP", batch, ranks, exchange, float(match[1]))
                    else:
                        print(f"{' '.join(command)}: {said.stderr.strip().splitlines()[-1:]}", flush=True)
    for (program, model, mode, count), times in found.items():
        one = found.get((program, model, mode, 1))
        ms = statistics.median(times)
        gain = statistics.median(one) / ms * (count if given.what == "weak" else 1) if one else float("nan")
        what = {"parts": f"1/{count} of the batch"}.get(given.what, f"{count} devices")
        print(f"{program:12} {model:8} {mode:9} {what} {ms:9.3f} ms {gain:6.3f} times one", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")  # noqa: E731
    parser.add_argument("what", choices=["digests", "strong", "weak", "parts"])
    parser.add_argument("--hlx", required=True, help="the program hlx")
    parser.add_argument("--devices", choices=["vulkan", "cpu"], default="vulkan")
    parser.add_argument("--counts", type=lambda text: [int(one) for one in text.split(",")], default=[1, 2])
    parser.add_argument("--models", type=words, default=["medium", "gpt2"])
    parser.add_argument("--arithmetics", type=words, default=["portable", "integer"])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--verify", type=words, default=[], help="models whose run is verified on the CPU")
    parser.add_argument("--gpus", type=int, default=0, help="for digests: GPUs that ranks share")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--csv", type=pathlib.Path)
    given = parser.parse_args()
    paths = [pathlib.Path(name).resolve() for name in given.models if name.endswith(".toml")]
    given.configurations = {path.stem: path for path in paths}
    given.models = [pathlib.Path(name).stem if name.endswith(".toml") else name for name in given.models]
    own = {*given.configurations, "golden"} if given.what == "digests" else set()
    for name in {*given.models, *given.verify} - MODELS.keys() - own:
        parser.error(f"{name}: expected some of {', '.join(MODELS)}")
    for path in paths:
        if not path.exists():
            parser.error(f"{path}: no such file")
    given.hlx = str(pathlib.Path(given.hlx).resolve())
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(given, pathlib.Path(folder))
        if given.what == "digests":
            sys.exit(0 if digests(runs) else 1)
        speed(runs)


if __name__ == "__main__":
    main()
