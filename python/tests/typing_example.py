"""What type checkers see of user code: `cargo xtask python --types` runs mypy and pyright on it, in strict modes.

`assert_type` fails where a checker sees another type than a reader expects. The file is not run.
"""

from typing import assert_type

import numpy

import hlx
import hlx.nn.functional as F
from hlx.utils.data import DataLoader, Dataset, Subset, random_split


def tensors() -> hlx.Tensor:
    """Making tensors, operators, indexing, reading."""
    x = hlx.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=hlx.float32, device="cpu", requires_grad=True)
    assert_type(x, hlx.Tensor)
    assert_type(2 * x + x / 3 - x**2, hlx.Tensor)
    assert_type(x @ x.T, hlx.Tensor)
    assert_type(x == 1.0, hlx.Tensor)
    assert_type(x < hlx.ones(2, 2), hlx.Tensor)
    assert_type(x[0, 1:], hlx.Tensor)
    assert_type(x[x > 2], hlx.Tensor)
    assert_type(-abs(x), hlx.Tensor)
    assert_type(x.shape, hlx.Size)
    assert_type(x.shape[0], int)
    assert_type(x.dtype, hlx.dtype)
    assert_type(x.device, hlx.device)
    assert_type(x.ndim, int)
    assert_type(x.grad, hlx.Tensor | None)
    assert_type(x.digest(), str)
    assert_type(float(x.sum()), float)
    assert_type(len(x), int)
    assert_type([row for row in x], list[hlx.Tensor])
    x[0] = 1.0
    x += 1
    return x


def operations(x: hlx.Tensor) -> None:
    """Functions of the package and methods of tensors have the same types."""
    assert_type(hlx.exp(x), hlx.Tensor)
    assert_type(x.exp(), hlx.Tensor)
    assert_type(hlx.sum(x, 0, keepdim=True), hlx.Tensor)
    assert_type(x.sum(dim=(0, 1), keepdim=True), hlx.Tensor)
    assert_type(hlx.cat([x, x], dim=0), hlx.Tensor)
    assert_type(x.reshape(2, -1).permute(1, 0).contiguous(), hlx.Tensor)
    assert_type(x.softmax(-1), hlx.Tensor)
    assert_type(hlx.where(x > 0, x, 0.0), hlx.Tensor)
    assert_type(x.sort(0).values, hlx.Tensor)
    assert_type(x.topk(2)[1], hlx.Tensor)
    assert_type(x.argmax(), hlx.Tensor)
    assert_type(x.to(hlx.float16), hlx.Tensor)
    assert_type(hlx.allclose(x, x), bool)
    assert_type(F.relu(F.linear(x, x)), hlx.Tensor)
    assert_type(F.cross_entropy(x, hlx.tensor([0, 1])), hlx.Tensor)


class Net(hlx.nn.Module):
    """A model of layers and a parameter."""

    def __init__(self) -> None:
        """Makes the layers."""
        super().__init__()
        self.body = hlx.nn.Sequential(hlx.nn.Linear(2, 3), hlx.nn.ReLU())
        self.scale = hlx.nn.Parameter(hlx.ones(3))

    def forward(self, x: hlx.Tensor) -> hlx.Tensor:
        """Computes rows of 3."""
        y: hlx.Tensor = self.body(x) * self.scale
        return y


def modules() -> None:
    """Models, their parameters and their state."""
    net = Net().to("cpu").eval()
    assert_type(net, Net)
    assert_type(net.scale, hlx.nn.Parameter)
    assert_type(list(net.parameters()), list[hlx.nn.Parameter])
    assert_type(net.load_state_dict(net.state_dict()).missing_keys, list[str])
    assert_type(net.digest(), str)
    assert_type(hlx.nn.Linear(2, 3).weight, hlx.nn.Parameter)
    assert_type(hlx.nn.utils.clip_grad_norm_(net.parameters(), 1.0), hlx.Tensor)
    hlx.nn.init.xavier_uniform_(net.scale)


def gradients(weight: hlx.Tensor) -> None:
    """A step of gradient descent."""
    loss = (weight**2).sum()
    loss.backward()
    with hlx.no_grad():
        if weight.grad is not None:
            weight -= 0.1 * weight.grad
    weight.grad = None


def exchange(x: hlx.Tensor) -> None:
    """NumPy's arrays and back."""
    array = x.numpy()
    assert_type(hlx.from_numpy(array), hlx.Tensor)
    assert_type(hlx.from_dlpack(array), hlx.Tensor)
    numpy.testing.assert_array_equal(numpy.asarray(x), array)
    memoryview(x)


class Lines(Dataset[tuple[hlx.Tensor, int]]):
    """A data set of one's own."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> tuple[hlx.Tensor, int]:
        return hlx.ones(3), index


def training(weight: hlx.Tensor) -> None:
    """An optimizer, a scheduler and a loader."""
    optimizer = hlx.optim.AdamW([weight], lr=0.1, betas=(0.9, 0.95))
    scheduler = hlx.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    for x, y in DataLoader(Lines(), batch_size=2, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(x @ weight, y).backward()
        optimizer.step()
        scheduler.step()
    assert_type(scheduler.get_last_lr(), list[float])
    assert_type(optimizer.parameters_digest(), str)
    assert_type(optimizer.clip_grad_norm_(1.0), hlx.Tensor)
    train, _ = random_split(Lines(), [0.5, 0.5], hlx.Generator())
    assert_type(train, Subset[tuple[hlx.Tensor, int]])


def texts(shards: hlx.text.Shards) -> None:
    """A tokenizer, and rows of tokens in a loader."""
    tokenizer = hlx.text.Tokenizer.train_from_iterator(["a river"], vocab_size=300)
    assert_type(tokenizer.encode("a"), list[int])
    assert_type(tokenizer.decode(hlx.tensor([1, 2])), str)
    assert_type(tokenizer.eos_token_id, int | None)
    assert_type(shards[0], dict[str, hlx.Tensor])
    rows = shards.rows(8, "packed", seed=1)
    assert_type(rows.batches(2).batch(0)["ids"], hlx.Tensor)
    for batch in DataLoader(rows, batch_size=2):
        F.cross_entropy(batch["ids"].float(), batch["targets"])
