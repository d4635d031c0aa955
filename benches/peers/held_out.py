"""Held-out losses of HLX and of PyTorch after training from the same initial weights on the same batches.

  python3 held_out.py --hlx PROGRAM --text tinyshakespeare.txt [--device vulkan|cpu] [--torch-device cuda|cpu]
      [--arithmetics fast[,portable,..]] [--modes bf16[,f32,f16]] [--seeds 1,2,3] [--steps N] [--width N] [--layers N]
      [--tasks shakespeare,ascii-pairs] [--out FILE.csv] [--work FOLDER]

trains the transformer of peers.py, which lies beside this file, on Tiny Shakespeare byte by byte and on pairs of English and
HLX's notation, once per seed, and prints a row for each run and a table of means. HLX trains by `hlx train`, PyTorch here,
with autocast where its mode is bf16 or f16 (with a GradScaler). Both start from the weights that HLX draws, which a run of one
step at a learning rate of 0 leaves in its checkpoint, and read the same samples in the same order: the places of windows and
the permutations of pairs are functions of the seed (docs/configuration.md), computed here again. AdamW, its schedule and its clip are
the same; no dropout. A loss before the first step that differs from HLX's by more than 1e-4 ends the program: data, weights
or the count of targets are not the same then.

Needs PyTorch alone, and no network.
"""

import argparse
import contextlib
import csv
import json
import math
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

from peers import Transformer

EPOCH_ORDER, EVAL_SPLIT, WINDOW = 0xF0000000, 0xF0000001, 0xF0000003
SEPARATOR, END = 0x1E, 0x04
IGNORED = -100
WARMUP, DECAY, BETAS, CLIP = 100, 0.1, (0.9, 0.99), 1.0
#: Positions, samples per batch, learning rate, held-out fraction.
TASKS = {"shakespeare": (128, 32, 1e-3, 0.1), "ascii-pairs": (128, 32, 1e-3, 0.05)}
PAIRS = 20_000
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16}


def philox(counter, seed):
    """The first two words of Philox 4x32-10 under a seed's key."""
    c0, c1, c2, c3 = counter
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & 0xFFFFFFFF, (p0 >> 32) ^ c3 ^ k1, p0 & 0xFFFFFFFF
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c0, c1


def permutation(seed, purpose, stream, n):
    """Fisher and Yates's shuffle, with a draw per place."""
    order = list(range(n))
    for last in range(n - 1, 0, -1):
        chosen = philox((last, 0, stream, purpose), seed)[0] * (last + 1) >> 32
        order[last], order[chosen] = order[chosen], order[last]
    return order


