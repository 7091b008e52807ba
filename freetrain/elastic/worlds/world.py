"""One generation's process group, and its servers: formed in a living process, left without ending it."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.errors import AbandonedError, LostRankError
from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.worlds.calls import Call, PendingCalls, line_of_script
from freetrain.elastic.worlds.collectives import Collectives, Ranks
from freetrain.elastic.worlds.device import backend_for
from freetrain.elastic.worlds.groups import (
    ScriptsGroup,
    abort_nccl,
    form_beside,
    form_default,
    keep_for_ever,
    put_in_front,
)
from freetrain.elastic.worlds.guarded_store import meet
from freetrain.elastic.worlds.replica import this_replica

# A cut is repeated while somebody is still inside: it may have missed a connection that was coming up.
_CUT_AGAIN_S = 0.5
# Tensors travel to servers in pieces of this size: while a server sends one back it receives the next one.
_PIECE_BYTES = 1 << 20
# A tensor's type travels as its place here.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class World(Ranks):
    """The process group of one generation: all of its ranks, as seen by one of its members.

    Args:
        device: the GPU on which gradients are added up; the CPU: none.
        form_timeout_s: seconds that connecting may take once all have arrived.
        stores: ports of the stores in this process, of whatever generation.
        while_waiting: called again and again while this rank waits for the others, with the seconds so far.
        expel: called with a member that differs from the others, and how.
    """

    def __init__(
        self,
        generation: Generation,
        member: str,
        word: str,
        device: torch.device,
        form_timeout_s: float,
        stores: Callable[[], Collection[int]] = tuple,
        while_waiting: Callable[[float], object] = lambda _: None,
        expel: Callable[[str, str], object] = lambda _id, _reason: None,
    ) -> None:
        own, collectives = this_replica(), Collectives(while_waiting, on_gpu=device.type != "cpu")
        super().__init__(generation.world, collectives, own)
        self.generation = generation
        self.rank = generation.rank_of(member)
        self.shards = own.shards
        self.replica = self.rank // self.shards  # the rank, where nobody shares a model
        self._wires = Connections(stores)
        self._timeout = timedelta(seconds=form_timeout_s)
        self._device = device
        self._word = word
        self._store: dist.Store | None = None
        self._expel = expel
        self._asked = 0
        self.servers = GradientServers(generation, self.rank, collectives)
        # None for all: a world that refers to itself would keep its memory until Python looks for such circles.
        self._peers = None if self.shards == 1 else Ranks(self.size // self.shards, collectives, own)
        self.joined = generation.number  # of the first world that this process was in
        self.awaits = ""  # the latest call of this rank, in words
        self.is_formed = False
        self.connects_gpus = False  # while it is: if a rank is lost now, NCCL may never return
        self.waited_s = 0.0  # that this rank has waited for the others in its steps
        self.broken_since_s: float | None = None  # as its watcher has seen
        # Whether the others have come past the place where the script is.
        self.is_script_alone: Callable[[], bool] = lambda: False
        # Called when a rank was lost while the script itself exchanged something.
        self.on_script_loss: Callable[[LostRankError], object] = lambda _: None
        self._lock = threading.Lock()
        self._alive = True
        self._first_cut_s: float | None = None
        self._last_cut_s = float("-inf")

    @property
    def peers(self) -> Ranks:
        """The ranks that have the same shard, numbered as their replicas are."""
        return self._peers or self

    def form(self, newer: Callable[[], bool]) -> None:
        """Meet the others and connect with them; raises AbandonedError, caused by torch's error if that failed."""
        try:
            self._form(newer)
        except AbandonedError:
            self._replica.all_formed(self.generation.number, False)
            raise
        if not self._replica.all_formed(self.generation.number, True):
            self.leave()
            raise AbandonedError("another worker of this node did not form it")
        self.is_formed = True

    def _form(self, newer: Callable[[], bool]) -> None:
        try:
            self._store = meet(self.generation, self.rank, self._word, self._timeout, newer)
            if self.rank < self.size:
                self._connect_workers(self._store)
                self._connect_gpus()
            self.servers.connect(self._store, self._timeout)
        except (AbandonedError, ValueError):
            self.leave()
            raise
        except (RuntimeError, OSError, LostRankError) as error:
            self.leave()
            # What follows a cut comes from the cut, and must not count as a world that breaks by itself.
            raise AbandonedError(str(error)) from (None if self._first_cut_s else error)
        self._wires.formed()

    def _connect_workers(self, store: dist.Store) -> None:
        backend = backend_for(self._device)
        if not self._replica.is_joined:
            form_default(backend, store, self.rank, self.size, self._timeout)
            self.group = dist.distributed_c10d._get_default_group()
            put_in_front(ScriptsGroup(self.rank, self.size, self), self.group)
            return
        name = f"freetrain-{self.generation.number}"
        self.group = form_beside(name, backend, store, self.rank, self.size, self._timeout)
        if self._peers is not None:
            name = f"{name}-{self._replica.shard}"
            # Groups put the same keys into a store: each has a part of its own.
            apart, size = dist.PrefixStore(name, store), self._peers.size
            self._peers.group = form_beside(name, backend, apart, self.replica, size, self._timeout)

    def _connect_gpus(self) -> None:
        """Let NCCL connect now, where this can be cut; by itself it connects at its first collective."""
        if self._device.type == "cpu":
            return
        self.connects_gpus = True
        try:
            for group in dict.fromkeys((self.group, self.peers.group)):
                if group is not None and group.size() > 1:
                    number = torch.zeros(1, device=self._device)
                    self._collectives.finish(dist.all_reduce(number, group=group, async_op=True))
        finally:
            self.connects_gpus = False

    def cut(self) -> None:
        """Make every collective of this world fail, from whatever thread; call it until the main thread is out."""
        with self._lock:
            if not self._alive:
                return
            now_s = time.monotonic()
            self._first_cut_s = self._first_cut_s or now_s
            if now_s - self._last_cut_s > _CUT_AGAIN_S:
                self._last_cut_s = now_s
                self._abort_gpus()
                self._wires.cut()

    def _abort_gpus(self) -> None:
        """Abort NCCL's collectives."""
        # In this order: no aborted collective may pass for a complete one.
        self._collectives.cut()
        abort_nccl([self.group, self.peers.group])

    def leave(self) -> None:
        """Destroy the process group; the process lives on."""
        with self._lock:
            self._alive = False
            # First of all: destroying waits for collectives that are still under way, and these for their peers.
            # Besides, what the script keeps of the group (a work handle) would keep connections open and make the
            # others wait.
            if self._wires.complete:
                self._wires.cut()
            mine = dict.fromkeys((self.peers.group, self.group))
            self._abort_gpus()
            groups = [*self.servers.groups, *(group for group in mine if group is not None)]
            if groups and self._collectives.ended():
                self._collectives.forget()
            else:
                self._collectives.abandon()
                for group in groups:
                    keep_for_ever(group)
            # Torch's default group takes all others with it; those of a replica are beside one that stays.
            own = groups if self._replica.is_joined else [None] if dist.is_initialized() else []
            for destroyed in own:
                with contextlib.suppress(Exception):
                    dist.distributed_c10d.destroy_process_group(destroyed)
            self.group = self.peers.group = None
            self.servers.groups.clear()
            self._store = None

    def ask(
        self, what: str, digest: int = 0, size: int = 0, payload: bytes = b"", where: str = ""
    ) -> PendingCalls:
        """Begin to send all ranks this one's :class:`Call`, and to receive theirs; raises LostRankError."""
        self._asked += 1
        call = Call(what, where or line_of_script(), digest, size, self.joined, payload)
        self.awaits = str(call)
        rows = self.start_gather(call.pack())
        return PendingCalls(
            self._asked, self.rank, rows, lambda rank, how: self._expel(self.generation.members[rank], how)
        )

    def start_add_up(self, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
        """Begin to sum each tensor over all ranks, in place, at the servers if there are some."""
        if not self.servers:
            return super().start_add_up(tensors)
        # Servers add up in the computer's memory, as the node's GPUs are its workers'.
        copies = [tensor.cpu() for tensor in tensors]
        works = [work for copy in copies for work in self.servers.start_sum(copy)]

        def finish() -> None:
            self._collectives.finish(*works)
            for tensor, copy in zip(tensors, copies, strict=True):
                if copy is not tensor:
                    tensor.copy_(copy)

        return finish

    def gather(self, values: list[int]) -> list[list[int]]:
        """Numbers of all ranks, in order of rank."""
        return [list(map(int, row.tolist())) for row in self.start_gather(torch.tensor(values))()]

    @property
    def started(self) -> int:
        """Collectives that this rank has begun."""
        return self._collectives.started


def open_sockets() -> dict[int, str]:
    """Descriptors of all sockets of this process, with their identity."""
    found = {}
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 (names of descriptors, not paths)
        with contextlib.suppress(OSError):
            target = os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115
            if target.startswith("socket:"):
                found[int(name)] = target
    return found


class Connections:
    """The connections that came up while a world formed, so that they can be cut from another thread.

    Gloo has no way to abort a collective that waits for a peer which neither answers nor closes. Cutting the
    connections makes it fail at once, as if all peers had closed. The script's own connections are left alone.

    Args:
        stores: ports of the stores in this process. What others connected there is left alone too: they may be
            meeting for the next world already, while this one has not been left.
    """

    def __init__(self, stores: Callable[[], Collection[int]]) -> None:
        self._stores = stores
        self._before = open_sockets()
        self._formed: dict[int, str] | None = None

    def formed(self) -> None:
        """The world has formed: what comes up from now on is not its own."""
        before = self._before.items()
        self._formed = dict(item for item in open_sockets().items() if item not in before)

    @property
    def complete(self) -> bool:
        """Whether the world has formed."""
        return self._formed is not None

    def cut(self) -> int:
        """Cut the world's connections, so that every wait on one fails; returns how many there were."""
        now = open_sockets()
        mine = now.items() - self._before.items() if self._formed is None else now.items() & self._formed.items()
        stores = self._stores()
        return sum(_cut(descriptor, stores) for descriptor, _ in mine)


def _cut(descriptor: int, spared_ports: Collection[int]) -> bool:
    """Cut a connection with another member, not one with a store in this process; whether it was one."""
    # Listening sockets stay: gloo's listener thread ends the process when its socket fails.
    # A copy of the descriptor: closing it leaves the world's own open.
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(descriptor)) as connection:
        internet = connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM
        listens = internet and connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
        if internet and not listens and connection.getsockname()[1] not in spared_ports:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


