"""PyTorch's side of `hlx-bench causal --peers`: training steps of Qwen3- and Llama-shaped models.

  python3 causal.py serve [--device cuda|cpu] [--threads N] [--source auto|transformers|torch]

speaks the protocol of peers.py, which lies beside it. A request names the whole shape, so that it is
written once, in hlx-nn's presets:

  run causal class=qwen3 vocabulary=151936 width=1024 layers=28 heads=16 kv_heads=8 head_width=128
      feed_forward=3072 tied=1 batch=4 tokens=1024 recompute=0 steps=10 mode=f32

(in one line) and is answered with `ok ms=M bytes=B reserved=R`: the mean time of the steps, which run in
a row behind one that does not count, and the most memory that was allocated and reserved on the device. Modes are f32 (TF32 off) and tf32 (products may round their operands
to TF32). The step: upload of the ids, forward with the loss of all positions, backward, clip at 1.0,
fused AdamW.

Two sources of the model, both with random weights:

  transformers   Qwen3ForCausalLM or LlamaForCausalLM, attention by sdpa, its own loss and its own
                 gradient checkpointing
  torch          the same network of PyTorch's own functions: F.rms_norm, and sdpa over repeated key
                 heads, which has a fused kernel for f32

`auto` takes transformers where it can be imported.
"""

import argparse
import gc
import os
import time

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from peers import Side, serve

THETA = 1e6
EPSILON = 1e-6


class Network(torch.nn.Module):
    """The `torch` source: logits of ids, of the shape that a request names."""

    def __init__(self, s):
        super().__init__()
        self.recompute = False
        self.embedding = torch.nn.Embedding(s["vocabulary"], s["width"])
        self.blocks = torch.nn.ModuleList(NetworkBlock(s) for _ in range(s["layers"]))
        self.norm = torch.nn.Parameter(torch.ones(s["width"]))
        self.output = torch.nn.Linear(s["width"], s["vocabulary"], bias=False)
        if s["tied"]:
            self.output.weight = self.embedding.weight
        half = torch.arange(0, s["head_width"], 2, dtype=torch.float32) / s["head_width"]
        angles = torch.outer(torch.arange(s["tokens"], dtype=torch.float32), THETA**-half)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            if self.recompute:
                x = checkpoint(block, x, self.cos, self.sin, use_reentrant=False)
            else:
                x = block(x, self.cos, self.sin)
        return self.output(F.rms_norm(x, self.norm.shape, self.norm, EPSILON))


class NetworkBlock(torch.nn.Module):
    def __init__(self, s):
        super().__init__()
        width, self.d = s["width"], s["head_width"]
        queries, keys, hidden = s["heads"] * self.d, s["kv_heads"] * self.d, s["feed_forward"]
        self.repeats = s["heads"] // s["kv_heads"]

        def linear(inputs, outputs):
            return torch.nn.Linear(inputs, outputs, bias=False)

        def gain(n):
            return torch.nn.Parameter(torch.ones(n))

        self.q, self.k, self.v = linear(width, queries), linear(width, keys), linear(width, keys)
        self.o = linear(queries, width)
        self.gate, self.up = linear(width, hidden), linear(width, hidden)
        self.down = linear(hidden, width)
        self.norms = torch.nn.ParameterList([gain(width), gain(width)])
        self.head_norms = torch.nn.ParameterList(
            [gain(self.d), gain(self.d)] if s["class"] == "qwen3" else []
        )

    def attend(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = (layer(x).view(b, t, -1, self.d) for layer in (self.q, self.k, self.v))
        if len(self.head_norms):
            of_q, of_k = self.head_norms
            q = F.rms_norm(q, of_q.shape, of_q, EPSILON)
            k = F.rms_norm(k, of_k.shape, of_k, EPSILON)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        k, v = (part.repeat_interleave(self.repeats, 1) for part in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))

    def forward(self, x, cos, sin):
        first, second = self.norms
        x = x + self.attend(F.rms_norm(x, first.shape, first, EPSILON), cos, sin)
        y = F.rms_norm(x, second.shape, second, EPSILON)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def rotated(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat((-second, first), -1) * sin


def of_transformers(s):
    """The `transformers` source."""
    import transformers

    sizes = {
        "vocab_size": s["vocabulary"],
        "hidden_size": s["width"],
        "num_hidden_layers": s["layers"],
        "num_attention_heads": s["heads"],
        "num_key_value_heads": s["kv_heads"],
        "head_dim": s["head_width"],
        "intermediate_size": s["feed_forward"],
        "max_position_embeddings": max(s["tokens"], 2048),
        "tie_word_embeddings": bool(s["tied"]),
        "rms_norm_eps": EPSILON,
        "use_cache": False,
        "attn_implementation": "sdpa",
    }
    if s["class"] == "qwen3":
        return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**sizes))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes))


