"""Optimizers and learning-rate schedulers under PyTorch's names; one launch updates all parameters.

>>> w = hlx.tensor([1.0, 2.0], requires_grad=True)
>>> optimizer = hlx.optim.SGD([w], lr=0.25)
>>> for _ in range(3):
...     optimizer.zero_grad()
...     (w * w).sum().backward()
...     optimizer.step()
>>> w.detach()
tensor([0.1250, 0.2500])
"""

from hlx.optim import lr_scheduler, optimizer
from hlx.optim._adafactor import Adafactor
from hlx.optim._adagrad import Adagrad
from hlx.optim._adam import Adam, AdamW, AdamW8bit
from hlx.optim._lion import Lion
from hlx.optim._muon import Muon
from hlx.optim._rmsprop import RMSprop
from hlx.optim._sgd import SGD
from hlx.optim.optimizer import Optimizer

__all__ = [
    "SGD",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdamW8bit",
    "Lion",
    "Muon",
    "Optimizer",
    "RMSprop",
    "lr_scheduler",
    "optimizer",
]
