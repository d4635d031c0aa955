"""PyTorch's side of the comparison: the same operations and training steps as hlx-bench.

  python3 peers.py serve [--device cuda|cpu] [--threads N]
  python3 peers.py first-step CONFIGURATION [--mode MODE] [--device cuda|cpu]
  python3 peers.py infer CONFIGURATION [--mode eager|compiled] [--batches 1,2,4] [--repeats N]

`serve` prints `ready DESCRIPTION`, then answers each line `run CASE` (for a step with a mode: `run
step medium compiled`) with `ok ms=M [graph_ms=G]` or `error MESSAGE`, and exits when its input
ends; `digest CASE` is answered with SHA-256 of a product of the operands of gemm.py, or of all parameters after three steps
from seed 1. `hlx-bench peers` starts it beside HLX and measures both in turns. Everything is f32 with TF32
off, except for steps in these modes:

  eager           f32 (the default)
  compiled        f32, forward and backward through torch.compile
  tf32-eager      products may round their operands to TF32
  tf32-compiled   both
  bf16-graph      autocast to bf16, torch.compile, and the whole step (upload aside) in one CUDA graph

`infer` calls a model at each batch size: ids from the host, logits of all positions on the device,
waited for. The first call at a size is its cold time (compiled: with its compilation, for this
size alone), the median of N more, after 0.3 s of calls, its warm time; `row_0` is the SHA-256 of the first
sequence's logits, the same ids in every batch (several, joined by +, where calls differ).

`ms` is the time of one run among many behind each other, launched from Python as users do; small
operations are bound by that. `graph_ms` is the same in a CUDA graph, which takes the launches
away. A case's name is read as benches/src/cases.rs writes it. Needs torch alone; `compiled` needs
Triton and a C compiler besides, and says so where they lack.
"""

import argparse
import ctypes
import gc
import hashlib
import os
import statistics
import sys
import time

START = time.perf_counter()

try:  # Its import counts in the first step.
    import torch
    import torch.nn.functional as F
except ModuleNotFoundError:
    sys.exit(f"error: {sys.executable} has no PyTorch (package torch)")

TRIES, SECONDS = 5, 0.25

# Calls go on for so long before warm ones are timed.
BUSY_SECONDS = 0.3

# Autograd's engine works outside of a capture, and a capture that fails spoils later ones.
NO_GRAPH = {"attention_backward", "batch_norm_backward", "rms_norm_backward"}

STEP_MODES = ("eager", "compiled", "tf32-eager", "tf32-compiled", "bf16-graph")

# vocabulary, width, layers, heads, positions, batch
CONFIGURATIONS = {
    "mini": (64, 32, 1, 2, 16, 8),
    "tiny": (256, 256, 4, 4, 128, 8),
    "small": (256, 512, 6, 8, 256, 32),
    "medium": (256, 768, 12, 12, 512, 32),
    "gpt2": (50304, 768, 12, 12, 1024, 8),
}


# the widths of the perceptron of benches/src/mlp.rs, and its batch
MLP, MLP_BATCH = (784, 512, 512, 10), 256

# Steps before the digest of a training.
DIGEST_STEPS = 3

