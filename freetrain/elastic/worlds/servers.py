"""Servers of one world, which add up gradients: its workers send them their own, and get the sums back.

Each server adds up a part of every tensor, all parts of one size. The workers update: no server has anything that
could be lost with it but the sums under way, and a step whose sums do not come is made again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.on_disk.members import Generation
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.groups import form_beside

# Tensors travel in pieces of this size: while a server sends one back it receives the next one.
_PIECE_BYTES = 1 << 20
# A tensor's type travels as its place here.
_DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.float64)


class GradientServers:
    """The groups of each server of a world and all of its workers, in which the server is last."""

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
        parts = values.tensor_split(len(self.groups))
        return [work for group, part in zip(self.groups, parts, strict=True) for work in self._push(group, part)]

    def _push(self, group: dist.ProcessGroup, part: torch.Tensor) -> list[Any]:
        head = torch.tensor([part.numel(), _DTYPES.index(part.dtype)])
        self._broadcast(group, head)
        works = []
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
        """The first worker says what comes."""
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
    """The same ones on both sides."""
    count = max(1, _PIECE_BYTES // part.element_size())
    return [part[start : start + count] for start in range(0, part.numel(), count)]
