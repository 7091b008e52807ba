"""A loop of Lightning Fabric's: as for torchrun, asking freetrain's signal in each step."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
from lightning.fabric import Fabric
from torch.utils.data import DataLoader, TensorDataset

from freetrain import elastic

OUT = Path(os.environ["OUT"])
LAST = OUT / "last.ckpt"
BATCH, SAMPLES = 8, 64

torch.set_num_threads(1)
fabric = Fabric(
    devices=int(os.environ["LOCAL_WORLD_SIZE"]), num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
    strategy="ddp",
)  # fmt: skip
fabric.launch()
fabric.seed_everything(1, verbose=False)
model = torch.nn.Linear(6, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
dataset = TensorDataset(torch.randn(SAMPLES, 6), torch.randn(SAMPLES, 1))
model, optimizer = fabric.setup(model, optimizer)
loader = fabric.setup_dataloaders(DataLoader(dataset, BATCH // fabric.world_size, shuffle=False))
state = {"model": model, "optimizer": optimizer, "step": 0}
if LAST.exists():
    fabric.load(LAST, state)
stop = elastic.StopSignal()
steps_per_epoch = SAMPLES // BATCH
while state["step"] < int(os.environ.get("STEPS", "100000")):
    for number, (samples, targets) in enumerate(loader):
        if number < state["step"] % steps_per_epoch:
            continue
        loss = (model(samples) - targets).square().mean()
        fabric.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        state["step"] += 1
        loss = fabric.all_reduce(loss.detach())
        time.sleep(float(os.environ.get("STEP_S", "0")))
        if fabric.is_global_zero:
            with (OUT / "steps").open("a") as log:
                log.write(f"{state['step']} {fabric.world_size} {float(loss)}\n")
        enough = fabric.all_reduce(torch.tensor(float((OUT / "enough").exists()))) > 0
        is_due = stop.is_due
        if is_due or state["step"] % 5 == 0:
            fabric.save(LAST, state)
        if is_due or enough or state["step"] == int(os.environ.get("STEPS", "100000")):
            raise SystemExit
