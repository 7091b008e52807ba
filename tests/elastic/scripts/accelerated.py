"""A loop of accelerate's, with its prepared objects, on made-up sentences; the lines marked so are freetrain's."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

from freetrain import elastic  # added

OUT, ME = Path(os.environ["OUT"]), os.environ["FREETRAIN_MEMBER"]

torch.set_num_threads(1)
torch.manual_seed(0)
accelerator = Accelerator()
words = torch.randint(0, 50, (64, 7))
loader = DataLoader(TensorDataset(words, words.sum(1) % 2), 8, shuffle=True)
model = torch.nn.Sequential(torch.nn.EmbeddingBag(50, 8), torch.nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), 0.01)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=100)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
with elastic.Loop(model, optimizer, loader, epochs=10_000, also={"schedule": schedule}) as run:  # added
    for _ in run.epochs():  # changed
        model.train()
        for inputs, targets in run.batches:  # changed
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            facts = {"step": run.step, "world": run.world_size, "rank": run.rank, "loss": float("nan")}
            facts["rate"] = schedule.get_last_lr()
            with (OUT / f"{ME}.jsonl").open("a") as log:
                log.write(json.dumps(facts) + "\n")
            if (OUT / "done").exists():
                run.stop()
            time.sleep(0.01)
