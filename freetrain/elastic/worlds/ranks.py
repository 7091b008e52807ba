"""Collectives among ranks of one world, in the middle of which ranks may be lost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.worlds.collectives import Collectives
from freetrain.elastic.worlds.replica import Replica

Result = TypeVar("Result")


class Ranks:
    """All ranks of a world, or those that have the same shard of the model.

    Workers of one replica cannot go on without each other. So what has been waited for went well for all of them,
    or is a LostRankError in all of them, whoever of them was cut off.

    Args:
        size: how many there are.
        collectives: of the world.
        replica: that this worker is of.

    Attributes:
        group: their process group.
    """

    def __init__(self, size: int, collectives: Collectives, replica: Replica) -> None:
        self.size = size
        self.group: dist.ProcessGroup | None = None
        self._collectives = collectives
        self._replica = replica

    def start_sum(self, values: list[float]) -> Sum:
        """Begin to sum some numbers; raises LostRankError where that fails, now or when it is waited for."""
        tensor = torch.tensor(values, dtype=torch.float64)
        try:
            work = self.start_all_reduce(tensor)
        except LostRankError as lost:
            if self._replica.shards == 1:
                raise
            error = lost
            return Sum(tensor, lambda: self._together(lambda: _fail(error)))
        return Sum(tensor, lambda: self._together(lambda: self._collectives.finish(work)))

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor, in place; raises LostRankError where that fails."""
        self.finish([self.start_all_reduce(tensor) for tensor in tensors])

    def finish(self, works: Sequence[Any]) -> None:
        """Wait for what this rank has begun; raises LostRankError where that fails."""

        def finish_all() -> None:
            for work in works:
                self._collectives.finish(work)

        self._together(finish_all)

    def start_gather(self, mine: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
        """Begin to give everybody all tensors, which are of one size; what waits for them, in order of rank.

        Raises:
            LostRankError: that fails, now or when it is waited for.
        """
        all_ = [torch.empty_like(mine) for _ in range(self.size)]
        work = self._collectives.start(lambda: dist.all_gather(all_, mine, group=self.group, async_op=True))

        def rows() -> list[torch.Tensor]:
            self.finish([work])
            return all_

        return rows

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Give everybody the source's tensor, in place; raises LostRankError where that fails."""
        self.finish([self.start_broadcast(tensor, source)])

    def gather_tensor(self, mine: torch.Tensor) -> list[torch.Tensor]:
        """Everybody's tensor, in order of rank, all of one size; raises LostRankError where that fails."""
        return self.start_gather(mine)()

    def start_all_reduce(self, tensor: torch.Tensor) -> Any:
        """Begin to sum a tensor in place, which nobody needs if that fails; then raises LostRankError."""
        return self._collectives.start(lambda: dist.all_reduce(tensor, group=self.group, async_op=True), tensor)

    def start_broadcast(self, tensor: torch.Tensor, source: int) -> Any:
        """Begin to give everybody the source's tensor, in place; raises LostRankError where that fails."""
        return self._collectives.start(lambda: dist.broadcast(tensor, source, group=self.group, async_op=True))

    def _together(self, operation: Callable[[], None]) -> None:
        try:
            operation()
        except LostRankError:
            self._replica.agree(False)
            raise
        if not self._replica.agree(True):
            raise LostRankError("another worker of this node was cut off from its peers")


class Sum:
    """A sum that is under way."""

    def __init__(self, tensor: torch.Tensor, finish: Callable[[], None]) -> None:
        self._tensor = tensor
        self._finish = finish

    def wait(self) -> list[float]:
        """The sums; raises LostRankError where they do not come."""
        self._finish()
        return [float(value) for value in self._tensor.tolist()]


def _fail(error: LostRankError) -> None:
    raise error
