"""A script that knows nothing of freetrain: environment, process group, checkpoint of its own."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist

out = Path(os.environ["OUT"])
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
saved = out / "own.pt"
step = torch.load(saved)["step"] if saved.exists() else 0
enough = False
while not enough:
    ranks_and_votes = torch.tensor([1.0, float((out / "enough").exists())])
    dist.all_reduce(ranks_and_votes)
    ranks, votes = ranks_and_votes.tolist()
    assert ranks == world
    enough = votes > 0
    step += 1
    if rank == 0:
        # A step counts and is logged, or neither, whenever the agent ends this worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        torch.save({"step": step}, out / "own.tmp")
        (out / "own.tmp").replace(saved)
        with (out / "steps").open("a") as log:
            log.write(f"{step} {world} {os.environ['LOCAL_WORLD_SIZE']} {time.time()}\n")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    time.sleep(0.05)
