"""The training as written for torchrun: started again at every change of the world, from its own checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.elastic.processes import die_with_parent
from benchmarks.elastic.scripts.stamps import FOLDER_VARIABLE, Stamps
from benchmarks.elastic.scripts.training import BATCH, loss_of, make_model

CHECKPOINT_EVERY_STEPS = 50
SUMS_VARIABLE = "BENCH_SUMS"
"""How many numbers all ranks add up in each step while their gradients are summed."""


def main() -> None:
    """Train until told to stop."""
    die_with_parent()
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    stamps = Stamps()
    model, optimizer = make_model()
    saved = Path(os.environ[FOLDER_VARIABLE]) / "checkpoint.pt"
    step = _resume(saved, model, optimizer)
    numbers = torch.zeros(int(os.environ.get(SUMS_VARIABLE, "0")), dtype=torch.float64)
    wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True)
    while True:
        step += 1
        ids = torch.arange(BATCH)[rank::ranks]
        stamps.begin()
        loss = loss_of(wrapped, ids)
        work = dist.all_reduce(numbers, async_op=True) if len(numbers) else None
        loss.backward()  # type: ignore[no-untyped-call]
        stamps.end()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if work is not None:
            work.wait()
        if rank == 0:
            stamps.write(step, ranks)
            if step % CHECKPOINT_EVERY_STEPS == 0:
                _save(saved, model, optimizer, step)


def _resume(saved: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    if not saved.exists():
        return 0
    state = torch.load(saved, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _save(saved: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    draft = saved.with_suffix(".draft")
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, draft)
    draft.replace(saved)


if __name__ == "__main__":
    main()
