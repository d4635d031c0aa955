"""Does a model that is trained by the `integer` arithmetic lose anything against f32?

Every product of the model (linear layers and attention, forward and backward) is computed by the
arithmetic's law: one operand as integers of 16 bits in two digits, the other of 8, exact sums, one
rescaling. Linear layers multiply real int8 matrices. Sums inside attention are f32 sums of the same
integers, whose error is far below the rounding that is studied.

usage: integer.py --text FILE --out RESULTS.jsonl [--models deep,wide] [--arithmetics f32,integer]
                  [--seeds 1,2,3] [--steps 2000] [--seconds LIMIT] [--eager]

Models, all on characters of one text, batches of 16 windows of 256:
  base    6 layers, width 384, LayerNorm, GELU, learned positions, biases
  llama   6 layers, width 384, RMSNorm, SwiGLU, rotary positions
  deep    16 layers, width 256, as llama
  wide    3 layers, width 768, as llama
  tall    2 layers, width 256, feed-forward networks 16,384 wide
  uneven  as llama, and each sample's loss has a weight between 1/1000 and 1000, so that rows of very
          different size meet in a weight's gradient
Arithmetics: f32, bf16 (autocast), integer (the law; rows longer than 4,096 are cut into pieces with scales of
their own), row (the law with one scale a row, however long), linear (the law without attention), eight (8 bits
for both operands of every product).

Each run appends one JSON object: held-out loss at a few steps, and, at the same steps, how many of the
incoming gradient's numbers that are not zero become zero and the relative error of the quantised
operands (root of the mean square over all products).
"""
import argparse
import json
import math
import time

import torch
import torch.nn.functional as F
from torch import nn

BLOCK = 32
PIECE = 4096
TIME, BATCH = 256, 16
LLAMA = dict(llama=True, width=384, layers=6, heads=6, hidden=1024, uneven=False)
MODELS = {
    "base": dict(LLAMA, llama=False, hidden=1536),
    "llama": LLAMA,
    "deep": dict(LLAMA, width=256, layers=16, heads=4, hidden=704),
    "wide": dict(LLAMA, width=768, layers=3, heads=12, hidden=2048),
    "tall": dict(LLAMA, width=256, layers=2, heads=4, hidden=16384),
    "uneven": dict(LLAMA, uneven=True),
}


class Law:
    """How the products of a run are computed."""

    def __init__(self, name):
        self.integer = name in ("integer", "row", "linear", "eight")
        self.attention = name in ("integer", "row", "eight")
        self.piece = None if name == "row" else PIECE
        self.wide = 8 if name == "eight" else 16
        self.autocast = name == "bf16"
        self.probe = None


class Probe:
    """What quantising lost in one pass."""

    def __init__(self):
        self.sums = {}

    def note(self, kind, x, q, scale):
        error = (q / scale - x).double().square().sum() / x.double().square().sum().clamp_min(1e-300)
        lost = ((q == 0) & (x != 0)).sum() / (x != 0).sum().clamp_min(1)
        n, errors, losses = self.sums.get(kind, (0, 0.0, 0.0))
        self.sums[kind] = (n + 1, errors + error.item(), losses + lost.item())

    def summary(self):
        return {
            kind: dict(error=math.sqrt(errors / n), zeroed=losses / n)
            for kind, (n, errors, losses) in self.sums.items()
        }


LAW = Law("f32")
FUSES = True


def compiled(function):
    """The function, fused by the compiler where nothing is probed."""
    fused = torch.compile(function, dynamic=False)

    def call(*arguments):
        return (function if LAW.probe is not None or not FUSES else fused)(*arguments)

    return call


def quantise(x, bits, kind):
    """Integers (held in f32) of the rows of x over its last axis, and 2^e of each row.

    With m the largest magnitude, x its exponent and f its significand, e = 14 - x (6 - x for 8 bits), one
    less from f = 0xFEFF00 (0xFF0000) on: adding what is missing to 2^24 carries into the exponent then.
    A row of zeros is divided by a number as small as can be, and stays one."""
    largest = x.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    missing, top = (0x10100, 14) if bits == 16 else (0x10000, 6)
    power = ((largest.view(torch.int32) + missing) & 0x7F800000).view(torch.float32)
    scale = 2.0**top / power
    q = torch.round(x * scale)
    if LAW.probe is not None:
        LAW.probe.note(kind, x, q, scale)
    return q, scale


