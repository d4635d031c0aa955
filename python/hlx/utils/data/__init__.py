"""Data sets, samplers and loaders under PyTorch's names; an order depends on a generator's seed and nothing else.

>>> images, labels = hlx.rand(10, 3), hlx.arange(10)
>>> dataset = hlx.utils.data.TensorDataset(images, labels)
>>> generator = hlx.Generator().manual_seed(1)
>>> for x, y in hlx.utils.data.DataLoader(dataset, batch_size=4, shuffle=True, generator=generator):
...     print(x.shape, y.shape)
hlx.Size([4, 3]) hlx.Size([4])
hlx.Size([4, 3]) hlx.Size([4])
hlx.Size([2, 3]) hlx.Size([2])
"""

from hlx.utils.data._collate import default_collate, default_convert
from hlx.utils.data._dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from hlx.utils.data._info import WorkerInfo, get_worker_info
from hlx.utils.data._loader import DataLoader
from hlx.utils.data._sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "random_split",
]