# channels of the first stage, blocks a stage, batch
RESNETS = {"resnet-mini": (8, 1, 8), "resnet-32": (64, 2, 32), "resnet-128": (64, 2, 128)}


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(o.transpose(1, 2).reshape(b, t, c))


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention_norm = torch.nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed_forward_norm = torch.nn.LayerNorm(width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.down(F.gelu(self.up(self.feed_forward_norm(x))))


class Transformer(torch.nn.Module):
    """hlx-nn's transformer: pre-norm blocks, exact GELU, an output of its own without bias."""

    def __init__(self, vocabulary, width, layers, heads, positions):
        super().__init__()
        self.token_embedding = torch.nn.Embedding(vocabulary, width)
        self.position_embedding = torch.nn.Embedding(positions, width)
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final_norm = torch.nn.LayerNorm(width)
        self.output = torch.nn.Linear(width, vocabulary, bias=False)
        for name, value in self.named_parameters():
            if value.dim() == 2:
                std = 0.02 / (2 * layers) ** 0.5 if name.endswith(("out.weight", "down.weight")) else 0.02
                torch.nn.init.normal_(value, std=std)

    def forward(self, ids):
        positions = torch.arange(ids.shape[1], device=ids.device)
        x = self.token_embedding(ids) + self.position_embedding(positions)
        for block in self.blocks:
            x = block(x)
        return self.output(self.final_norm(x))


class Normed(torch.nn.Sequential):
    """A convolution without bias and the batch norm behind it."""

    def __init__(self, channels, output, kernel, stride):
        convolution = torch.nn.Conv2d(channels, output, kernel, stride, kernel // 2, bias=False)
        super().__init__(convolution, torch.nn.BatchNorm2d(output))


class BasicBlock(torch.nn.Module):
    def __init__(self, channels, output, stride):
        super().__init__()
        self.first = Normed(channels, output, 3, stride)
        self.second = Normed(output, output, 3, 1)
        changes = stride != 1 or channels != output
        self.shortcut = Normed(channels, output, 1, stride) if changes else torch.nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.shortcut(x))


class ResNet(torch.nn.Module):
    """The network of benches/src/resnet.rs, for images [B, 3, 32, 32] of 10 classes."""

    def __init__(self, width, blocks):
        super().__init__()
        self.stem = Normed(3, width, 3, 1)
        layers, channels = [], width
        for stage in range(3):
            for place in range(blocks):
                stride = 2 if stage > 0 and place == 0 else 1
                layers.append(BasicBlock(channels, width << stage, stride))
                channels = width << stage
        self.blocks = torch.nn.Sequential(*layers)
        self.output = torch.nn.Linear(channels, 10)

    def forward(self, x):
        return self.output(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class Side:
    """A device, and what was prepared on it."""

    def __init__(self, device, threads):
        if threads:
            torch.set_num_threads(threads)
        if device == "cuda" and not torch.cuda.is_available():
            raise SystemExit("error: PyTorch sees no CUDA device")
        self.device = torch.device(device)
        self.cuda = device == "cuda"
        self.allow_tf32(False)
        torch.manual_seed(1)
        self.prepared = {}
        self.case = None

    def describe(self):
        if self.cuda:
            name, build = torch.cuda.get_device_name(), f"CUDA {torch.version.cuda}"
        else:
            name, build = "CPU", f"{torch.get_num_threads()} threads"
        return f"PyTorch {torch.__version__}, {name}, {build}"

    def allow_tf32(self, allow):
        # A switch for products and one for cuDNN's convolutions, whose fastest kernel is looked for.
        torch.set_float32_matmul_precision("high" if allow else "highest")
        torch.backends.cudnn.allow_tf32 = allow
        torch.backends.cudnn.benchmark = True

    def sync(self):
        if self.cuda:
            torch.cuda.synchronize()

    def values(self, *shape):
        return torch.empty(shape, device=self.device).uniform_(-1.0, 1.0)

    def ids(self, n, below):
        return torch.randint(0, below, (n,), device=self.device)

    # The operations of benches/src/cases.rs, each as a function that runs once.

    def operation(self, op, s):
        return getattr(self, "op_" + op)(*s)

    def op_matmul(self, m, n, k):
        a, b, c = self.values(m, k), self.values(k, n), self.values(m, n)
        return lambda: torch.mm(a, b, out=c)

    def op_matmul_tn(self, m, n, k):
        a, b, c = self.values(k, m), self.values(k, n), self.values(m, n)
        return lambda: torch.mm(a.t(), b, out=c)

    op_weight_gradient = op_matmul_tn

    def op_matmul_nt(self, m, n, k):
        a, b, c = self.values(m, k), self.values(n, k), self.values(m, n)
        return lambda: torch.mm(a, b.t(), out=c)

    op_integer_product = op_integer_sums = op_matmul_nt

    def op_linear(self, m, n, k):
        x, w, b = self.values(m, k), self.values(n, k), self.values(n)
        return lambda: F.linear(x, w, b)

    def op_linear_gelu(self, m, n, k):
        x, w, b = self.values(m, k), self.values(n, k), self.values(n)
        return lambda: F.gelu(F.linear(x, w, b))

    def op_softmax_forward(self, rows, cols):
        x = self.values(rows, cols)
        return lambda: torch.softmax(x, -1)

    def op_softmax_backward(self, rows, cols):
        y, dy = torch.softmax(self.values(rows, cols), -1), self.values(rows, cols)
        return lambda: torch.ops.aten._softmax_backward_data(dy, y, -1, torch.float32)

    def norm(self, rows, cols):
        x, dy = self.values(rows, cols), self.values(rows, cols)
        w, b = self.values(cols), self.values(cols)
        _, mean, rstd = torch.ops.aten.native_layer_norm(x, [cols], w, b, 1e-5)

        def backward(mask):
            return lambda: torch.ops.aten.native_layer_norm_backward(
                dy, x, [cols], mean, rstd, w, b, mask
            )

        return lambda: F.layer_norm(x, (cols,), w, b), backward

    def op_layer_norm_forward(self, rows, cols):
        return self.norm(rows, cols)[0]

    def op_layer_norm_backward(self, rows, cols):
        return self.norm(rows, cols)[1]([True, False, False])

    def op_layer_norm_params(self, rows, cols):
        return self.norm(rows, cols)[1]([False, True, True])

    def op_rms_norm_forward(self, rows, cols):
        x, w = self.values(rows, cols), self.values(cols)
        return lambda: F.rms_norm(x, (cols,), w, 1e-5)

    def op_rms_norm_backward(self, rows, cols):
        x, w = self.values(rows, cols).requires_grad_(), self.values(cols).requires_grad_()
        y, dy = F.rms_norm(x, (cols,), w, 1e-5), self.values(rows, cols)
        return lambda: torch.autograd.grad(y, (x, w), dy, retain_graph=True)

    def batch_norm(self, n, c, size):
        x, w, b = self.values(n, c, size, size), self.values(c), self.values(c)
        x, w, b = (tensor.requires_grad_() for tensor in (x, w, b))
        mean, variance = torch.zeros_like(w), torch.ones_like(w)
        return (x, w, b), lambda: F.batch_norm(x, mean, variance, w, b, True, 0.1, 1e-5)

    def op_batch_norm_forward(self, n, c, size):
        _, forward = self.batch_norm(n, c, size)

        def run():
            with torch.no_grad():
                return forward()

        return run

    def op_batch_norm_backward(self, n, c, size):
        leaves, forward = self.batch_norm(n, c, size)
        y, dy = forward(), self.values(n, c, size, size)
        return lambda: torch.autograd.grad(y, leaves, dy, retain_graph=True)

    def op_gelu_forward(self, rows, cols):
        x = self.values(rows, cols)
        return lambda: F.gelu(x)

    def op_gelu_backward(self, rows, cols):
        x, dy = self.values(rows, cols), self.values(rows, cols)
        return lambda: torch.ops.aten.gelu_backward(dy, x)

    def op_cross_entropy_forward(self, rows, cols):
        x, target = self.values(rows, cols), self.ids(rows, cols)
        return lambda: F.cross_entropy(x, target)

    def op_cross_entropy_backward(self, rows, cols):
        x, target = self.values(rows, cols), self.ids(rows, cols)
        logs = F.log_softmax(x, -1)
        _, weight = torch.ops.aten.nll_loss_forward(logs, target, None, 1, -100)
        one = torch.ones((), device=self.device)

        def run():
            d = torch.ops.aten.nll_loss_backward(one, logs, target, None, 1, -100, weight)
            return torch.ops.aten._log_softmax_backward_data(d, logs, -1, torch.float32)

        return run

    def attend(self, qkv):
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def op_attention_forward(self, b, t, h, d):
        qkv = self.values(b, t, 3, h, d)
        return lambda: self.attend(qkv)

    def op_attention_backward(self, b, t, h, d):
        qkv = self.values(b, t, 3, h, d).requires_grad_()
        o = self.attend(qkv)
        d_o = torch.rand_like(o)
        return lambda: torch.autograd.grad(o, qkv, d_o, retain_graph=True)

    def op_column_sum(self, rows, cols):
        x = self.values(rows, cols)
        return lambda: x.sum(0)

    def op_global_norm(self, n):
        x = self.values(n)
        return lambda: torch.linalg.vector_norm(x)

    def op_adamw(self, n):
        p = self.values(n).requires_grad_()
        p.grad = self.values(n)
        optimizer = torch.optim.AdamW([p], fused=True, capturable=self.cuda)
        return optimizer.step

    def op_add(self, n):
        a, b, c = self.values(n), self.values(n), self.values(n)
        return lambda: torch.add(a, b, out=c)

    def op_transposed(self, rows, cols):
        x, y = self.values(rows, cols), self.values(cols, rows)
        return lambda: y.copy_(x.t())

    def op_permuted(self, b, t, h, d):
        x, y = self.values(b, t, h, d), self.values(b, h, t, d)
        return lambda: y.copy_(x.transpose(1, 2))

    def op_cat(self, rows, cols):
        halves = [self.values(rows, cols // 2), self.values(rows, cols - cols // 2)]
        y = self.values(rows, cols)
        return lambda: torch.cat(halves, 1, out=y)

    def op_exp(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows, cols)
        return lambda: torch.exp(x, out=y)

    def op_to_bf16(self, rows, cols):
        x = self.values(rows, cols)
        y = torch.empty_like(x, dtype=torch.bfloat16)
        return lambda: y.copy_(x)

    def op_add_row(self, rows, cols):
        a, b, y = self.values(rows, cols), self.values(cols), self.values(rows, cols)
        return lambda: torch.add(a, b, out=y)

    def op_add_transposed(self, rows, cols):
        a, b, y = self.values(rows, cols), self.values(cols, rows).t(), self.values(rows, cols)
        return lambda: torch.add(a, b, out=y)

    def op_where(self, rows, cols):
        a, b, y = (self.values(rows, cols) for _ in range(3))
        condition = a > 0
        return lambda: torch.where(condition, a, b, out=y)

    def op_sum_inner(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows)
        return lambda: torch.sum(x, 1, out=y)

    def op_sum_outer(self, rows, cols):
        x, y = self.values(rows, cols), self.values(cols)
        return lambda: torch.sum(x, 0, out=y)

    def op_amax_inner(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows)
        return lambda: torch.amax(x, 1, out=y)

    def op_argmax_inner(self, rows, cols):
        x = self.values(rows, cols)
        return lambda: torch.argmax(x, 1)

    def op_cumsum_inner(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows, cols)
        return lambda: torch.cumsum(x, 1, out=y)

    def op_cumsum_outer(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows, cols)
        return lambda: torch.cumsum(x, 0, out=y)

    def op_sort_inner(self, rows, cols):
        x = self.values(rows, cols)
        return lambda: torch.sort(x, dim=1, stable=True)

    def op_topk(self, rows, cols):
        x = self.values(rows, cols)
        return lambda: torch.topk(x, 64, 1)

    def op_gather(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows, cols)
        index = self.ids(rows * cols, cols).view(rows, cols)
        return lambda: torch.gather(x, 1, index, out=y)

    def op_index_select(self, rows, cols):
        x, y, index = self.values(rows, cols), self.values(rows, cols), self.ids(rows, rows)
        return lambda: torch.index_select(x, 0, index, out=y)

    def op_scatter_add(self, rows, cols):
        x, y = self.values(rows, cols), self.values(rows, cols)
        index = self.ids(rows * cols, cols).view(rows, cols)
        return lambda: y.scatter_add_(1, index, x)

    def op_index_add(self, rows, cols):
        x, y, index = self.values(rows, cols), self.values(rows, cols), self.ids(rows, rows)
        return lambda: y.index_add_(0, index, x)

    def chain(self, rows, cols, count, compile_it=False):
        a, b, row = self.values(rows, cols), self.values(rows, cols), self.values(cols)

        def run(a, b, row):
            y = torch.relu(torch.tanh(a * b + row) * a - b)
            if count == 12:
                y = -torch.maximum(torch.exp(torch.square(y) * row), a) + b
            return y

        run = compiled(run) if compile_it else run
        return lambda: run(a, b, row)

    def op_chain_6(self, rows, cols):
        return self.chain(rows, cols, 6)

    def op_chain_6_compiled(self, rows, cols):
        return self.chain(rows, cols, 6, True)

    def op_chain_12(self, rows, cols):
        return self.chain(rows, cols, 12)

    def op_chain_12_compiled(self, rows, cols):
        return self.chain(rows, cols, 12, True)

    def op_conv2d_forward(self, n, c, d, size, kernel):
        x, w = self.values(n, c, size, size), self.values(d, c, kernel, kernel)
        return lambda: F.conv2d(x, w, padding=kernel // 2)

    def convolution_backward(self, n, c, d, size, kernel, mask):
        x, w = self.values(n, c, size, size), self.values(d, c, kernel, kernel)
        dy = torch.empty_like(F.conv2d(x, w, padding=kernel // 2)).uniform_(-1.0, 1.0)
        one, padding = [1, 1], [kernel // 2, kernel // 2]
        return lambda: torch.ops.aten.convolution_backward(
            dy, x, w, None, one, padding, one, False, [0, 0], 1, mask
        )

    def op_conv2d_backward_input(self, *sizes):
        return self.convolution_backward(*sizes, [True, False, False])

    def op_conv2d_backward_weight(self, *sizes):
        return self.convolution_backward(*sizes, [False, True, False])

    # One layer of an LSTM: cuDNN's on a GPU.

    def lstm(self, n, time, inputs, units):
        layer = torch.nn.LSTM(inputs, units, batch_first=True).to(self.device)
        return layer, self.values(n, time, inputs).requires_grad_()

    def op_lstm_forward(self, *sizes):
        layer, x = self.lstm(*sizes)
        return lambda: layer(x)

    def op_lstm_backward(self, *sizes):
        layer, x = self.lstm(*sizes)
        y, _ = layer(x)
        dy = torch.empty_like(y).uniform_(-1.0, 1.0)
        to = [x, *layer.parameters()]
        return lambda: torch.autograd.grad(y, to, dy, retain_graph=True)

    def op_embedding_forward(self, n, vocabulary, width):
        ids, w = self.ids(n, vocabulary), self.values(vocabulary, width)
        return lambda: F.embedding(ids, w)

    def op_embedding_backward(self, n, vocabulary, width):
        ids, dy = self.ids(n, vocabulary), self.values(n, width)
        return lambda: torch.ops.aten.embedding_dense_backward(dy, ids, vocabulary, -1, False)

    # Training steps.

    def training(self, name, mode):
        """A function that runs one step in a mode and returns the loss."""
        if mode not in STEP_MODES:
            raise ValueError(f"no mode `{mode}`; there are {', '.join(STEP_MODES)}")
        model, host = self.model_of(name)
        self.trained = model
        host = [part.pin_memory() if self.cuda else part for part in host]
        in_graph = mode == "bf16-graph" and self.cuda
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=3e-4, weight_decay=0.01, fused=True, capturable=in_graph
        )

        def loss_of(inputs, targets):
            return F.cross_entropy(model(inputs).flatten(0, -2), targets.reshape(-1))

        plain = loss_of
        if mode in ("compiled", "tf32-compiled", "bf16-graph"):
            loss_of = compiled(plain)
        bf16 = mode == "bf16-graph"

        def on_device(inputs, targets, loss_of=loss_of):
            optimizer.zero_grad(set_to_none=True)
            # The cache of casted weights must not outlive a capture.
            with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16, cache_enabled=False):
                loss = loss_of(inputs, targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()
            return loss

        if in_graph:
            try:
                return self.captured(on_device, host)
            except Exception as error:  # noqa: BLE001 (torch makes the graphs then)
                print(f"step {name}: no graph of the whole step: {first_line(error)}", file=sys.stderr)
                torch.cuda.synchronize()
                with_graphs = compiled(plain, mode="reduce-overhead")

                def step():
                    torch.compiler.cudagraph_mark_step_begin()
                    return on_device(*self.uploaded(host), with_graphs)

                return step

        def step():
            self.allow_tf32(mode.startswith("tf32"))
            return on_device(*self.uploaded(host))

        return step

    def model_of(self, name):
        """A model on the device, and its batch on the host."""
        if name == "mlp":
            return self.perceptron()
        return self.images(name) if name in RESNETS else self.sequences(name)

    def perceptron(self):
        """A perceptron, and a batch of rows with their classes."""
        layers = []
        for inputs, outputs in zip(MLP, MLP[1:]):
            layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1]).to(self.device)
        return model, [torch.rand(MLP_BATCH, MLP[0]) * 2 - 1, torch.randint(0, MLP[-1], (MLP_BATCH,))]

    def sequences(self, name):
        """A transformer, and the ids of a batch with those that follow."""
        vocabulary, width, layers, heads, positions, batch = CONFIGURATIONS[name]
        model = Transformer(vocabulary, width, layers, heads, positions).to(self.device)
        tokens = torch.randint(0, vocabulary, (batch, positions + 1))
        return model, [tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()]

    def images(self, name):
        """A residual network, and a batch of images with their classes."""
        width, blocks, batch = RESNETS[name]
        model = ResNet(width, blocks).to(self.device)
        return model, [torch.rand(batch, 3, 32, 32), torch.randint(0, 10, (batch,))]

    def uploaded(self, host):
        return [part.to(self.device, non_blocking=True) for part in host]

    def captured(self, on_device, host):
        """A step as one CUDA graph, with the upload of its batch before it."""
        self.allow_tf32(False)
        parts = self.uploaded(host)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                on_device(*parts)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            loss = on_device(*parts)

        def step():
            for part, own in zip(parts, host):
                part.copy_(own, non_blocking=True)
            graph.replay()
            return loss

        return step

    # Calls of a model at several batch sizes.

    def inference(self, name, mode, batches, repeats):
        """Yields the batch size, its cold and warm time, and the digests of row 0."""
        vocabulary, width, layers, heads, positions, _ = CONFIGURATIONS[name]
        model = Transformer(vocabulary, width, layers, heads, positions).to(self.device).eval()
        call = compiled(model) if mode == "compiled" else model
        generator = torch.Generator().manual_seed(2)
        tokens = torch.randint(0, vocabulary, (max(batches), positions), generator=generator)
        # CUDA and its libraries are up before the first call is timed.
        torch.mm(self.values(256, 256), self.values(256, 256))
        for batch in batches:
            host = tokens[:batch].contiguous()
            host = host.pin_memory() if self.cuda else host

            def timed():
                self.sync()
                start = time.perf_counter()
                with torch.inference_mode():
                    logits = call(host.to(self.device, non_blocking=True))
                self.sync()
                return (time.perf_counter() - start) * 1e3, logits[0].cpu()

            cold, row = timed()
            rows, times = [row], []
            busy = time.perf_counter()
            while time.perf_counter() - busy < BUSY_SECONDS:
                timed()
            for _ in range(repeats):
                warm, row = timed()
                times.append(warm)
                rows.append(row)
            digests = {digest(row) for row in rows}
            yield batch, cold, statistics.median(times), sorted(digests)

    # Timing.

    def in_a_row(self, run, seconds=SECONDS):
        """Milliseconds a run: the median of several tries, each of many runs."""

        def timed(count):
            self.sync()
            start = time.perf_counter()
            for _ in range(count):
                run()
            self.sync()
            return (time.perf_counter() - start) * 1e3 / count

        timed(1)
        once = timed(2)
        count = int(min(max(seconds * 1e3 / (TRIES * once), 1), 1e5))
        return statistics.median(timed(count) for _ in range(TRIES))

    def graph_of(self, run):
        """A CUDA graph of the runs that take about two milliseconds, and their number."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                run()
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        count = int(min(max(2.0 / self.in_a_row(run, 0.02), 1), 200))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count):
                run()
        return graph, count

    def prepare(self, name):
        op, rest = name.split(" ", 1)
        if op == "step":
            configuration, _, mode = rest.partition(" ")
            return self.training(configuration, mode or "eager"), None
        run = self.operation(op, [int(size) for size in rest.split("x")])
        graph = None
        if self.cuda and op not in NO_GRAPH:
            try:
                graph = self.graph_of(run)
            except Exception as error:  # noqa: BLE001 (an operation that no graph takes)
                print(f"{name}: no CUDA graph: {first_line(error)}", file=sys.stderr)
                torch.cuda.synchronize()
        return run, graph

    def digest(self, name):
        """SHA-256 of a product, or of the parameters after some steps."""
        self.prepared.clear()
        self.case = None
        op, rest = name.split(" ", 1)
        if op == "step":
            torch.manual_seed(1)
            step = self.training(rest, "eager")
            for _ in range(DIGEST_STEPS):
                step()
            parts = self.trained.parameters()
        elif op == "matmul":
            m, n, k = (int(size) for size in rest.split("x"))
            parts = [torch.mm(self.operand(m, k), self.operand(k, n))]
        else:
            raise ValueError(f"`{name}` has no digest: products and training steps have")
        found = hashlib.sha256()
        for part in parts:
            found.update(raw_bytes(part.detach().cpu()))
        return f"ok digest={found.hexdigest()}"

    def operand(self, rows, cols):
        """Values between -1 and 1, bit for bit those of benches/src/maker.rs."""
        x = torch.arange(rows * cols, dtype=torch.int64)
        x = ((x ^ (x >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
        x = ((x ^ (x >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
        whole = (x ^ (x >> 16)).double().float()
        return (whole / 2**31 - 1.0).view(rows, cols).to(self.device)

    def answer(self, name):
        # One case at a time, in all its modes: a GPU would not hold them all.
        case = " ".join(name.split(" ")[:2])
        if case != self.case:
            self.prepared.clear()
            self.case = case
            gc.collect()
            if self.cuda:
                torch.cuda.empty_cache()
        if name not in self.prepared:
            self.prepared[name] = self.prepare(name)
        run, graph = self.prepared[name]
        reply = f"ok ms={self.in_a_row(run):.6f}"
        if graph:
            recorded, count = graph
            reply += f" graph_ms={self.in_a_row(recorded.replay) / count:.6f}"
        return reply


def compiled(function, **options):
    """torch.compile for these sizes alone. All steps share one code object, of which torch would
    compile eight versions, the later ones for sizes that vary, and then go on uncompiled."""
    import torch._dynamo

    torch._dynamo.config.cache_size_limit = 64
    return torch.compile(function, dynamic=False, **options)


def raw_bytes(tensor):
    """The bytes of a tensor on the host (numpy may be missing)."""
    words = tensor.contiguous().view(torch.uint8).flatten()
    return ctypes.string_at(words.data_ptr(), words.numel())


def digest(tensor):
    """SHA-256 of a tensor's bytes."""
    return hashlib.sha256(raw_bytes(tensor)).hexdigest()


def first_line(error):
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0] if text else ''}"


def say(line):
    print(line, flush=True)


def serve(side):
    say(f"ready {side.describe()}")
    for line in sys.stdin:
        verb, _, name = line.strip().partition(" ")
        try:
            say(side.digest(name) if verb == "digest" else side.answer(name))
        except Exception as error:  # noqa: BLE001 (the other side goes on)
            say(f"error {first_line(error)}")


def first_step(side, name, mode):
    step = side.training(name, mode)
    loss = step()
    side.sync()
    seconds = time.perf_counter() - START
    say(f"ok first_step_s={seconds:.3f} loss={loss.item():.5f}")
    for _ in range(3):
        step()
    side.sync()
    held = torch.cuda.max_memory_reserved() if side.cuda else 0
    used = torch.cuda.max_memory_allocated() if side.cuda else 0
    say(f"ok held_bytes={held} allocated_bytes={used}")
    sys.stdin.readline()


def infer(side, name, mode, batches, repeats):
    say(f"ready {side.describe()}")
    for batch, cold, warm, digests in side.inference(name, mode, batches, repeats):
        say(f"ok batch={batch} cold_ms={cold:.4f} warm_ms={warm:.4f} row_0={'+'.join(digests)}")


def main():
    parser = argparse.ArgumentParser(description="PyTorch's side of HLX's benchmarks.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("serve", "first-step", "infer"):
        sub = verbs.add_parser(verb)
        sub.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
        sub.add_argument("--threads", type=int, default=int(os.environ.get("HLX_THREADS", 0)))
        if verb == "infer":
            sub.add_argument("--batches", default="1,2,4,8,16,32,64,128")
            sub.add_argument("--repeats", type=int, default=10)
        if verb != "serve":
            others = [] if verb == "infer" else ["mlp", *RESNETS]
            sub.add_argument("configuration", choices=list(CONFIGURATIONS) + others)
            sub.add_argument("--mode", choices=STEP_MODES, default="eager")
    arguments = parser.parse_args()
    side = Side(arguments.device, arguments.threads)
    if arguments.verb == "serve":
        serve(side)
    elif arguments.verb == "infer":
        batches = [int(batch) for batch in arguments.batches.split(",")]
        infer(side, arguments.configuration, arguments.mode, batches, arguments.repeats)
    else:
        first_step(side, arguments.configuration, arguments.mode)


if __name__ == "__main__":
    main()
