"""What torch alone takes for going from one world to the next: the least that a change costs with DDP and gloo."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

from benchmarks.elastic.scripts.training import (
    BATCH,
    DEVICE_S_VARIABLE,
    OPTIMIZER_VARIABLE,
    PARAMETERS_VARIABLE,
    loss_of,
    make_model,
)

PARAMETERS = (25_000_000, 100_000_000)
RANKS = 2
_WORLDS, _STEPS, _SETTLED_AFTER = 7, 8, 3


@dataclass(frozen=True, slots=True)
class Rewrap:
    """One change of the world in processes that have all they need, and know of each other.

    Attributes:
        parameters: of the model.
        step_s: what a step takes in the new world once it has settled.
        pause_s: from the end of the last step of the old world to that of the first backward pass of the new one.
    """

    parameters: int
    step_s: float
    pause_s: float


def measure_rewraps(sizes: Sequence[int], optimizer: str) -> Iterator[Rewrap]:
    """Two ranks drop their process group and wrapper and make new ones, again and again."""
    for parameters in sizes:
        with tempfile.TemporaryDirectory() as folder:
            spawn(_rank, args=(folder, parameters, optimizer), nprocs=RANKS)  # type: ignore[no-untyped-call]
            yield from (Rewrap(**one) for one in json.loads((Path(folder) / "found").read_text()))


def _rank(rank: int, folder: str, parameters: int, optimizer: str) -> None:
    os.environ |= {PARAMETERS_VARIABLE: str(parameters), OPTIMIZER_VARIABLE: optimizer, DEVICE_S_VARIABLE: "0"}
    model, stepped = make_model()
    ids = torch.arange(BATCH)[rank::RANKS]
    found, wrapped, ended_s = [], None, 0.0
    for world in range(_WORLDS):
        if wrapped is not None:
            del wrapped
            stepped.zero_grad(set_to_none=True)
            dist.destroy_process_group()
        dist.init_process_group("gloo", init_method=f"file://{folder}/{world}", rank=rank, world_size=RANKS)
        wrapped = DistributedDataParallel(model, gradient_as_bucket_view=True, init_sync=False)
        steps_s = []
        for step in range(_STEPS):
            began_s = time.monotonic()
            loss_of(wrapped, ids).backward()  # type: ignore[no-untyped-call]
            if step == 0:
                pause_s = time.monotonic() - ended_s
            stepped.step()
            stepped.zero_grad(set_to_none=False)
            ended_s = time.monotonic()
            steps_s.append(ended_s - began_s)
        if world:
            found.append(Rewrap(parameters, statistics.median(steps_s[_SETTLED_AFTER:]), pause_s))
    if rank == 0:
        (Path(folder) / "found").write_text(json.dumps([asdict(one) for one in found]))
    dist.destroy_process_group()