def has_transformers():
    try:
        import transformers  # noqa: F401
    except ImportError:
        return False
    return True


def numbers_of(request):
    """The shape of a request `causal key=value ..`, and its mode."""
    words = request.split(" ")
    if words[0] != "causal":
        raise ValueError(f"`{request}` is no request of this side")
    pairs = dict(word.split("=", 1) for word in words[1:])
    mode = pairs.pop("mode")
    if mode not in ("f32", "tf32"):
        raise ValueError(f"no mode `{mode}`; there are f32, tf32")
    return {key: value if key == "class" else int(value) for key, value in pairs.items()}, mode


class CausalSide(Side):
    """A device, and the model whose steps were measured last."""

    def __init__(self, device, threads, source):
        super().__init__(device, threads)
        if source == "auto":
            source = "transformers" if has_transformers() else "torch"
        self.source = source
        self.shape, self.step = None, None

    def describe(self):
        source = "model of torch"
        if self.source == "transformers":
            import transformers

            source = f"transformers {transformers.__version__}"
        return f"{super().describe()}, {source}"

    def answer(self, request):
        shape, mode = numbers_of(request)
        steps = shape.pop("steps")
        if shape != self.shape:
            # Before the next model is made: the device would not hold both.
            self.shape, self.step = None, None
            self.release()
            self.step, self.shape = self.training_of(shape), shape
        self.allow_tf32(mode == "tf32")
        # Memory that the other mode left in the allocator is not this one's.
        self.release()
        self.step()
        self.sync()
        start = time.perf_counter()
        for _ in range(steps):
            self.step()
        self.sync()
        ms = (time.perf_counter() - start) * 1e3 / steps
        reply = f"ok ms={ms:.6f}"
        if self.cuda:
            allocated, reserved = torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()
            reply += f" bytes={allocated} reserved={reserved}"
        return reply

    def release(self):
        gc.collect()
        if self.cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()

    def training_of(self, s):
        """A function that runs one step and returns its loss."""
        loss_of, parameters = getattr(self, "loss_of_" + self.source)(s)
        optimizer = torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.01, fused=True)
        ids = torch.randint(0, s["vocabulary"], (s["batch"], s["tokens"] + 1))
        ids = ids.pin_memory() if self.cuda else ids

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(ids.to(self.device, non_blocking=True))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0, foreach=True)
            optimizer.step()
            return loss

        return step

    def loss_of_torch(self, s):
        with self.device:
            model = Network(s)
        for value in model.parameters():
            if value.dim() == 2:
                torch.nn.init.normal_(value, std=0.02)
        model.recompute = bool(s["recompute"])

        def loss_of(ids):
            logits = model(ids[:, :-1])
            return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())

        return loss_of, list(model.parameters())

    def loss_of_transformers(self, s):
        with self.device:
            model = of_transformers(s)
        model.train()
        if s["recompute"]:
            model.gradient_checkpointing_enable({"use_reentrant": False})

        def loss_of(ids):
            # It shifts the labels itself: the last position has none, as in all of its training.
            inputs = ids[:, :-1].contiguous()
            return model(input_ids=inputs, labels=inputs, use_cache=False).loss

        return loss_of, list(model.parameters())


def main():
    parser = argparse.ArgumentParser(description="PyTorch's side of hlx-bench causal.")
    parser.add_argument("verb", choices=["serve"])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("HLX_THREADS", 0)))
    parser.add_argument("--source", choices=["auto", "transformers", "torch"], default="auto")
    arguments = parser.parse_args()
    side = CausalSide(arguments.device, arguments.threads, arguments.source)
    serve(side)


if __name__ == "__main__":
    main()
