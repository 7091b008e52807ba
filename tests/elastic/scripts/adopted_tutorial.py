"""A script for torchrun in the form of PyTorch's DDP tutorials: a trainer with snapshots."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

OUT = Path(os.environ["OUT"])
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Trainer:
    def __init__(self, model, train_data, optimizer):
        self.rank = int(os.environ["RANK"])
        self.train_data = train_data
        self.optimizer = optimizer
        self.epochs_run = 0
        self.steps = (OUT / f"steps-{os.getpid()}").open("a")
        if (OUT / "snapshot.pt").exists():
            snapshot = torch.load(OUT / "snapshot.pt", map_location=DEVICE)
            model.load_state_dict(snapshot["model"])
            self.epochs_run = snapshot["epochs"]
        self.model = DistributedDataParallel(model)

    def run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(self.model(source), targets)
        loss.backward()
        self.optimizer.step()

    def run_epoch(self, epoch):
        size = len(next(iter(self.train_data))[0])
        self.train_data.sampler.set_epoch(epoch)
        for source, targets in self.train_data:
            self.run_batch(source.to(DEVICE), targets.to(DEVICE))
            print(epoch, self.rank, size, file=self.steps, flush=True)
            time.sleep(0.5 * (OUT / "slow").exists())

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self.run_epoch(epoch)
            if self.rank == 0 and epoch % 4 == 3:
                torch.save({"model": self.model.module.state_dict(), "epochs": epoch + 1}, OUT / "snapshot.pt")


torch.set_num_threads(1)
init_process_group("nccl" if DEVICE.type == "cuda" else "gloo")
torch.manual_seed(3)
dataset = TensorDataset(torch.randn(101, 6), torch.randint(0, 3, (101,)))
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), 0.05)
loader = DataLoader(dataset, batch_size=4, shuffle=False, sampler=DistributedSampler(dataset))
Trainer(model, loader, optimizer).train(int(os.environ["EPOCHS"]))
if int(os.environ["RANK"]) == 0:
    torch.save(dict(model.named_parameters()), OUT / "trained.pt")
destroy_process_group()
