"""A script for torchrun in the form of DINO's: a logger's generator over the loader, rates by the number of the
step, a teacher averaged by hand, and a loss whose centre is summed over the ranks.
"""

from __future__ import annotations

import copy
import os
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

OUT = Path(os.environ["OUT"])
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
EPOCHS = int(os.environ["EPOCHS"])


class CentredLoss(torch.nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.register_buffer("centre", torch.zeros(1, outputs))

    def forward(self, student, teacher):
        wanted = torch.softmax((teacher - self.centre).detach() / 0.5, dim=1)
        loss = -(wanted * torch.log_softmax(student, dim=1)).sum(1).mean()
        centre = teacher.detach().sum(0, keepdim=True)
        dist.all_reduce(centre)
        self.centre = self.centre * 0.9 + 0.1 * centre / (len(teacher) * dist.get_world_size())
        return loss


def log_every(loader):
    for batch in loader:
        began_s = time.monotonic()
        yield batch
        print(f"a batch in {time.monotonic() - began_s:.1f} s")


def train_one_epoch(student, teacher, criterion, loader, optimizer, epoch, steps):
    for number, (inputs,) in enumerate(log_every(loader)):
        step = len(loader) * epoch + number
        done = step / (len(loader) * EPOCHS)
        for group in optimizer.param_groups:
            group["lr"] = 0.05 * (1 + np.cos(np.pi * done))
        inputs = inputs.to(DEVICE)
        loss = criterion(student(inputs + 0.1), teacher(inputs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            momentum = 0.9 + 0.1 * done
            for mine, its in zip(student.module.parameters(), teacher.parameters(), strict=True):
                its.data.mul_(momentum).add_((1 - momentum) * mine.detach().data)
        print(epoch, dist.get_rank(), step, file=steps, flush=True)
        time.sleep(0.5 * (OUT / "slow").exists())


torch.set_num_threads(1)
dist.init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
torch.manual_seed(5)
dataset = TensorDataset(torch.randn(96, 6))
student = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).to(DEVICE)
teacher = copy.deepcopy(student)
student = DistributedDataParallel(student)
for parameter in teacher.parameters():
    parameter.requires_grad = False
criterion = CentredLoss(4).to(DEVICE)
optimizer = torch.optim.AdamW(student.parameters())
loader = DataLoader(dataset, batch_size=4, sampler=DistributedSampler(dataset), drop_last=True)
steps = (OUT / f"steps-{os.getpid()}").open("a")
rank = dist.get_rank()
for epoch in range(EPOCHS):
    loader.sampler.set_epoch(epoch)
    train_one_epoch(student, teacher, criterion, loader, optimizer, epoch, steps)
if rank == 0:
    averaged = {f"teacher.{name}": value for name, value in teacher.named_parameters()}
    named = dict(student.module.named_parameters())
    torch.save({**named, **averaged, "centre": criterion.centre}, OUT / "trained.pt")
dist.destroy_process_group()
