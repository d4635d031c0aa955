"""PyTorch's DistributedDataParallel on the training steps of peers.py, for docs/scaling.md.

  python3 ddp.py CONFIGURATION [--mode eager|compiled|tf32-eager|tf32-compiled] [--ranks N] [--steps N] [--batch N]

One process a GPU, the batch of the configuration cut among them or --batch samples each, gradients
averaged by NCCL while the backward pass goes on (the default buckets of 25 MB). The step is that of
peers.py: upload, forward with the loss of all positions, backward, clip at 1.0, fused AdamW. Prints
`ranks=R ms=M`, the median of the steps behind ten that do not count.
"""

import argparse
import os
import statistics
import time

import torch
import torch.distributed as distributed
import torch.multiprocessing as multiprocessing
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from peers import Side, compiled


def train(rank, ranks, name, mode, steps, batch):
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29611")
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    if ranks > 1:
        distributed.init_process_group("nccl", rank=rank, world_size=ranks, device_id=device)
    side = Side(f"cuda:{rank}", None)
    side.allow_tf32(mode.startswith("tf32"))
    model, host = side.sequences(name)
    batch = batch or len(host[0]) // ranks
    host = [part[:batch].contiguous().pin_memory() for part in host]
    replica = DistributedDataParallel(model, device_ids=[rank]) if ranks > 1 else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.01, fused=True)

    def loss_of(inputs, targets):
        return F.cross_entropy(replica(inputs).flatten(0, -2), targets.reshape(-1))

    if mode.endswith("compiled"):
        loss_of = compiled(loss_of)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of(*(part.to(device, non_blocking=True) for part in host)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()

    times = []
    for number in range(steps + 10):
        begun = time.perf_counter()
        step()
        torch.cuda.synchronize()
        if number >= 10:
            times.append((time.perf_counter() - begun) * 1e3)
    if rank == 0:
        print(f"{name} {mode} ranks={ranks} ms={statistics.median(times):.3f}", flush=True)
    if ranks > 1:
        distributed.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("configuration")
    parser.add_argument("--mode", default="eager")
    parser.add_argument("--ranks", type=int, default=torch.cuda.device_count())
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--batch", type=int)
    given = parser.parse_args()
    arguments = (given.ranks, given.configuration, given.mode, given.steps, given.batch)
    if given.ranks == 1:
        train(0, *arguments)
    else:
        multiprocessing.spawn(train, arguments, nprocs=given.ranks)


if __name__ == "__main__":
    main()
