"""Rank 0 of two, the other stopped with its receive posted: the send is queued, and gloo forgets it when cut.

Prints how long it took to get out, and what a world formed afterwards in the same process says.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.guarded_store import StoreServer
from freetrain.elastic.worlds.world import World

FLOATS_TOO_MANY_FOR_THE_SOCKET = 16 << 20


def world_of(members: tuple[str, ...], me: str, port: int) -> World:
    generation = Generation(1, members, this_host(), "127.0.0.1", port, "nonce", "test")
    world = World(generation, me, "prefix", torch.device("cpu"), 20)
    world.form(lambda: False)
    return world


def start_broadcast(tensor: torch.Tensor) -> dist.Work:
    """In torch's own group: the one in front of it would tell the other rank before, and wait for its answer."""
    options = dist.BroadcastOptions()
    options.rootRank = options.rootTensor = 0
    return dist.distributed_c10d._get_default_group()._world.group.broadcast([tensor], options)


def peer(port: int) -> None:
    world = world_of(("a", "b"), "b", port)
    works = [start_broadcast(torch.zeros(FLOATS_TOO_MANY_FOR_THE_SOCKET)) for _ in range(2)]
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGSTOP)
    del works, world


def main(way: str) -> None:
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        peer(int(os.read(reads, 10)))
    store = StoreServer(words=["prefix"])
    os.write(writes, str(store.port).encode())
    world = world_of(("a", "b"), "a", store.port)
    os.waitpid(process, os.WUNTRACED)
    collectives: Collectives = world._collectives
    sent = torch.ones(FLOATS_TOO_MANY_FOR_THE_SOCKET)
    spare = sent if way == "gradients" else None
    work = collectives.start(lambda: start_broadcast(sent), spare)
    lost: list[BaseException] = []
    out = threading.Event()

    def cut_until_out() -> None:
        while not out.wait(0.01):
            world.cut()

    time.sleep(0.2)
    since_s = time.monotonic()
    threading.Thread(target=cut_until_out, daemon=True).start()
    try:
        if way == "script":
            world.on_script_loss = lost.append
            dist.all_reduce(torch.ones(1))
        else:
            collectives.finish(work)
    except LostRankError as error:
        lost.append(error)
    world.leave()
    out.set()
    left_s = time.monotonic() - since_s
    alone_store = StoreServer(words=["prefix"])
    alone = world_of(("a",), "a", alone_store.port)
    total = alone.sum([2.0])
    alone.leave()
    os.kill(process, signal.SIGKILL)
    facts = {"left_s": left_s, "alone": total, "lost": [str(error) for error in lost], "kept": sent.mean().item()}
    print(json.dumps({**facts, "forgotten": not work.is_completed()}))


if __name__ == "__main__":
    main(sys.argv[1])
