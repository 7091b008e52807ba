"""A script for torchrun in the form of minGPT's trainer: scaled and clipped gradients."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, random_split
from torch.utils.data.distributed import DistributedSampler

OUT = Path(os.environ["OUT"])
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
ACCUMULATED = 2


def run_epoch(epoch, loader, *, trains):
    if trains:
        loader.sampler.set_epoch(epoch)
    for i, (source, targets) in enumerate(loader):
        source, targets = source.to(DEVICE), targets.to(DEVICE)
        with torch.set_grad_enabled(trains):
            loss = torch.nn.functional.mse_loss(model(source), targets) / ACCUMULATED
        if not trains:
            continue
        scaler.scale(loss).backward()
        if (i + 1) % ACCUMULATED == 0 or i + 1 == len(loader):
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
            print(epoch, rank, i, file=steps, flush=True)
        time.sleep(0.5 * (OUT / "slow").exists())


torch.set_num_threads(1)
dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
rank = dist.get_rank()
steps = (OUT / f"steps-{os.getpid()}").open("a")
torch.manual_seed(6)
dataset = TensorDataset(torch.randn(90, 6), torch.randn(90, 2))
train_set, test_set = random_split(dataset, [76, 14])
train_loader = DataLoader(train_set, batch_size=4, sampler=DistributedSampler(train_set))
test_loader = DataLoader(test_set, batch_size=4, sampler=DistributedSampler(test_set))
inner = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)).to(DEVICE)
decayed, others = [p for p in inner.parameters() if p.dim() > 1], [p for p in inner.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others}], lr=0.003)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 / (1 + step / 50))
scaler = torch.amp.GradScaler(DEVICE.type, init_scale=2.0**8, growth_interval=40)
model = DistributedDataParallel(inner)
for epoch in range(1, int(os.environ["EPOCHS"]) + 1):
    run_epoch(epoch, train_loader, trains=True)
    run_epoch(epoch, test_loader, trains=False)
if rank == 0:
    torch.save(dict(inner.named_parameters()), OUT / "trained.pt")
dist.destroy_process_group()
