"""A script for torchrun in the form of PyTorch's ImageNet example: rank and size in args, meters."""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

OUT = Path(os.environ["OUT"])
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0.0

    def update(self, value, n):
        self.sum += float(value) * n
        self.count += n

    def all_reduce(self):
        total = torch.tensor([self.sum, self.count], device=DEVICE)
        dist.all_reduce(total, dist.ReduceOp.SUM, async_op=False)
        self.sum, self.count = total.tolist()

    @property
    def average(self):
        return self.sum / self.count


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean() * 100


def train(loader, model, criterion, optimizer, epoch, args):
    model.train()
    for i, (images, target) in enumerate(loader):
        images, target = images.to(DEVICE, non_blocking=True), target.to(DEVICE, non_blocking=True)
        loss = criterion(model(images), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(epoch, args.rank, i, file=args.steps, flush=True)
        time.sleep(0.5 * (OUT / "slow").exists())


def validate(loader, model, args):
    model.eval()
    top1 = AverageMeter()
    with torch.no_grad():
        for images, target in loader:
            images, target = images.to(DEVICE), target.to(DEVICE)
            top1.update(accuracy(model(images), target), len(images))
    top1.all_reduce()
    return top1.average


def main_worker(args):
    backend = "nccl" if DEVICE.type == "cuda" else "gloo"
    dist.init_process_group(backend, init_method="env://", world_size=args.world_size, rank=args.rank)
    torch.manual_seed(4)
    data = torch.randn(150, 6)
    labels = (data @ torch.randn(6, 3)).argmax(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = torch.nn.parallel.DistributedDataParallel(model.to(DEVICE))
    criterion = torch.nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.02 * args.world_size, momentum=0.9, weight_decay=1e-4)
    scheduler = StepLR(optimizer, step_size=5, gamma=0.5)
    args.batch_size = int(args.batch_size / args.world_size)
    train_set, val_set = TensorDataset(data[:110], labels[:110]), TensorDataset(data[110:], labels[110:])
    train_sampler = DistributedSampler(train_set)
    val_sampler = DistributedSampler(val_set, shuffle=False, drop_last=True)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, sampler=val_sampler)
    best = 0.0
    for epoch in range(int(os.environ["EPOCHS"])):
        train_sampler.set_epoch(epoch)
        train(train_loader, model, criterion, optimizer, epoch, args)
        best = max(best, validate(val_loader, model, args))
        scheduler.step()
        if args.rank == 0:
            torch.save({"epoch": epoch, "model": model.state_dict(), "best": best}, OUT / "checkpoint.pt")
    if args.rank == 0:
        torch.save(dict(model.module.named_parameters()), OUT / "trained.pt")


torch.set_num_threads(1)
parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
args = parser.parse_args()
args.rank, args.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
args.steps = (OUT / f"steps-{os.getpid()}").open("a")
main_worker(args)
