"""A script for torchrun in the form of timm's and DiT's: it counts its updates itself, and follows the counts.

Rank 0 alone loads the values with which all begin.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

OUT = Path(os.environ["OUT"])
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPOCHS = int(os.environ["EPOCHS"])


@dataclass
class Progress:
    updates: int = 0


def train_one_epoch(model, loader, optimizer, epoch, progress):
    in_epoch = epoch * len(loader)
    for inputs, targets in loader:
        for group in optimizer.param_groups:
            group["lr"] = 0.05 / (1 + in_epoch / 40) + 0.05 / (1 + progress.updates / 40)
        in_epoch += 1
        loss = torch.nn.functional.mse_loss(model(inputs.to(DEVICE)), targets.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress.updates += 1
        if progress.updates % 5 == 0:
            dist.all_reduce(loss.detach())
        print(epoch, dist.get_rank(), progress.updates, file=steps, flush=True)
        time.sleep(0.5 * (OUT / "slow").exists())


torch.set_num_threads(1)
dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
torch.manual_seed(8)
dataset = TensorDataset(torch.randn(72, 6), torch.randn(72, 2))
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(DEVICE)
if dist.get_rank() == 0:
    # What rank 0 has loaded is what all begin with, however late it is.
    with torch.no_grad():
        model[2].bias.fill_(1.0)
    time.sleep(float(os.environ.get("LATE_S", "0")))
ddp = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset))
steps = (OUT / f"steps-{os.getpid()}").open("a")
progress = Progress()
for epoch in range(EPOCHS):
    loader.sampler.set_epoch(epoch)
    train_one_epoch(ddp, loader, optimizer, epoch, progress)
if dist.get_rank() == 0:
    counts = {"updates": torch.tensor(float(progress.updates))}
    torch.save({**dict(model.named_parameters()), **counts}, OUT / "trained.pt")
dist.destroy_process_group()