def prepare(x, bits, kind):
    """The digits of the rows of x as int8, the high one first, rows and columns padded to multiples of 8 as
    int8 products want them, and 2^e of each row."""
    q, scale = quantise(x, bits, kind)
    q = F.pad(q.to(torch.int16), (0, -x.shape[1] % 8, 0, -x.shape[0] % 8))
    return ([q.to(torch.int8)] if bits == 8 else [((q + 128) >> 8).to(torch.int8), q.to(torch.int8)]), scale


def scaled(sums, scales):
    """The result of sums of integers, the high digit's first."""
    (sa, sb), total = scales, sums[-1].float()
    if len(sums) == 2:
        total = total + 256 * sums[0].float()
    return total[: sa.shape[0], : sb.shape[0]] / sa / sb.t()


prepare_fused, scaled_fused = compiled(prepare), compiled(scaled)


def product(a, b, kind):
    """a [M, K] times b [N, K] transposed; a is the wide operand."""
    size = LAW.piece or a.shape[1]
    return sum(product_of_pieces(*pieces, kind) for pieces in zip(a.split(size, 1), b.split(size, 1)))


def product_of_pieces(a, b, kind):
    (wide, sa), (narrow, sb) = prepare_fused(a, LAW.wide, kind), prepare_fused(b, 8, "narrow")
    return scaled_fused([torch._int_mm(digit, narrow[0].t()) for digit in wide], (sa, sb))


class LinearProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return product(x, w, "activation")

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        dx = product(g, w.t().contiguous(), "gradient")
        dw = product(g.t().contiguous(), x.t().contiguous(), "gradient by channel")
        return dx, dw


