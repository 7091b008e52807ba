"""Two workers and servers in processes of their own; tensors of many sizes and types are added up.

Arguments: how many servers. Prints what the first worker has got, and how much each server has added up.
"""

from __future__ import annotations

import json
import os
import sys

import torch

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.world import World

WORKERS = ("a", "b")
SIZES = (1, 2, 5, 262_144, 1_000_003)
"""The last ones travel in several pieces; not all can be divided among the servers."""
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.complex64)


def world_of(servers: int, me: str, port: int) -> World:
    names = tuple(f"s{place}" for place in range(servers))
    generation = Generation(1, WORKERS, this_host(), "127.0.0.1", port, "nonce", "test", names)
    world = World(generation, me, "prefix", torch.device("cpu"), 20)
    world.form(lambda: False)
    return world


def tensors_of(rank: int) -> list[torch.Tensor]:
    random = torch.Generator().manual_seed(rank)
    return [torch.randn(size, generator=random).to(dtype) for size in SIZES for dtype in DTYPES]


def work(world: World) -> dict[str, list[bool]]:
    expected = [mine + theirs for mine, theirs in zip(tensors_of(0), tensors_of(1), strict=True)]
    added, promised = tensors_of(world.rank), tensors_of(world.rank)
    world.add_up(added)
    finishes = [world.start_add_up([each]) for each in promised]
    for finish in finishes:
        finish()
    control = world.sum([1.0])
    return {
        "added": [torch.equal(one, other) for one, other in zip(added, expected, strict=True)],
        "promised": [torch.equal(one, other) for one, other in zip(promised, expected, strict=True)],
        "control": [control == [2.0]],
    }


def serve(world: World, out: int) -> None:
    tensors = 0
    try:
        while True:
            world.servers.serve()
            tensors += 1
    except LostRankError:
        os.write(out, f"{tensors}\n".encode())
    world.leave()


def main(servers: int) -> None:
    torch.set_num_threads(1)
    reads, writes = os.pipe()
    ports = {}
    for me in ("b", *(f"s{place}" for place in range(servers))):
        port, ports[me] = os.pipe()
        if os.fork() == 0:
            world = world_of(servers, me, int(os.read(port, 10)))
            if me == "b":
                work(world)
                world.leave()
            else:
                serve(world, writes)
            return
    store = StoreServer(words=["prefix"])
    for each in ports.values():
        os.write(each, str(store.port).encode())
    world = world_of(servers, "a", store.port)
    facts: dict[str, object] = dict(work(world))
    world.leave()
    for _ in ports:
        os.wait()
    os.close(writes)
    facts["served"] = [int(line) for line in os.fdopen(reads).read().split()]
    print(json.dumps(facts))


if __name__ == "__main__":
    main(int(sys.argv[1]))
