"""Checks of worlds of one rank: left, or aborted, they leave nothing behind that hinders the next one."""

from __future__ import annotations

import time
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.gpu_check.outcomes import NotPossibleError
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.worlds.groups import abort_nccl
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.world import World

_WORLDS = 20
_ABORT_S = 10.0


def _world(number: int, backend: str) -> tuple[World, Any]:
    store = StoreServer(words=[f"world {number}"])
    generation = Generation(number, ("me",), this_host(), "localhost", store.port, "", "start")
    world = World(generation, "me", f"world {number}", backend, 10.0, lambda: [store.port])
    world.form(lambda: False)
    return world, store


def memory(device: torch.device) -> str:
    """What a world leaves behind on the device."""
    backend = "gloo" if device.type == "cpu" else "cpu:gloo,cuda:nccl"
    used: list[int] = []
    for number in range(1, _WORLDS + 1):
        world, _store = _world(number, backend)
        tensor = torch.ones(1 << 20, device=device)
        world.add_up([tensor])
        del tensor
        world.leave()
        if device.type == "cuda":
            torch.cuda.synchronize()
            free, total = torch.cuda.mem_get_info(device)
            used.append(total - free)
    if not used:
        return f"{_WORLDS} worlds of one rank formed and left"
    grown = used[-1] - used[_WORLDS // 4]
    assert grown < 0.05 * used[_WORLDS // 4], f"{grown / 2**20:.0f} MiB more after {_WORLDS} worlds"
    in_use = f"{used[-1] / 2**20:.0f} MiB of the device in use after {_WORLDS} worlds"
    return f"{in_use}, {grown / 2**20:+.0f} since the fifth"


def abort(device: torch.device) -> str:
    """A communicator can be aborted, and another one formed in the same process."""
    if device.type == "cpu":
        raise NotPossibleError("gloo has nothing to abort: its connections are cut")
    world, _store = _world(1, "cpu:gloo,cuda:nccl")
    world.add_up([torch.ones(1, device=device)])
    begun_s = time.perf_counter()
    abort_nccl([None])
    elapsed_s = time.perf_counter() - begun_s
    assert elapsed_s < _ABORT_S, f"aborting took {elapsed_s:.1f} s"
    world.leave()
    assert not dist.is_initialized(), "the process group is still there"
    world, _store = _world(2, "cpu:gloo,cuda:nccl")
    tensor = torch.ones(1, device=device)
    world.add_up([tensor])
    assert float(tensor) == 1.0, "a sum in the next world is wrong"
    return f"aborted in {elapsed_s:.2f} s, and another world formed"