class Linear(nn.Linear):
    def forward(self, x):
        if not LAW.integer:
            return super().forward(x)
        y = LinearProduct.apply(x.reshape(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)
        return y if self.bias is None else y + self.bias


def by_blocks(x):
    """The last axis as [blocks, 32]."""
    return x.unflatten(-1, (-1, BLOCK))


def folded(weights, scale, bits, kind):
    """weights [.., rows, columns] divided by the columns' scales, quantised by row and block of 32 columns
    (the columns are what is summed over), as numbers; the other operand stays integers."""
    q, s = quantise(by_blocks(weights / scale.mT), bits, kind)
    return (q / s).flatten(-2)


def attention_forward(q, k, v, wide):
    """Causal attention by the law; q, k, v: [B, H, T, D]. Returns the output and the probabilities."""
    time = q.shape[-2]
    hidden = torch.ones(time, time, dtype=torch.bool, device=q.device).triu(1)
    (qq, sq), (qk, sk) = quantise(q, wide, "query"), quantise(k, 8, "narrow")
    s = (qq @ qk.mT) / sq / sk.mT / math.sqrt(q.shape[-1])
    s = by_blocks(s.masked_fill(hidden, -math.inf))
    # The running maximum after each block of keys, and p by it.
    m = s.amax(-1).cummax(-1).values
    p = torch.exp(s - m[..., None]).flatten(-2)
    qv, sv = quantise(v, 8, "narrow")
    weights = folded(p, sv, wide, "probability")
    join = torch.exp(m - m[..., -1:])[..., None]
    l = (by_blocks(p) * join).sum((-1, -2))[..., None]
    y = (by_blocks(weights) * join).flatten(-2) @ qv / l
    return y, (by_blocks(p) * join).flatten(-2) / l


def attention_backward(q, k, v, y, p, g, wide):
    """The gradients of q, k and v."""
    (qg, sg), (qv, sv) = quantise(g, wide, "gradient"), quantise(v, 8, "narrow")
    dp = (qg @ qv.mT) / sg / sv.mT
    delta = (g * y).sum(-1, keepdim=True)
    ds = p * (dp - delta) / math.sqrt(q.shape[-1])
    # dV sums over queries: the gradient is wide by query, its scale is folded into the narrow p.
    dv = folded(p.mT.contiguous(), sg, 8, "probability narrow") @ qg
    qk, sk = quantise(k, 8, "narrow")
    dq = folded(ds, sk, wide, "score gradient") @ qk
    qq, sq = quantise(q, 8, "narrow")
    dk = folded(ds.mT.contiguous(), sq, wide, "score gradient") @ qq
    return dq, dk, dv


forward_fused, backward_fused = compiled(attention_forward), compiled(attention_backward)


class AttentionProducts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        y, p = forward_fused(q, k, v, LAW.wide)
        ctx.save_for_backward(q, k, v, y, p)
        return y

    @staticmethod
    def backward(ctx, g):
        return backward_fused(*ctx.saved_tensors, g.contiguous(), LAW.wide)


def attention(q, k, v):
    if LAW.attention:
        return AttentionProducts.apply(q, k, v)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def rotate(x):
    half = x.shape[-1] // 2
    frequencies = 10000 ** (-torch.arange(half, device=x.device) / half)
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * frequencies
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


class Block(nn.Module):
    def __init__(self, of):
        super().__init__()
        width, hidden, self.llama, self.heads = of["width"], of["hidden"], of["llama"], of["heads"]
        norm = nn.RMSNorm if self.llama else nn.LayerNorm
        linear = lambda i, o: Linear(i, o, bias=not self.llama)
        self.norms = nn.ModuleList([norm(width), norm(width)])
        self.qkv, self.out = linear(width, 3 * width), linear(width, width)
        self.up, self.down = linear(width, hidden), linear(hidden, width)
        self.gate = linear(width, hidden) if self.llama else None

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).split(width, 2)
        q, k, v = (t.view(batch, time, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        if self.llama:
            q, k = rotate(q), rotate(k)
        y = attention(q.contiguous(), k.contiguous(), v.contiguous())
        x = x + F.dropout(self.out(y.transpose(1, 2).reshape(batch, time, width)), 0.2, self.training)
        y = self.norms[1](x)
        y = F.silu(self.gate(y)) * self.up(y) if self.llama else F.gelu(self.up(y))
        return x + F.dropout(self.down(y), 0.2, self.training)


class Model(nn.Module):
    def __init__(self, of, vocabulary):
        super().__init__()
        width = of["width"]
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = None if of["llama"] else nn.Embedding(TIME, width)
        self.blocks = nn.ModuleList(Block(of) for _ in range(of["layers"]))
        self.norm = nn.RMSNorm(width) if of["llama"] else nn.LayerNorm(width)
        self.head = Linear(width, vocabulary, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, 0, 0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, ids, targets, weights):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x)).float()
        losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
        return (losses.view_as(ids).mean(1) * weights).sum() / weights.sum()


class Text:
    def __init__(self, path, device):
        text = open(path, "rb").read()
        characters = sorted(set(text))
        number = {c: i for i, c in enumerate(characters)}
        ids = torch.tensor([number[c] for c in text], device=device)
        n = len(ids) * 9 // 10
        self.train, self.held_out, self.vocabulary = ids[:n], ids[n:], len(characters)

    def batch(self, generator):
        first = torch.randint(len(self.train) - TIME - 1, (BATCH,), device=self.train.device, generator=generator)
        at = first[:, None] + torch.arange(TIME, device=first.device)
        return self.train[at], self.train[at + 1]

    def held_out_batches(self, rows=64):
        size = rows * TIME
        for i in range(0, len(self.held_out) - size - 1, size):
            yield self.held_out[i : i + size].view(rows, TIME), self.held_out[i + 1 : i + 1 + size].view(rows, TIME)


def rate(step, steps):
    return 1e-3 * min(1, (step + 1) / 50) * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps)))


