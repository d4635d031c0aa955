"""Programs as tutorials of PyTorch have them, for a module that is PyTorch or HLX.

Each is a generator: it yields its model first, whose initial values the caller sets, and then numbers of its course.
Data and noise are NumPy's, so that both modules are given the same.
"""

import copy
import math
import random
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np


def quickstart(torch: Any, device: Any) -> Iterator[Any]:
    """A classifier of small images: a data set of one's own, a loader, epochs with a test."""
    nn = torch.nn
    rng = np.random.default_rng(0)
    images = rng.standard_normal((256, 1, 8, 8)).astype(np.float32)
    labels = (images.mean((1, 2, 3)) > 0).astype(np.int64)

    class Images(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return len(images)

        def __getitem__(self, index: int) -> tuple[Any, int]:
            return torch.from_numpy(images[index]), int(labels[index])

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.flatten = nn.Flatten()
            self.layers = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))

        def forward(self, x: Any) -> Any:
            return self.layers(self.flatten(x))

    model = Network().to(device)
    yield model
    loader = torch.utils.data.DataLoader(Images(), batch_size=64, shuffle=False)
    loss_fn, optimizer = nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=1e-1)
    for _ in range(3):
        model.train()
        for x, y in loader:
            loss = loss_fn(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        test_loss, correct = 0.0, 0.0
        with torch.no_grad():
            for x, y in loader:
                x, y = x.to(device), y.to(device)
                prediction = model(x)
                test_loss += loss_fn(prediction, y).item()
                correct += (prediction.argmax(1) == y).type(torch.float).sum().item()
        yield test_loss / len(loader)
        yield correct


def convolutions(torch: Any, device: Any) -> Iterator[Any]:
    """A convolutional network with momentum, a cosine schedule and clipped gradients."""
    nn, F = torch.nn, torch.nn.functional

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.norm = nn.Conv2d(3, 6, 5), nn.BatchNorm2d(6)
            self.conv2 = nn.Conv2d(6, 16, 3, padding=1, bias=False)
            self.pool = nn.MaxPool2d(2, 2)
            self.fc1, self.fc2 = nn.Linear(16 * 3 * 3, 32), nn.Linear(32, 10)

        def forward(self, x: Any) -> Any:
            x = self.pool(F.relu(self.norm(self.conv1(x))))
            x = torch.flatten(self.pool(F.relu(self.conv2(x))), 1)
            return F.log_softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

    model = Network().to(device)
    yield model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    rng = np.random.default_rng(1)
    for _ in range(5):
        x = torch.tensor(rng.standard_normal((8, 3, 16, 16)).astype(np.float32)).to(device)
        y = torch.tensor(rng.integers(0, 10, 8)).to(device)
        optimizer.zero_grad(set_to_none=True)
        output = model(x)
        loss = F.nll_loss(output, y)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        yield loss.item()
        yield float(norm)
        yield scheduler.get_last_lr()[0]
    guesses = output.argmax(dim=1, keepdim=True)
    yield int(guesses.eq(y.view_as(guesses)).sum())
    yield model.norm.running_mean.sum().item()


def translation(torch: Any, device: Any) -> Iterator[Any]:
    """An encoder and a decoder of GRUs with attention, which learn to turn a sequence around."""
    nn, F = torch.nn, torch.nn.functional
    width, vocabulary = 16, 12

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.gru = nn.GRU(width, width, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.gru(self.embedding(x))

    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(vocabulary, width)
            self.query, self.key, self.score = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1)
            self.gru = nn.GRU(2 * width, width, batch_first=True)
            self.out = nn.Linear(width, vocabulary)

        def forward(self, encoded: Any, hidden: Any, target: Any) -> Any:
            token = torch.empty(encoded.size(0), 1, dtype=torch.long, device=device).fill_(0)
            outputs = []
            for i in range(target.size(1)):
                scores = self.score(torch.tanh(self.query(hidden.permute(1, 0, 2)) + self.key(encoded)))
                context = torch.bmm(F.softmax(scores.squeeze(2).unsqueeze(1), dim=-1), encoded)
                output, hidden = self.gru(torch.cat((self.embedding(token), context), dim=2), hidden)
                outputs.append(self.out(output))
                token = target[:, i].unsqueeze(1)
            return F.log_softmax(torch.cat(outputs, dim=1), dim=-1)

    model = nn.ModuleDict({"encoder": Encoder(), "decoder": Decoder()}).to(device)
    yield model
    optimizers = [torch.optim.Adam(part.parameters(), lr=1e-2) for part in model.values()]
    criterion, rng = nn.NLLLoss(), np.random.default_rng(2)
    for _ in range(4):
        x = torch.from_numpy(rng.integers(0, vocabulary, (4, 6))).to(device)
        target = torch.flip(x, dims=[1])
        for optimizer in optimizers:
            optimizer.zero_grad()
        output = model["decoder"](*model["encoder"](x), target)
        loss = criterion(output.view(-1, output.size(-1)), target.reshape(-1))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        yield loss.item()
    yield output.topk(1)[1].squeeze().detach().tolist()


def adversaries(torch: Any, device: Any) -> Iterator[Any]:
    """A generator of images and its critic, as DCGAN has them."""
    nn = torch.nn
    rng = np.random.default_rng(4)

    def drawn(module: Any) -> None:
        name = module.__class__.__name__
        if name.find("Conv") != -1:
            nn.init.normal_(module.weight.data, 0.0, 0.02)
        elif name.find("BatchNorm") != -1:
            nn.init.normal_(module.weight.data, 1.0, 0.02)
            nn.init.constant_(module.bias.data, 0)

    generator = nn.Sequential(
        nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False),
        nn.BatchNorm2d(16),
        nn.ReLU(True),
        nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
        nn.Tanh(),
    )
    critic = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1, bias=False),
        nn.LeakyReLU(0.2, inplace=True),
        nn.Conv2d(8, 1, 4, 1, 0, bias=False),
        nn.Sigmoid(),
    )
    model = nn.ModuleList([generator, critic]).to(device)
    model.apply(drawn)
    yield model
    criterion = nn.BCELoss()
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    for _ in range(3):
        critic.zero_grad()
        real = torch.tensor(rng.standard_normal((6, 1, 8, 8)).astype(np.float32)).to(device)
        label = torch.full((real.size(0),), 1.0, dtype=torch.float, device=device)
        error_of_real = criterion(critic(real).view(-1), label)
        error_of_real.backward()
        fake = generator(torch.tensor(rng.standard_normal((6, 8, 1, 1)).astype(np.float32)).to(device))
        label.fill_(0.0)
        error_of_fake = criterion(critic(fake.detach()).view(-1), label)
        error_of_fake.backward()
        of_critic.step()
        generator.zero_grad()
        label.fill_(1.0)
        error = criterion(critic(fake).view(-1), label)
        error.backward()
        of_generator.step()
        yield (error_of_real + error_of_fake).item()
        yield error.item()


