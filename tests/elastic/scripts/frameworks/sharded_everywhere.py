"""A loop in torchtitan's manner: FSDP2 over all ranks, and checkpoints that any number of ranks can read."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from freetrain import elastic

OUT = Path(os.environ["OUT"])
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BATCH, SAMPLES, STEPS = 8, 64, int(os.environ.get("STEPS", "100000"))


class TrainState:
    """Everything that a checkpoint holds."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state):
        set_state_dict(
            self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        self.step = state["step"]

    def save(self):
        unfinished = OUT / f"unfinished-{self.step}"
        dcp.save({"train": self}, checkpoint_id=unfinished)
        if dist.get_rank() == 0:
            shutil.rmtree(OUT / f"step-{self.step}", ignore_errors=True)
            unfinished.rename(OUT / f"step-{self.step}")

    def load_newest(self):
        steps = [int(path.name.partition("-")[2]) for path in OUT.glob("step-*")]
        if steps:
            dcp.load({"train": self}, checkpoint_id=OUT / f"step-{max(steps)}")


torch.set_num_threads(1)
dist.init_process_group("cpu:gloo,cuda:nccl" if DEVICE.type == "cuda" else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh(DEVICE.type, (world,))
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(DEVICE)
samples, targets = torch.randn(SAMPLES, 6).to(DEVICE), torch.randn(SAMPLES, 1).to(DEVICE)
for layer in (model[0], model[2], model):
    fully_shard(layer, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
train = TrainState(model, optimizer)
train.load_newest()
stop = elastic.StopSignal()
while train.step < STEPS:
    first = train.step * BATCH % SAMPLES + rank * (BATCH // world)
    mine = slice(first, first + BATCH // world)
    loss = (model(samples[mine]) - targets[mine]).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    train.step += 1
    facts = torch.tensor([loss.detach() / world, float((OUT / "enough").exists())])
    dist.all_reduce(facts)
    time.sleep(float(os.environ.get("STEP_S", "0")))
    if rank == 0:
        with (OUT / "steps").open("a") as log:
            log.write(f"{train.step} {world} {float(facts[0])}\n")
    is_due = stop.is_due
    if is_due or train.step % 5 == 0:
        train.save()
    if is_due or facts[1] > 0:
        break
dist.destroy_process_group()