class Run:
    """One model trained in one arithmetic, its steps replayed from a recorded graph on a stream of its own."""

    def __init__(self, text, of, seed):
        self.device, self.uneven, self.seed = text.train.device, of["uneven"], seed
        torch.manual_seed(seed)
        self.model = Model(of, text.vocabulary).to(self.device)
        self.text = text
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self.lr = torch.tensor(0.0, device=self.device)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), self.lr, betas=(0.9, 0.99), weight_decay=0.1, fused=True, capturable=True
        )
        self.ids, self.targets = (t.clone() for t in text.batch(self.generator))
        self.weights = torch.ones(BATCH, device=self.device)
        self.stream = torch.cuda.Stream()
        self.held_out, self.lost = {}, {}
        self.record()

    def loss(self):
        with torch.autocast("cuda", torch.bfloat16, enabled=LAW.autocast, cache_enabled=False):
            return self.model(self.ids, self.targets, self.weights)

    def step(self):
        self.optimizer.zero_grad(set_to_none=False)
        loss = self.loss()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    def record(self):
        """With a rate of 0 the warm-up steps leave the weights; moments are cleared."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                self.step()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.recorded_loss = self.step()
        for state in self.optimizer.state.values():
            for tensor in state.values():
                tensor.zero_()
        torch.cuda.synchronize()

    def next(self, step, steps):
        with torch.cuda.stream(self.stream):
            for static, new in zip((self.ids, self.targets), self.text.batch(self.generator)):
                static.copy_(new)
            if self.uneven:
                exponents = torch.rand(BATCH, device=self.device, generator=self.generator) * 6 - 3
                self.weights.copy_(10**exponents)
            self.lr.fill_(rate(step, steps))
            self.graph.replay()

    def evaluate(self, step):
        """The held-out loss, and what quantising loses in this batch's pass."""
        self.model.eval()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=LAW.autocast):
            ones = torch.ones(64, device=self.device)
            losses = [self.model(x, y, ones).item() for x, y in self.text.held_out_batches()]
        self.model.train()
        self.held_out[step] = round(sum(losses) / len(losses), 5)
        if LAW.integer:
            LAW.probe = Probe()
            self.optimizer.zero_grad(set_to_none=False)
            self.loss().backward()
            self.lost[step] = LAW.probe.summary()
            LAW.probe = None


def train(text, name, arithmetic, seeds, steps):
    """Trains the seeds side by side."""
    global LAW
    LAW = Law(arithmetic)
    began = time.time()
    runs = [Run(text, MODELS[name], seed) for seed in seeds]
    for step in range(steps):
        for run in runs:
            run.next(step, steps)
        if step + 1 in (1, steps // 8, steps // 4, steps // 2, steps):
            torch.cuda.synchronize()
            for run in runs:
                run.evaluate(step + 1)
            torch.cuda.synchronize()
    seconds = round(time.time() - began, 1)
    for run in runs:
        yield dict(
            model=name, arithmetic=arithmetic, seed=run.seed, steps=steps, held_out=run.held_out,
            train=round(run.recorded_loss.item(), 5), lost=run.lost, seconds_of_all_seeds=seconds,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--arithmetics", default="f32,integer")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--eager", action="store_true", help="without the compiler")
    parser.add_argument("--seconds", type=float, default=math.inf)
    chosen = parser.parse_args()
    global FUSES
    FUSES = not chosen.eager
    torch._dynamo.config.recompile_limit = 256
    torch.backends.cuda.matmul.allow_tf32 = False
    text, began = Text(chosen.text, "cuda"), time.time()
    seeds, longest = [int(seed) for seed in chosen.seeds.split(",")], 0.0
    for name in chosen.models.split(","):
        for arithmetic in chosen.arithmetics.split(","):
            if time.time() - began + longest > chosen.seconds:
                return
            start = time.time()
            results = list(train(text, name, arithmetic, seeds, chosen.steps))
            longest = max(longest, time.time() - start)
            with open(chosen.out, "a") as out:
                out.writelines(json.dumps(result) + "\n" for result in results)


if __name__ == "__main__":
    main()
