"""The workers of one node that hold one copy of the model together, each a shard of it.

To torch they are all the ranks that there are: its default process group is theirs, from before the model is made
until they end. The worlds, which span nodes, form and end beside it. A replica that loses a worker is lost.
"""

from __future__ import annotations

from datetime import timedelta

import torch
import torch.distributed as dist

from freetrain.elastic.errors import EVICTED_STATUS, Departed
from freetrain.elastic.worlds.groups import FOREVER, form_default


class Replica:
    """One worker's place in its replica; a worker that has its model alone is a replica of its own."""

    def __init__(self) -> None:
        self.name = ""  # that no other replica has; empty if torch's process groups have been left alone
        self.shard = 0
        self.shards = 1
        self.writers: dist.ProcessGroup | None = None  # for writing checkpoints meanwhile
        self._votes: dist.ProcessGroup | None = None
        self._store: dist.Store | None = None

    def join(self, name: str, shard: int, shards: int, store: dist.Store, backend: str, patience_s: float) -> None:
        """Meet the others of this replica in a store of theirs, and be torch's default process group with them."""
        form_default(backend, store, shard, shards, timedelta(seconds=patience_s))
        # Two groups: votes and what is written in the background must not take each other's messages.
        self._votes = dist.new_group(backend="gloo", timeout=FOREVER)
        self.writers = dist.new_group(backend="gloo", timeout=FOREVER)
        self.name, self.shard, self.shards, self._store = name, shard, shards, store

    @property
    def is_joined(self) -> bool:
        """Whether torch's default process group is this replica's."""
        return self._store is not None

    def all_formed(self, number: int, formed: bool) -> bool:
        """Whether all of the replica have formed the world of this number; each reports once, well or not."""
        if self._store is None or self.shards == 1:
            return formed
        keys = [f"formed/{number}/{shard}" for shard in range(self.shards)]
        try:
            self._store.set(keys[self.shard], str(int(formed)))
            # A worker that has not does not wait for the others: they may be trying to form other worlds.
            if formed:
                self._store.wait(keys, FOREVER)
            return formed and all(self._store.get(key) == b"1" for key in keys)
        except RuntimeError as error:
            raise lost_replica() from error

    def agree(self, well: bool) -> bool:
        """Whether it went well for all workers of the replica, which all ask; raises Departed if one has gone."""
        if self.shards == 1:
            return well
        ballot = torch.tensor([well], dtype=torch.uint8)
        try:
            dist.all_reduce(ballot, op=dist.ReduceOp.MIN, group=self._votes)
        except RuntimeError as error:
            raise lost_replica() from error
        return bool(ballot[0])

    def any(self, flag: bool) -> bool:
        """Whether the flag is set for one worker of the replica at least; see :meth:`agree`."""
        return not self.agree(not flag)


def lost_replica() -> Departed:
    """The departure of a worker that has nothing to go on with, as its replica lost another one."""
    return Departed("another worker of this node, which had a shard of the model, was lost", EVICTED_STATUS)


_THIS = Replica()


def this_replica() -> Replica:
    """The replica that this process is of."""
    return _THIS