class GradientServers:
    """Servers of one world, which add up gradients: workers send them their own, and get the sums back.

    Each server adds up a part of every tensor, all parts of one size, in a group of its own with all workers, in
    which it is last. The workers update: no server has anything that could be lost with it but the sums under
    way, and a step whose sums do not come is made again.
    """

    def __init__(self, generation: Generation, rank: int, collectives: Collectives) -> None:
        self.groups: list[dist.ProcessGroup] = []
        self._number = generation.number
        self._workers = generation.world
        self._places = range(len(generation.servers))
        self._rank = rank
        self._collectives = collectives
        self._turn = 0
        self._sent: list[Any] = [None, None]

    def __len__(self) -> int:
        return len(self._places)

    def connect(self, store: dist.Store, timeout: timedelta) -> None:
        """Form the groups that this process is in."""
        for place in self._places:
            rank = min(self._rank, self._workers)
            if rank == self._workers and self._rank != self._workers + place:
                continue
            name = f"freetrain-{self._number}-server-{place}"
            apart = dist.PrefixStore(name, store)
            self.groups.append(form_beside(name, "gloo", apart, rank, self._workers + 1, timeout))

    # -- a worker's side

    def start_sum(self, values: torch.Tensor) -> list[Any]:
        """Begin to sum a tensor in the computer's memory over all workers, in place; returns what has to end."""
        if values.is_complex():
            values = torch.view_as_real(values).view(-1)
        works = []
        for group, part in zip(self.groups, values.tensor_split(len(self.groups)), strict=True):
            self._broadcast(group, torch.tensor([part.numel(), _DTYPES.index(part.dtype)]))
            for piece in _pieces(part):
                # Not waited for: the sum of the piece, which is, comes after it.
                self._gather(group, [], piece)
                works.append(self._scatter(group, piece, []))
        return works

    # -- a server's side

    def serve(self) -> None:
        """Add up the next part of a tensor for all workers; raises LostRankError, also if the world has ended."""
        (group,) = self.groups
        head = torch.zeros(2, dtype=torch.int64)
        self._collectives.finish(self._broadcast(group, head))
        count, dtype = int(head[0]), _DTYPES[int(head[1])]
        # Without memory: only the sizes of the pieces are asked for.
        for piece in _pieces(torch.empty(count, dtype=dtype, device="meta")):
            self._add_up(group, piece.numel(), dtype)

    def _add_up(self, group: dist.ProcessGroup, count: int, dtype: torch.dtype) -> None:
        self._turn = 1 - self._turn
        # Two sums may be on their way back, no more: a slow worker must not fill the server's memory.
        before = self._sent[self._turn]
        if before is not None:
            self._collectives.finish(before)
        rows = [torch.empty(count, dtype=dtype) for _ in range(self._workers + 1)]
        mine = rows[-1]
        self._collectives.finish(self._gather(group, rows, mine))
        total = rows[0]
        for row in rows[1:-1]:
            total.add_(row)
        self._sent[self._turn] = self._scatter(group, mine, [total] * len(rows))

    # -- both sides'

    def _broadcast(self, group: dist.ProcessGroup, head: torch.Tensor) -> Any:
        """Begin to broadcast the first worker's word on the size and type of what comes."""
        options = dist.BroadcastOptions()
        options.rootRank = options.rootTensor = 0
        return self._collectives.start(lambda: group.broadcast([head], options))

    def _gather(self, group: dist.ProcessGroup, rows: Sequence[torch.Tensor], piece: torch.Tensor) -> Any:
        options = dist.GatherOptions()
        options.rootRank = self._workers
        into = [list(rows)] if rows else []
        return self._collectives.start(lambda: group.gather(into, [piece], options))

    def _scatter(self, group: dist.ProcessGroup, piece: torch.Tensor, rows: Sequence[torch.Tensor]) -> Any:
        options = dist.ScatterOptions()
        options.rootRank = self._workers
        out_of = [list(rows)] if rows else []
        return self._collectives.start(lambda: group.scatter([piece], out_of, options))


def _pieces(part: torch.Tensor) -> Sequence[torch.Tensor]:
    """Pieces in which a part travels, the same on both sides."""
    count = max(1, _PIECE_BYTES // part.element_size())
    return [part[start : start + count] for start in range(0, part.numel(), count)]
