"""A training in which the member that SLEEPS names stands still in its own code once ``sleep`` is there."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch

from freetrain import elastic
from freetrain.elastic.membership import session

OUT, ME = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"]
session._WARN_WAITING_AFTER_S = 1.0
session._LEAVES_WAITING_AFTER_S = 1.0

torch.set_num_threads(1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
with elastic.Loop(model, optimizer, 10**6, elastic.FixedBatch(8)) as run:
    for _ in run.epochs():
        for ids in run.batches:
            with (OUT / f"{ME}.jsonl").open("a") as log:
                facts = {"step": run.step, "world": run.world_size, "rank": run.rank, "loss": float("nan")}
                log.write(json.dumps(facts) + "\n")
            while (OUT / "sleep").exists() and os.environ.get("SLEEPS") in (ME, "all"):
                time.sleep(0.1)
            model(ids[:, None] / 10**6).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            if (OUT / "done").exists():
                run.stop()
            time.sleep(0.01)
