"""A training whose steps grow with the world, and whose learning rates follow: gain and progress by step."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch

from freetrain import elastic

OUT, ME = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"]
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.02)
scaling = elastic.AdaScale(optimizer, at_batch=4)


def on_step(result):
    facts = {"step": result.step, "world": result.world, "rank": result.rank, "loss": result.loss}
    with (OUT / f"{ME}.jsonl").open("a") as log:
        log.write(json.dumps({**facts, "gain": scaling.gain, "progress": scaling.progress}) + "\n")
    if (OUT / "done").exists():
        run.stop()
    time.sleep(0.02)


with elastic.Run(model, optimizer, 10**6, elastic.ScaledBatch(4), scaling=scaling, on_step=on_step) as run:
    for step in run.steps():
        for ids in step:
            random = torch.Generator().manual_seed(int(ids[0]))
            inputs = torch.randn(len(ids), 8, generator=random)
            noise = torch.randn(len(ids), 1, generator=random)
            step.backward((run.model(inputs) - inputs.sum(1, keepdim=True) - noise).square().mean())
