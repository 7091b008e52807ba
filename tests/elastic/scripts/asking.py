"""A training that asks torch.distributed for each of its collectives itself, as libraries do."""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
import torch.distributed as dist

from freetrain import elastic

torch.set_num_threads(1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with elastic.Loop(model, optimizer, 16, elastic.FixedBatch(4)) as run:
    for _ in run.epochs():
        for ids in run.batches:
            model(ids[:, None].float()).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        size, mine = run.world_size, torch.tensor([1.0 + run.rank])
        total, sent, whole = mine.clone(), mine.clone(), torch.zeros(size)
        rows, objects = [torch.zeros(1) for _ in range(size)], [None] * size
        dist.barrier()
        dist.all_reduce(total)
        dist.all_gather(rows, mine)
        dist.all_gather_into_tensor(whole, mine)
        dist.broadcast(sent, 1)
        dist.all_gather_object(objects, run.rank)
        facts = [float(total), torch.cat(rows).tolist(), whole.tolist(), float(sent), objects]
        (Path(os.environ["OUT"]) / f"asked-{run.rank}.json").write_text(json.dumps(facts))
