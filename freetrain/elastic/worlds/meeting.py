"""Where the ranks of a generation meet before they connect: at a store, where rank 0 says whether they go on."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta

import torch.distributed as dist

from freetrain.elastic.errors import AbandonedError
from freetrain.elastic.on_disk.members import Generation, this_host
from freetrain.elastic.worlds.guarded_store import GuardedStore

SERVICE_HOST = "service"
"""Identity of the host of a store that no member has opened."""


def meet(
    generation: Generation, rank: int, word: str, timeout: timedelta, newer: Callable[[], bool]
) -> dist.Store:
    """Wait until all have arrived.

    Rank 0 alone decides whether the meeting takes place, so that nobody connects with who has moved on.

    Args:
        generation: who meets, and where.
        rank: of this process.
        word: that all of them know, and nobody else.
        timeout: how long the store may take over an answer.
        newer: whether a newer generation is known.

    Returns:
        The store, in which they then connect.

    Raises:
        AbandonedError: a newer generation made this one obsolete.
    """
    host = "127.0.0.1" if generation.host == this_host() else generation.address
    knows_word = generation.host != SERVICE_HOST
    store = GuardedStore(host, generation.port, word, timeout, knows_word=knows_word)
    store.set(f"arrived/{rank}", "yes")
    if rank == 0:
        arrivals = [f"arrived/{each}" for each in range(len(generation.everyone))]
        while not (all_here := store.check(arrivals)) and not newer():
            time.sleep(0.002)
        store.set("verdict", "go" if all_here else "newer")
    if not _await_verdict(store, newer):
        raise AbandonedError("superseded by a newer generation")
    return store


def _await_verdict(store: dist.Store, newer: Callable[[], bool]) -> bool:
    """What rank 0 decided; its word counts even with a newer generation in sight, since all heed it."""
    patience_s = None
    while not store.check(["verdict"]):
        if newer():
            patience_s = patience_s or time.monotonic() + 1.0
            if time.monotonic() > patience_s:
                return False
        time.sleep(0.002)
    return bool(store.get("verdict") == b"go")
