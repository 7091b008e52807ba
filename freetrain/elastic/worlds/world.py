"""One generation's process group: formed in a living process, left without ending it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.errors import AbandonedError, LostRankError
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.ddp_group import DdpGroup
from freetrain.elastic.worlds.groups import abort_nccl, form_beside, form_default, keep_for_ever
from freetrain.elastic.worlds.meeting import meet
from freetrain.elastic.worlds.origin import arose_in_communication
from freetrain.elastic.worlds.ranks import Ranks, Sum
from freetrain.elastic.worlds.replica import this_replica
from freetrain.elastic.worlds.servers import Servers
from freetrain.elastic.worlds.sockets import Wires

_CUT_AGAIN_S = 0.5
"""A cut is repeated while somebody is still inside: it may have missed a connection that was coming up."""

_NOTICE_S = 1.0
"""How long a loss may take to show after an error that may be its consequence: connections close at once, cuts
follow the process table."""


class World:
    """The process group of one generation, as seen by one of its members.

    Args:
        generation: what to form.
        member: this process.
        prefix: prefix of the store's keys, unguessable for outsiders.
        backend: as ``torch.distributed`` names it.
        form_timeout_s: how long connecting may take once all have arrived.
        stores: ports of the stores in this process, of whatever generation.

    Attributes:
        generation: as given.
        rank: of this process.
        size: ranks; those of servers come after them.
        shards: ranks of each replica.
        replica: place of this process's one, from 0; the rank, where nobody shares a model.
        peers: the ranks that have the same shard, numbered as their replicas are.
        ended: whether it has been left, and nothing of it writes into anybody's tensors any more.
    """

    def __init__(
        self,
        generation: Generation,
        member: str,
        prefix: str,
        backend: str,
        form_timeout_s: float,
        stores: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.generation = generation
        self.rank = generation.rank_of(member)
        self.size = generation.world
        self._own = this_replica()
        self.shards = self._own.shards
        self.replica = self.rank // self.shards
        self._wires = Wires(stores)
        self._timeout = timedelta(seconds=form_timeout_s)
        self._backend = backend
        self._prefix = prefix
        self._store: dist.Store | None = None
        self._collectives = Collectives()
        self._servers = Servers(generation, self.rank, self._collectives)
        self._all = Ranks(self.size, self._collectives, self._own)
        self.peers = (
            self._all if self.shards == 1 else Ranks(self.size // self.shards, self._collectives, self._own)
        )
        self.ended = False
        self._lock = threading.Lock()
        self._alive = True
        self._first_cut_s: float | None = None
        self._last_cut_s = float("-inf")

    def form(self, newer: Callable[[], bool]) -> None:
        """Meet the others and connect with them.

        Raises:
            AbandonedError: a newer generation made this one obsolete, a member was lost meanwhile, or torch
                failed: then its error is the cause, unless it came from a cut.
        """
        try:
            self._form(newer)
        except AbandonedError:
            self._own.all_formed(self.generation.number, False)
            raise
        if not self._own.all_formed(self.generation.number, True):
            self.leave()
            raise AbandonedError("another worker of this node did not form it")

    def _form(self, newer: Callable[[], bool]) -> None:
        try:
            self._store = meet(self.generation, self.rank, self._prefix, self._timeout, newer)
            self._connect(self._store)
        except AbandonedError:
            self.leave()
            raise
        except (RuntimeError, OSError) as error:
            self.leave()
            raise AbandonedError(str(error)) from (None if self._first_cut_s else error)
        except ValueError:
            self.leave()
            raise
        self._wires.formed()

    def _connect(self, store: dist.Store) -> None:
        if self.rank < self.size:
            self._connect_workers(store)
        self._servers.connect(store, self._timeout)

    def _connect_workers(self, store: dist.Store) -> None:
        if not self._own.is_joined:
            form_default(self._backend, store, self.rank, self.size, self._timeout)
            return
        number = self.generation.number
        self._all.group = form_beside(
            f"freetrain-{number}", self._backend, store, self.rank, self.size, self._timeout
        )
        if self.peers is not self._all:
            name = f"freetrain-{number}-{self._own.shard}"
            apart = dist.PrefixStore(name, store)
            self.peers.group = form_beside(
                name, self._backend, apart, self.replica, self.peers.size, self._timeout
            )

    def cut(self) -> None:
        """Make every collective of this world fail, from whatever thread; call it until the main thread is out."""
        with self._lock:
            if not self._alive:
                return
            now_s = time.monotonic()
            self._first_cut_s = self._first_cut_s or now_s
            if now_s - self._last_cut_s > _CUT_AGAIN_S:
                self._last_cut_s = now_s
                abort_nccl([self._all.group, self.peers.group])
                self._wires.cut()
            self._collectives.cut()

    def leave(self) -> None:
        """Destroy the process group; the process lives on."""
        with self._lock:
            self._alive = False
            # First of all: destroying waits for collectives that are still under way, and these for their peers.
            # Besides, what the script keeps of the group (a work handle, an old wrapper) would keep connections
            # open and let the others wait.
            if self._wires.complete:
                self._wires.cut()
            groups = self._groups()
            if groups and self._collectives.ended():
                self._collectives.forget()
                self.ended = True
            else:
                self._collectives.abandon()
                for group in groups:
                    keep_for_ever(group)
            for group in groups:
                with contextlib.suppress(Exception):
                    dist.destroy_process_group(group)
            self._all.group = self.peers.group = None
            self._servers.groups.clear()
            self._store = None

    def _groups(self) -> list[dist.ProcessGroup]:
        """Those of this world that are there."""
        beside = self._servers.groups
        if not self._own.is_joined:
            return [*beside, dist.distributed_c10d._get_default_group()] if dist.is_initialized() else [*beside]
        mine = [each for each in dict.fromkeys((self.peers.group, self._all.group)) if each is not None]
        return [*beside, *mine]

    def start_sum(self, values: list[float]) -> Sum:
        """Begin to sum some numbers over all ranks; raises LostRankError where that fails."""
        return self._all.start_sum(values)

    def promise_sum(self, tensor: torch.Tensor, on_loss: Callable[[BaseException], object]) -> Any:
        """A future of the tensor summed over all ranks, in place; it comes even if ranks are lost meanwhile."""
        try:
            if self._servers and tensor.is_cuda:
                self.add_up([tensor])
                return _completed(tensor)
            if self._servers:
                works = self._servers.start_sum(tensor)
                return self._collectives.promise(works, tensor, on_loss)
            work = self._all.start_all_reduce(tensor)
        except LostRankError as error:
            on_loss(error)
            return _completed(tensor)
        if self._backend != "gloo":
            return work.get_future().then(lambda done: done.value()[0])
        return self._collectives.promise([work], tensor, on_loss)

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor over all ranks, in place; raises LostRankError where that fails."""
        if not self._servers:
            self._all.add_up(tensors)
            return
        copies = [tensor.cpu() for tensor in tensors]
        for work in [work for copy in copies for work in self._servers.start_sum(copy)]:
            self._collectives.finish(work)
        for tensor, copy in zip(tensors, copies, strict=True):
            if copy is not tensor:
                tensor.copy_(copy)

    def serve(self) -> None:
        """As a server: add something up; raises LostRankError where that fails, or the workers leave."""
        self._servers.serve()

    def ddp_group(self, kept: DdpGroup | None = None) -> DdpGroup:
        """What DDP takes for this world's process group: a new one, or one that was another world's before."""
        if kept is None:
            return DdpGroup(self._collectives)
        kept.go_on_in(self._collectives)
        return kept

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Give everybody the source's tensor, in place; raises LostRankError where that fails."""
        self._all.broadcast(tensor, source)

    def gather(self, values: list[int]) -> list[list[int]]:
        """Everybody's numbers, in order of rank; raises LostRankError where that fails."""
        return [list(map(int, row.tolist())) for row in self.gather_tensor(torch.tensor(values))]

    def gather_tensor(self, mine: torch.Tensor) -> list[torch.Tensor]:
        """Everybody's tensor, in order of rank, all of one size; raises LostRankError where that fails."""
        return self._all.gather_tensor(mine)

    def broke(self, error: RuntimeError) -> bool:
        """Whether the error comes from this world's end, not from the script; its text does not count.

        It must have arisen where other ranks are waited for, and this world must be seen to be broken: one of its
        collectives failed, a connection is down, or the watcher has cut it. A world that ends in this very moment
        gets a little time to show it.
        """
        if not arose_in_communication(error):
            return False
        until_s = time.monotonic() + _NOTICE_S
        while self.whole:
            if time.monotonic() > until_s:
                return isinstance(error, dist.DistError)
            time.sleep(0.01)
        return True

    @property
    def started(self) -> int:
        """Collectives that this rank has begun."""
        return self._collectives.started

    @property
    def whole(self) -> bool:
        """Whether no collective has failed, no connection is down, and nobody has cut it."""
        return not self._collectives.failed and self._first_cut_s is None and self._wires.intact


def _completed(tensor: torch.Tensor) -> Any:
    future: Any = torch.futures.Future(devices=[tensor.device] if tensor.is_cuda else [])
    future.set_result(tensor)
    return future
