"""A training whose script does, in the way that WAY says, what a newcomer cannot do again as the others did it.

Each rank logs its steps. A member that the file ``pace`` finds in OUT makes slow steps, until ``done`` is there.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

from freetrain import elastic

OUT, ME, WAY = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"], os.environ["WAY"]
PER_EPOCH = 20


class Growing(torch.nn.Module):
    """Three layers, and a buffer that grows with the epochs."""

    def __init__(self):
        super().__init__()
        layers = 4 if WAY == "has another model" else 3
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(layers))
        self.register_buffer("seen", torch.zeros(0))

    def forward(self, values):
        for layer in self.layers:
            values = layer(values).tanh()
        return values.square().mean()


def at_the_top(epoch):
    """What the script does at the beginning of an epoch."""
    first = run.first_time()
    if epoch and WAY == "halves the rate":
        optimizer.param_groups[0]["lr"] /= 2
    if epoch and first and WAY == "halves the rate once":
        optimizer.param_groups[0]["lr"] /= 2
    if epoch and first and WAY == "unfreezes":
        model.layers[2].requires_grad_(True)
    if epoch == 1 and first and WAY == "adds a group":
        optimizer.add_param_group({"params": list(model.layers[2].parameters()), "lr": 0.02})
    if first and WAY == "grows a buffer":
        model.seen = torch.cat([model.seen, torch.ones(1)])


def in_a_step(place, loss):
    """What the script does after each backward pass, by a count of its own."""
    if place % 5 == 4 and WAY == "mean by its own count":
        run.mean(loss)
    if place % 5 == 4 and WAY == "metric that synchronises by itself":
        total = torch.ones(1)
        dist.all_reduce(total)
    if place % 5 == 4 and WAY == "gathers by itself":
        rows = [torch.zeros(1) for _ in range(dist.get_world_size())]
        dist.all_gather(rows, torch.ones(1))
    if WAY == "changes a rate by hand":
        optimizer.param_groups[0]["lr"] *= 1.01
    if WAY == "changes values by hand":
        with torch.no_grad():
            model.layers[0].weight.mul_(1.5)
    if WAY == "fails":
        raise RuntimeError("an error of the script")
    if WAY == "trains layers in turn":
        for number, layer in enumerate(model.layers):
            layer.requires_grad_(number == (place + 1) % 3)


def log():
    facts = {"step": run.step, "world": run.world_size, "rank": run.rank, "loss": float("nan")}
    facts["rate"] = optimizer.param_groups[0]["lr"]
    with (OUT / f"{ME}.jsonl").open("a") as stream:
        stream.write(json.dumps(facts) + "\n")
    if (OUT / "done").exists():
        run.stop()
    time.sleep(0.1 if (OUT / "pace").exists() else 0.01)


torch.set_num_threads(1)
torch.manual_seed(0)
model = Growing()
first_layers = [each for layer in model.layers[:2] for each in layer.parameters()]
parameters = first_layers if WAY == "adds a group" else list(model.parameters())
if WAY == "unfreezes":
    model.layers[2].requires_grad_(False)
rate = float(os.environ.get("RATE", "0.01"))
optimizer = torch.optim.Adam(parameters, rate)
batch = elastic.FixedBatch(16 if WAY == "has another batch" else 8)
with elastic.Loop(
    model, optimizer, 8 * PER_EPOCH, batch, epochs=10_000, share_buffers=WAY != "grows a buffer"
) as run:
    for epoch in run.epochs():
        at_the_top(epoch)
        for ids in run.batches:
            log()
            optimizer.zero_grad()
            loss = model(ids[:, None] / 100 * torch.ones(4))
            loss.backward()
            # A newcomer's own count, made to be another one wherever it comes in.
            in_a_step(run.step + int(os.environ.get("SHIFT", "0")), loss.detach())
            if WAY == "leaves a step out":
                continue
            optimizer.step()
            if WAY == "breaks out early":
                break
