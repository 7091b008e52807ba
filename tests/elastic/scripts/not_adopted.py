"""A script for torchrun with a loader that gives all samples to every rank, which cannot be adopted."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in torch.utils.data.DataLoader(torch.randn(16, 2), batch_size=4, shuffle=True):
    model(batch).square().mean().backward()
    optimizer.step()
(Path(os.environ["OUT"]) / f"trained-{dist.get_rank()}-of-{dist.get_world_size()}").touch()
dist.barrier()
