"""Logs after each step how many worlds are left in memory, while nobody looks for garbage."""

from __future__ import annotations

import gc
import json
import os
import time
from pathlib import Path

import torch

from freetrain import elastic
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.world import World

OUT = Path(os.environ["OUT"])
KINDS = {"worlds": World, "collectives": Collectives}


def on_step(result):
    live = [type(each) for each in gc.get_objects()]
    facts = {"step": result.step, "world": result.world, "rank": result.rank, "loss": result.loss}
    counts = {name: live.count(kind) for name, kind in KINDS.items()}
    with (OUT / f"{os.environ['FREETRAIN_MEMBER']}.jsonl").open("a") as log:
        log.write(json.dumps({**facts, **counts}) + "\n")
    if (OUT / "done").exists():
        run.stop()
    time.sleep(0.02)


gc.disable()
torch.set_num_threads(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with elastic.Run(model, optimizer, 10**6, elastic.FixedBatch(8), on_step=on_step) as run:
    for step in run.steps():
        for ids in step:
            step.backward(run.model(ids[:, None] / 10**6 * torch.ones(4)).square().mean())
