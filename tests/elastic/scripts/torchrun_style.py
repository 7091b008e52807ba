"""A script that knows nothing of freetrain: environment, process group, checkpoint of its own."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist

out = Path(os.environ["OUT"])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
saved = out / "own.pt"
step = torch.load(saved)["step"] if saved.exists() else 0
while step < int(os.environ.get("STEPS", "100")):
    total = torch.ones(1)
    dist.all_reduce(total)
    assert int(total) == world
    step += 1
    if rank == 0:
        torch.save({"step": step}, out / "own.tmp")
        (out / "own.tmp").replace(saved)
        with (out / "steps").open("a") as log:
            log.write(f"{step} {world} {os.environ['LOCAL_WORLD_SIZE']} {time.time()}\n")
    time.sleep(0.05)
