"""The process group that DDP is given: whatever it waits for, it is never held up for ever.

Beside the sums of gradients, for which it has a hook, DDP exchanges the order of its buckets once in every world,
and with ``find_unused_parameters`` the parameters that nobody used in every step; that of torch 2.4 also compares
and exchanges the state when it is made. It waits for these in C++, where nothing gets it out if the transport
forgets a message.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Work

from freetrain.elastic.worlds.collectives import Collectives


class DdpGroup(dist.ProcessGroup):
    """The present world's group, with collectives that end when the world is cut.

    It offers what DDP uses beside its communication hook. A rank that is lost is a LostRankError there, raised
    through torch's own frames. Its rank and size stay those of its first world: DDP asks for them when it is made.

    Args:
        collectives: of the present world; None: there is none yet, and nobody else to exchange anything with.
    """

    def __init__(self, collectives: Collectives | None) -> None:
        rank, size = (dist.get_rank(), dist.get_world_size()) if collectives is not None else (0, 1)
        super().__init__(rank, size)  # type: ignore[call-arg,unused-ignore]
        self._collectives = collectives
        # Torch 2.4 keeps only the C++ half of a work, which waits for ever once the Python half is gone.
        self._not_waited_for: set[_GuardedWork] = set()

    def go_on_in(self, collectives: Collectives) -> None:
        """Be another world's group, with its collectives."""
        self._collectives = collectives
        self._not_waited_for.clear()

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """A name that torch does not know: behind one that it knows it looks for the backend itself."""
        return "freetrain"

    def allreduce(  # type: ignore[override,unused-ignore]
        self, tensors: list[torch.Tensor], options: Any = None
    ) -> Work:
        """Begin to reduce the tensors over all ranks, in place."""
        return self._guarded(lambda: _group().allreduce(tensors, options))

    def allgather(  # type: ignore[override,unused-ignore]
        self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], options: Any = None
    ) -> Work:
        """Begin to give everybody all tensors."""
        return self._guarded(lambda: _group().allgather(outputs, inputs, options))

    def broadcast(  # type: ignore[override,unused-ignore]
        self, tensors: list[torch.Tensor], options: Any = None
    ) -> Work:
        """Begin to give everybody the source's tensors, in place."""
        return self._guarded(lambda: _group().broadcast(tensors, options))

    def _guarded(self, begin: Callable[[], Work]) -> Work:
        work = self._collectives.start(begin) if self._collectives is not None else None
        guarded = _GuardedWork(work, self._finish)
        self._not_waited_for.add(guarded)
        return guarded

    def _finish(self, guarded: _GuardedWork) -> None:
        self._not_waited_for.discard(guarded)
        if self._collectives is not None and guarded.work is not None:
            self._collectives.finish(guarded.work)


class _GuardedWork(Work):
    """A collective under way; None where it has nothing to do."""

    def __init__(self, work: Work | None, finish: Callable[[_GuardedWork], None]) -> None:
        super().__init__()
        self.work = work
        self._finish = finish

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it has ended or its world was cut; ``timeout`` is not heeded, as collectives have none here.

        Raises:
            LostRankError: it does not end well.
        """
        self._finish(self)
        return True


def _group() -> dist.ProcessGroup:
    """Not kept, since a group lives as long as somebody holds it."""
    return dist.distributed_c10d._get_default_group()