class Text:
    """Windows of a text: at random places to train on, fixed ones at its end held out."""

    def __init__(self, path, positions, fraction, seed):
        with open(path, "rb") as file:
            self.bytes = file.read()
        self.seed, self.positions = seed, positions
        count = -(-(len(self.bytes) - 1) // positions)
        self.n_train = count - max(int(count * fraction), 1)
        starts = [at * positions for at in range(self.n_train, count)]
        self.held_out = [self.sample(start) for start in starts]
        self.places = (self.n_train - 1) * positions + 1

    def sample(self, start):
        tokens = self.bytes[start : start + self.positions + 1]
        return list(tokens[:-1]), list(tokens[1:])

    def batch(self, step, size):
        epoch, first = divmod(step, -(-self.n_train // size))
        samples = []
        for number in range(first * size, (first + 1) * size):
            high, low = philox((number, 0, epoch, WINDOW), self.seed)
            samples.append(self.sample((high << 32 | low) * self.places >> 64))
        return samples


class Pairs:
    """Pairs that HLX draws. No held-out output is trained on; the loss counts outputs and their ends."""

    def __init__(self, hlx, fraction, seed):
        command = [hlx, "data", "ascii-pairs", "--count", str(PAIRS), "--seed", str(seed)]
        lines = subprocess.run(command, check=True, capture_output=True).stdout.decode().splitlines()
        pairs = [(pair["input"].encode(), pair["output"].encode()) for pair in map(json.loads, lines)]
        groups = {}
        for index, (_, output) in enumerate(pairs):
            groups.setdefault(output, []).append(index)
        groups, wanted, most = list(groups.values()), int(len(pairs) * fraction), max(len(pairs) // 1000, 1)
        train, held_out = [], []
        for place in permutation(seed, EVAL_SPLIT, 0, len(groups)):
            group = groups[place]
            is_held_out = len(group) <= most and len(held_out) + len(group) <= wanted
            (held_out if is_held_out else train).extend(group)
        self.seed, self.orders = seed, {}
        self.train, self.held_out = ([self.sample(*pairs[at]) for at in sorted(of)] for of in (train, held_out))

    def sample(self, given, output):
        tokens = [*given, SEPARATOR, *output, END]
        return tokens[:-1], [IGNORED] * len(given) + tokens[len(given) + 1 :]

    def batch(self, step, size):
        epoch, number = divmod(step, -(-len(self.train) // size))
        if epoch not in self.orders:
            self.orders[epoch] = permutation(self.seed, EPOCH_ORDER, epoch, len(self.train))
        return [self.train[at] for at in self.orders[epoch][number * size : (number + 1) * size]]


def padded(samples, device):
    """Ids and targets, \\[samples, longest\\]; what is padded has no target."""
    longest = max(len(ids) for ids, _ in samples)
    ids = [ids + [0] * (longest - len(ids)) for ids, _ in samples]
    targets = [targets + [IGNORED] * (longest - len(targets)) for _, targets in samples]
    return torch.tensor(ids, device=device), torch.tensor(targets, device=device)


def loss_of(model, samples, device, reduction):
    ids, targets = padded(samples, device)
    logits = model(ids)
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED, reduction=reduction)


def cast(mode, device):
    if mode == "f32":
        return contextlib.nullcontext()
    return torch.autocast(torch.device(device).type, TYPES[mode])


@torch.no_grad()
def held_out_loss(model, data, mode, device):
    """The mean over all targets that are held out."""
    total, count = 0.0, 0
    for first in range(0, len(data.held_out), 64):
        samples = data.held_out[first : first + 64]
        with cast(mode, device):
            total += loss_of(model, samples, device, "sum").item()
        count += sum(target != IGNORED for _, targets in samples for target in targets)
    return total / count


def load(model, path):
    """Reads the weights that HLX has drawn."""
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        content = bytearray(file.read())
    state = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, end = entry["data_offsets"]
            values = torch.frombuffer(content[first:end], dtype=torch.float32).reshape(entry["shape"])
            state[name.replace(".feed_forward.", ".")] = values
    model.load_state_dict(state)


def warmup_of(steps):
    return min(WARMUP, steps // 4)


def rate(step, steps, peak):
    warmup = warmup_of(steps)
    if step < warmup:
        return peak * (step + 1) / warmup
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup)))


def train_in_torch(model, data, mode, options, batch_size, peak):
    device = options.torch_device
    flat = [p for name, p in model.named_parameters() if name.endswith(("bias", "norm.weight"))]
    matrices = [p for name, p in model.named_parameters() if not name.endswith(("bias", "norm.weight"))]
    groups = [{"params": matrices, "weight_decay": DECAY}, {"params": flat, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak, betas=BETAS)
    scaler = torch.amp.GradScaler(torch.device(device).type, enabled=mode == "f16")
    for step in range(options.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, options.steps, peak)
        with cast(mode, device):
            loss = loss_of(model, data.batch(step, batch_size), device, "mean")
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        scaler.step(optimizer)
        scaler.update()


CONFIGURATION = """seed = {seed}
arithmetic = "{arithmetic}"
[model]
width = {width}
n_layers = {layers}
n_heads = {heads}
positions = {positions}
dropout = 0.0
[data]
{data}
eval_fraction = {fraction}
[train]
max_steps = {steps}
batch_size = {batch_size}
learning_rate = {peak}
schedule = "cosine"
warmup_steps = {warmup}
optimizer = "adamw"
weight_decay = {decay}
clip_norm = {clip}
log_every = {steps}
eval_every = {steps}
checkpoint_every = {steps}
[optimizer]
betas = [0.9, 0.99]
[[groups]]
parameters = ["*.bias", "*norm.weight"]
weight_decay = 0.0
"""


def train_in_hlx(options, task, seed, arithmetic, steps, peak, device, folder):
    """Trains by `hlx train`; returns the held-out loss at the end."""
    positions, batch_size, _, fraction = TASKS[task]
    text = f'path = "{os.path.abspath(options.text)}"\nformat = "text"\nwindows = "random"'
    text = {"shakespeare": text, "ascii-pairs": f'format = "ascii_pairs"\ncount = {PAIRS}'}[task]
    configuration = CONFIGURATION.format(
        seed=seed, arithmetic=arithmetic, width=options.width, layers=options.layers, heads=options.width // 64,
        positions=positions, data=text, fraction=fraction, steps=steps, batch_size=batch_size, peak=peak,
        warmup=warmup_of(steps), decay=DECAY, clip=CLIP,
    )  # fmt: skip
    path = f"{folder}.toml"
    with open(path, "w") as file:
        file.write(configuration)
    command = [options.hlx, "train", path, "--device", device, "--out", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}: {done.stderr.strip()}")
    with open(f"{folder}/metrics.jsonl") as file:
        lines = [json.loads(line) for line in file]
    evaluated = [line for line in lines if line["kind"] == "eval" and line["split"] == "held_out"]
    return evaluated[-1]["loss_with_end"]


def compare(options, task, seed, rows):
    positions, batch_size, peak, fraction = TASKS[task]
    work = f"{options.work}/{task}-{seed}"
    first = train_in_hlx(options, task, seed, "portable", 1, 0.0, "cpu", f"{work}-initial")
    if task == "shakespeare":
        data = Text(options.text, positions, fraction, seed)
    else:
        data = Pairs(options.hlx, fraction, seed)

    def fresh():
        model = Transformer(256, options.width, options.layers, options.width // 64, positions)
        load(model, f"{work}-initial/checkpoints/step-000001/model.safetensors")
        return model.to(options.torch_device)

    found = held_out_loss(fresh(), data, "f32", options.torch_device)
    if abs(found - first) > 1e-4:
        sys.exit(f"error: {task}: before the first step PyTorch's held-out loss is {found:.5f}, HLX's {first:.5f}")

    def note(side, loss, start):
        rows.append((task, seed, side, loss))
        print(f"{task} seed {seed} {side}: {loss:.5f} ({time.perf_counter() - start:.1f} s)", flush=True)

    for arithmetic in options.arithmetics.split(","):
        start = time.perf_counter()
        folder = f"{work}-{arithmetic}"
        note(arithmetic, train_in_hlx(options, task, seed, arithmetic, options.steps, peak, options.device, folder), start)
    for mode in options.modes.split(","):
        start, model = time.perf_counter(), fresh()
        train_in_torch(model, data, mode, options, batch_size, peak)
        note(f"torch-{mode}", held_out_loss(model, data, mode, options.torch_device), start)


def table(rows):
    """Per task and side the losses by seed, their mean and spread."""
    print("\n| task | side | held-out loss by seed | mean | spread |\n|---|---|---|---|---|")
    sides = {}
    for task, _, side, loss in rows:
        sides.setdefault((task, side), []).append(loss)
    for (task, side), losses in sides.items():
        by_seed = ", ".join(f"{loss:.4f}" for loss in losses)
        mean, spread = statistics.mean(losses), max(losses) - min(losses)
        print(f"| {task} | {side} | {by_seed} | {mean:.4f} | {spread:.4f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hlx", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--device", default="vulkan")
    parser.add_argument("--torch-device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--arithmetics", default="fast")
    parser.add_argument("--modes", default="bf16")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tasks", default="shakespeare,ascii-pairs")
    parser.add_argument("--out")
    parser.add_argument("--work")
    options = parser.parse_args()
    options.hlx = os.path.abspath(options.hlx)
    options.work = options.work or tempfile.mkdtemp(prefix="held-out-")
    rows = []
    for task in options.tasks.split(","):
        for seed in map(int, options.seeds.split(",")):
            compare(options, task, seed, rows)
    table(rows)
    if options.out:
        with open(options.out, "w", newline="") as file:
            csv.writer(file).writerows([("task", "seed", "side", "held_out_loss"), *rows])


if __name__ == "__main__":
    main()
