"""Batch normalisation in training mode: what each rank's running means are when a step begins, and what it adds.

KIND: ``Run`` or ``Loop``. The training goes on until the file ``end`` is in OUT.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch

from freetrain import elastic

SAMPLES, BATCH = 600, 12
OUT = Path(os.environ["OUT"])
INPUTS = torch.randn(SAMPLES, 3, generator=torch.Generator().manual_seed(0))

torch.set_num_threads(1)
torch.manual_seed(0)
norm = torch.nn.BatchNorm1d(3)
model = torch.nn.Sequential(norm, torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
latest = {}


def note(norm, inputs):
    latest.update(before=norm.running_mean.tolist(), seen=inputs[0].mean(0).tolist())
    latest.update(tracked=int(norm.num_batches_tracked), weight=model[1].weight.tolist())


def log(run, step):
    with (OUT / f"{os.environ['FREETRAIN_MEMBER']}.jsonl").open("a") as lines:
        lines.write(json.dumps({"step": step, "world": run.world_size, "rank": run.rank, **latest}) + "\n")
    time.sleep(0.005)
    if (OUT / "end").exists():
        run.stop()


norm.register_forward_pre_hook(note)
if os.environ["KIND"] == "Run":
    with elastic.Run(model, optimizer, SAMPLES, elastic.FixedBatch(BATCH), epochs=10**6) as run:
        for step in run.steps():
            for ids in step:
                step.backward(run.model(INPUTS[ids]).square().mean())
            log(run, step.number)
else:
    with elastic.Loop(model, optimizer, SAMPLES, elastic.FixedBatch(BATCH), epochs=10**6) as run:
        for _ in run.epochs():
            for ids in run.batches:
                optimizer.zero_grad()
                model(INPUTS[ids]).square().mean().backward()
                optimizer.step()
                log(run, run.step + 1)