def language(torch: Any, device: Any) -> Iterator[Any]:
    """A transformer encoder with a mask and positions in a buffer, and a schedule of steps."""
    nn = torch.nn
    vocabulary, width = 20, 16

    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            position = torch.arange(50).unsqueeze(1)
            rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
            table = torch.zeros(50, 1, width)
            table[:, 0, 0::2] = torch.sin(position * rate)
            table[:, 0, 1::2] = torch.cos(position * rate)
            self.register_buffer("table", table)

        def forward(self, x: Any) -> Any:
            return x + self.table[: x.size(0)]

    class Language(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions, self.embedding = Positions(), nn.Embedding(vocabulary, width)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(width, 2, 32, 0.0), 2)
            self.linear = nn.Linear(width, vocabulary)
            self.embedding.weight.data.uniform_(-0.1, 0.1)
            self.linear.bias.data.zero_()

        def forward(self, x: Any) -> Any:
            mask = nn.Transformer.generate_square_subsequent_mask(len(x)).to(device)
            return self.linear(self.encoder(self.positions(self.embedding(x) * math.sqrt(width)), mask))

    model = Language().to(device)
    yield model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.95)
    data = torch.from_numpy(np.random.default_rng(5).integers(0, vocabulary, (9, 4))).to(device)
    for _ in range(3):
        loss = nn.CrossEntropyLoss()(model(data[:-1]).view(-1, vocabulary), data[1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        yield math.exp(loss.item())
        yield scheduler.get_last_lr()[0]


Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


def q_learning(torch: Any, device: Any) -> Iterator[Any]:
    """Deep Q-learning with a memory of transitions, a mask, and a second network that follows the first."""
    nn, F = torch.nn, torch.nn.functional
    rng, draws = np.random.default_rng(6), random.Random(0)

    class Values(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer1, self.layer2 = nn.Linear(4, 32), nn.Linear(32, 2)

        def forward(self, x: Any) -> Any:
            return self.layer2(F.relu(self.layer1(x)))

    policy = Values().to(device)
    yield policy
    target = Values().to(device)
    target.load_state_dict(policy.state_dict())
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-2)
    memory: deque[Transition] = deque(maxlen=100)

    def state() -> Any:
        return torch.tensor(rng.standard_normal((1, 4)).astype(np.float32), device=device)

    for _ in range(40):
        now = state()
        with torch.no_grad():
            action = policy(now).max(1).indices.view(1, 1)
        if rng.random() < 0.5:
            action = torch.tensor([[int(rng.integers(2))]], device=device, dtype=torch.long)
        following = None if rng.random() < 0.2 else state()
        memory.append(Transition(now, action, following, torch.tensor([float(rng.random())], device=device)))
    for _ in range(3):
        batch = Transition(*zip(*draws.sample(memory, 16), strict=True))
        goes_on = torch.tensor([s is not None for s in batch.next_state], device=device, dtype=torch.bool)
        following = torch.cat([s for s in batch.next_state if s is not None])
        chosen = policy(torch.cat(batch.state)).gather(1, torch.cat(batch.action))
        values = torch.zeros(16, device=device)
        with torch.no_grad():
            values[goes_on] = target(following).max(1).values
        expected = values * 0.99 + torch.cat(batch.reward)
        loss = nn.SmoothL1Loss()(chosen, expected.unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        optimizer.step()
        of_target, of_policy = target.state_dict(), policy.state_dict()
        for key in of_policy:
            of_target[key] = of_policy[key] * 0.005 + of_target[key] * (1 - 0.005)
        target.load_state_dict(of_target)
        yield loss.item()
    yield target.layer1.weight.sum().item()


def hooks(torch: Any, device: Any) -> Iterator[Any]:
    """Groups of parameters, schedules in sequence, hooks, and a moving average of the weights."""
    nn, F = torch.nn, torch.nn.functional
    rng = np.random.default_rng(7)
    layers = [("first", nn.Linear(6, 8)), ("act", nn.GELU()), ("norm", nn.LayerNorm(8)), ("last", nn.Linear(8, 3))]
    model = nn.Sequential(OrderedDict(layers)).to(device)
    yield model
    seen: dict[str, float] = {}
    norms: list[float] = []

    def note(name: str) -> Callable[..., None]:
        return lambda module, inputs, output: seen.__setitem__(name, output.detach().abs().mean().item())

    handles = [layer.register_forward_hook(note(name)) for name, layer in model.named_children()]
    handles.append(model.first.register_full_backward_hook(lambda module, _, dy: norms.append(dy[0].norm().item())))
    groups = [
        {"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0, "lr": 3e-3},
    ]
    optimizer, schedulers = torch.optim.AdamW(groups, lr=1e-2), torch.optim.lr_scheduler
    parts = [schedulers.LinearLR(optimizer, 0.1, 1.0, 3), schedulers.CosineAnnealingLR(optimizer, 5)]
    scheduler = schedulers.SequentialLR(optimizer, parts, [3])
    average = copy.deepcopy(model)
    for _ in range(6):
        x = torch.tensor(rng.standard_normal((5, 6)).astype(np.float32), device=device)
        y = torch.tensor(rng.random((5, 3)).astype(np.float32), device=device)
        loss = F.mse_loss(model(x), y) + 0.01 * sum(p.pow(2).sum() for p in model.parameters())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        with torch.no_grad():
            for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
                mean.mul_(0.9).add_(parameter, alpha=0.1)
        yield loss.item()
        yield [group["lr"] for group in optimizer.param_groups]
    yield sorted(seen.items())
    yield norms
    for handle in handles:
        handle.remove()
    yield sum(p.sum().item() for p in average.parameters())
    with torch.inference_mode():
        yield model(torch.ones(1, 6, device=device)).tolist()


def segmentation(torch: Any, device: Any) -> Iterator[Any]:
    """A small U-Net with weighted classes, a Dice loss, and a rate that falls where the loss does not."""
    nn, F = torch.nn, torch.nn.functional
    rng = np.random.default_rng(10)

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.GroupNorm(2, 4)
            self.down, self.up = nn.Conv2d(4, 8, 3, padding=1, stride=2), nn.ConvTranspose2d(8, 4, 2, stride=2)
            self.out = nn.Conv2d(8, 2, 1)

        def forward(self, x: Any) -> Any:
            wide = F.silu(self.norm(self.wide(x)))
            up = self.up(F.elu(self.down(wide)))
            smooth = F.interpolate(F.avg_pool2d(up, 2), scale_factor=2, mode="bilinear", align_corners=False)
            return self.out(torch.cat([wide, up + smooth], dim=1))

    model = Network().to(device)
    yield model
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    for _ in range(4):
        x = torch.tensor(rng.standard_normal((2, 1, 8, 8)).astype(np.float32), device=device)
        y = (x.squeeze(1) > 0).long()
        output = model(x)
        loss = F.cross_entropy(output, y, weight=torch.tensor([1.0, 2.0], device=device), label_smoothing=0.1)
        p = output.softmax(1)[:, 1]
        dice = 1 - 2 * (p * y).sum() / (p.sum() + y.sum() + 1e-6)
        (loss + dice).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step(loss.item())
        yield [loss.item(), dice.item(), optimizer.param_groups[0]["lr"]]


PROGRAMS = (quickstart, convolutions, translation, adversaries, language, q_learning, hooks, segmentation)
