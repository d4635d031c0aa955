"""tinygrad's side of the comparison: the line protocol of benches/src/serve.rs, on WebGPU over Vulkan.

  python3 tinygrad_peer.py serve [--device vulkan|cpu]

Prints `ready DESCRIPTION`, then answers `run CASE` with the milliseconds of a run, and `digest CASE` with SHA-256 of a
product or of all parameters after three steps. A case is `matmul MxNxK`, `step mlp` or `step NAME` of a transformer of
peers.py. tinygrad has no backend for Vulkan of its own; WebGPU by Dawn (package dawn-python) runs on Vulkan's drivers.

Matrices are filled from a counter, so that every device begins with the same bits. A step is one TinyJit: upload of the
batch, forward, backward, clip of all gradients together at 1.0, AdamW.
"""

import argparse
import hashlib
import importlib.util
import math
import os
import platform
import statistics
import sys
import time

os.environ.setdefault("DEV", "WEBGPU")
DAWN = importlib.util.find_spec("pydawn")
if DAWN and "WEBGPU_PATH" not in os.environ:
    machine = platform.machine().replace("arm64", "aarch64")
    os.environ["WEBGPU_PATH"] = os.path.join(DAWN.submodule_search_locations[0], f"lib/libwebgpu_dawn_{machine}.so")

import numpy as np  # noqa: E402
import tinygrad  # noqa: E402
from tinygrad import Context, Tensor, TinyJit, nn  # noqa: E402

TRIES, SECONDS, DIGEST_STEPS = 5, 0.25, 3
MLP, MLP_BATCH = (784, 512, 512, 10), 256
# vocabulary, width, layers, heads, positions, batch
CONFIGURATIONS = {
    "mini": (64, 32, 1, 2, 16, 8),
    "tiny": (256, 256, 4, 4, 128, 8),
    "small": (256, 512, 6, 8, 256, 32),
    "medium": (256, 768, 12, 12, 512, 32),
    "gpt2": (50304, 768, 12, 12, 1024, 8),
}


def scrambled(n):
    x = np.arange(n, dtype=np.uint64)
    x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    return x ^ (x >> 16)


def values(*shape):
    whole = scrambled(math.prod(shape)).astype(np.float32)
    return (whole / np.float32(2**31) - np.float32(1)).reshape(shape)


class Mlp:
    def __init__(self):
        self.layers = [nn.Linear(inputs, outputs) for inputs, outputs in zip(MLP, MLP[1:])]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)


class Block:
    def __init__(self, width, heads):
        self.heads = heads
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        sums = q.scaled_dot_product_attention(k, v, is_causal=True)
        return self.out(sums.transpose(1, 2).reshape(b, t, c))

    def __call__(self, x):
        x = x + self.attention(self.attention_norm(x))
        inner = self.up(self.feed_forward_norm(x))
        # The exact GELU.
        return x + self.down(inner * 0.5 * (1 + (inner / math.sqrt(2)).erf()))


class Transformer:
    def __init__(self, vocabulary, width, layers, heads, positions):
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(positions, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.final_norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def __call__(self, ids):
        x = self.token_embedding(ids) + self.position_embedding(Tensor.arange(ids.shape[1]).reshape(1, -1))
        for block in self.blocks:
            x = block(x)
        logits = self.output(self.final_norm(x))
        return logits.reshape(-1, logits.shape[-1])


class Training:
    def __init__(self, name):
        if name == "mlp":
            self.model = Mlp()
            self.inputs = values(MLP_BATCH, MLP[0])
            self.targets = (scrambled(MLP_BATCH) % MLP[-1]).astype(np.int32)
        elif name in CONFIGURATIONS:
            *sizes, positions, batch = CONFIGURATIONS[name]
            self.model = Transformer(*sizes, positions)
            tokens = (scrambled(batch * positions + 1) % sizes[0]).astype(np.int32)
            self.inputs, self.targets = tokens[:-1].reshape(batch, positions), tokens[1:]
        else:
            raise ValueError(f"no configuration `{name}`")
        for parameter in nn.state.get_parameters(self.model):
            if len(parameter.shape) == 2:
                parameter.assign(Tensor(0.03 * values(*parameter.shape)).contiguous()).realize()
        self.optimizer = nn.optim.AdamW(nn.state.get_parameters(self.model), lr=3e-4, weight_decay=0.01)

        @TinyJit
        def step(inputs, targets):
            self.optimizer.zero_grad()
            loss = self.model(inputs).sparse_categorical_crossentropy(targets)
            loss.backward()
            gradients = [parameter.grad for parameter in self.optimizer.params]
            norm = sum((gradient.square().sum() for gradient in gradients), Tensor(0.0)).sqrt()
            scale = (1.0 / (norm + 1e-6)).minimum(1.0)
            for parameter in self.optimizer.params:
                parameter.grad = parameter.grad * scale
            return loss.realize(*self.optimizer.schedule_step())

        self.jit = step

    def step(self):
        with Context(TRAINING=1):
            return self.jit(Tensor(self.inputs).realize(), Tensor(self.targets).realize())

    def digest(self):
        for _ in range(DIGEST_STEPS):
            self.step()
        found = hashlib.sha256()
        for parameter in nn.state.get_parameters(self.model):
            found.update(parameter.numpy().tobytes())
        return found.hexdigest()


class Product:
    def __init__(self, m, n, k):
        self.a, self.b = Tensor(values(m, k)).realize(), Tensor(values(k, n)).realize()
        self.jit = TinyJit(lambda a, b: (a @ b).realize())

    def step(self):
        return self.jit(self.a, self.b)

    def digest(self):
        return hashlib.sha256(self.step().numpy().tobytes()).hexdigest()


def made(case):
    operation, rest = case.split(" ", 1)
    if operation == "matmul":
        return Product(*map(int, rest.split("x")))
    if operation == "step":
        return Training(rest)
    raise ValueError(f"no case `{case}`")


def in_a_row(case):
    """Milliseconds a run: the median of several tries, each of many runs."""
    device = tinygrad.Device[tinygrad.Device.DEFAULT]

    def timed(count):
        device.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            case.step()
        device.synchronize()
        return (time.perf_counter() - start) * 1e3 / count

    # The second call is recorded, the third replayed.
    timed(3)
    once = timed(2)
    count = int(min(max(SECONDS * 1e3 / (TRIES * once), 1), 1e5))
    return statistics.median(timed(count) for _ in range(TRIES))


def serve(description):
    print(f"ready {description}", flush=True)
    name, held = None, None
    for line in sys.stdin:
        verb, _, case = line.strip().partition(" ")
        try:
            if verb == "digest":
                name, held = None, None
                print(f"ok digest={made(case).digest()}", flush=True)
            elif verb == "run":
                if case != name:
                    name, held = case, made(case)
                print(f"ok ms={in_a_row(held):.6f}", flush=True)
            else:
                print(f"error `{line.strip()}` is no request", flush=True)
        except Exception as error:  # noqa: BLE001 (the next case may run)
            text = str(error).strip().splitlines()
            print(f"error {type(error).__name__}: {text[0][:200] if text else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["serve"])
    # Dawn takes the fastest device of Vulkan, which may be the software driver.
    parser.add_argument("--device", choices=["vulkan", "cpu"], default="vulkan")
    parser.parse_args()
    from importlib.metadata import PackageNotFoundError, version

    try:
        known = version("tinygrad")
    except PackageNotFoundError:
        known = "of an unknown version"
    serve(f"tinygrad {known}, {tinygrad.Device.DEFAULT}")


if __name__ == "__main__":
    main()
