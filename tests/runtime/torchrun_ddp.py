"""Run by torchrun in test_parallel.py: two processes, each on the simulated machine, train one model together."""

from __future__ import annotations

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

from devlint.runtime import simulate


def main(folder: str) -> None:
    rank = int(os.environ["LOCAL_RANK"])
    torch.manual_seed(0)
    dist.init_process_group("nccl")
    torch.cuda.set_device(rank)
    device = torch.device("cuda", rank)
    net = nn.Linear(3, 1).to(device)
    model = nn.parallel.DistributedDataParallel(net, device_ids=[rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = torch.arange(12.0).view(4, 3)[rank::2] / 12
    for _ in range(3):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()  # noqa: DEV103 (the wrapper moves its input)
        optimizer.step()
    total = torch.tensor([float(rank + 1)], device=device)
    dist.all_reduce(total)
    torch.save(
        {"weight": net.weight.detach().cpu(), "place": str(net.weight.device), "total": total.item()},
        f"{folder}/{rank}.pt",
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    with simulate(devices=2):
        main(sys.argv[1])
