"""A world whose second member vanishes between arriving and connecting; the next one has a fresh process in it.

Prints what the second world's members sum up, and whether the script's exception hook is still its own.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta

import torch

from freetrain.elastic.errors import AbandonedError
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.worlds.guarded_store import GuardedStore, StoreServer
from freetrain.elastic.worlds.world import World


def world_of(number: int, me: str, port: int) -> World:
    generation = Generation(number, ("survivor", "newcomer"), this_host(), "127.0.0.1", port, "nonce", "test")
    return World(generation, me, f"prefix{number}", torch.device("cpu"), form_timeout_s=1 if number == 1 else 20)


def newcomer(port: int) -> None:
    world = world_of(2, "newcomer", port)
    world.form(lambda: False)
    world.sum([1.0])
    world.sum([1.0])
    world.leave()


def survivor() -> None:
    hook = sys.excepthook
    reads, writes = os.pipe()
    process = os.fork()
    if process == 0:
        newcomer(int(os.read(reads, 10)))
        return
    first = StoreServer(words=["prefix1", "prefix2"])
    GuardedStore("127.0.0.1", first.port, "prefix1", timedelta(seconds=20)).set("arrived/1", "yes")
    abandoned = False
    try:
        world_of(1, "survivor", first.port).form(lambda: False)
    except AbandonedError:
        abandoned = True
    second = StoreServer(words=["prefix1", "prefix2"])
    os.write(writes, str(second.port).encode())
    world = world_of(2, "survivor", second.port)
    world.form(lambda: False)
    total = world.sum([1.0])
    world.sum([1.0])
    os.waitpid(process, 0)
    world.leave()
    facts = {"abandoned": abandoned, "total": total}
    print(json.dumps({**facts, "hook_is_the_scripts": sys.excepthook is hook}))


if __name__ == "__main__":
    survivor()
