"""Collectives that cannot hold the training up for ever.

Gloo (as in torch 2.13) forgets a send that is queued when its connection fails: no error comes, and waiting for it
means waiting for its timeout. So no rank waits for the transport alone: once the world has been cut, a wait that
does not end soon is given up, and what still runs is left to itself.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.worlds.device import give_back_pages
from freetrain.elastic.worlds.replica import Replica

# After the cut, collectives get this long to fail by themselves, as nearly all do at once.
_GRACE_S = 0.1
_SLICE = timedelta(seconds=0.05)
# NCCL is asked again after this part of the time waited so far, and after so long at most.
_POLL_PART, _MAX_POLL_S = 0.05, 0.001


class Collectives:
    """The collectives that are under way in one world.

    ``while_waiting`` is called again and again with the seconds waited so far; it may raise what ends the wait.
    ``on_gpu``: some are NCCL's.
    """

    def __init__(self, while_waiting: Callable[[float], object] = lambda _: None, *, on_gpu: bool = False) -> None:
        self.started = 0
        self._on_gpu = on_gpu
        self._while_waiting = while_waiting
        self._under_way: deque[tuple[Any, torch.Tensor | None]] = deque()
        self._cut_s: float | None = None

    def start(self, begin: Callable[[], Any], spare: torch.Tensor | None = None) -> Any:
        """Begin a collective and watch it; raises LostRankError if the transport says that it cannot."""
        self.started += 1
        try:
            work = begin()
        except RuntimeError as error:
            raise LostRankError(str(error)) from error
        while self._under_way and self._under_way[0][0].is_completed():
            self._under_way.popleft()
        # What is spare the transport holds meanwhile, and nobody needs its values once the world is lost.
        self._under_way.append((work, spare))
        return work

    def finish(self, *works: Any) -> None:
        """Wait until they have ended; raises LostRankError if one failed, or was cut and does not end."""
        for work in works:
            begun_s = time.monotonic()
            while not work.is_completed():
                self._wait_a_little(work, time.monotonic() - begun_s)
                if self._overdue() and not work.is_completed():
                    raise LostRankError("a collective did not end after its world was cut")
                self._while_waiting(time.monotonic() - begun_s)
            # Aborted NCCL collectives look completed, without an error, although their values are undefined.
            if self._on_gpu and self._cut_s is not None:
                raise LostRankError("a collective was under way when its world was cut")
            # What has failed is completed, too: wait() raises its error.
            try:
                work.wait()
            except RuntimeError as error:
                raise LostRankError(str(error)) from error

    def _wait_a_little(self, work: Any, waited_s: float) -> None:
        """Wait for a collective for a moment."""
        if self._on_gpu:
            # NCCL takes a timeout of wait() for a failure, and aborts all that is under way.
            time.sleep(min(_MAX_POLL_S, _POLL_PART * waited_s))
            return
        # In slices: gloo may have forgotten this collective, and then its wait would not end.
        with contextlib.suppress(RuntimeError):
            work.wait(_SLICE)

    def cut(self) -> None:
        """The world's connections are cut: no wait lasts much longer."""
        self._cut_s = self._cut_s or time.monotonic()

    def ended(self) -> bool:
        """Whether all have ended after a cut, given a moment to do so."""
        self.cut()
        while not (ended := all(work.is_completed() for work, _ in self._under_way)) and not self._overdue():
            time.sleep(0.001)
        return ended

    def forget(self) -> None:
        """All have ended: hold their tensors no longer."""
        self._under_way.clear()

    def abandon(self) -> None:
        """Forget all after a cut: some never end and hold their tensors for ever, so give their memory back."""
        for work, spare in self._under_way:
            # The values are of a step that is lost: the system gets the memory back nevertheless.
            if spare is not None and not work.is_completed():
                give_back_pages(spare)
        self.forget()

    def _overdue(self) -> bool:
        return self._cut_s is not None and time.monotonic() - self._cut_s > _GRACE_S


class Ranks:
    """All ranks of a world, or those that have the same shard of the model, with their process group.

    What fails raises LostRankError, at once or when it is waited for.
    """

    def __init__(self, size: int, collectives: Collectives, replica: Replica) -> None:
        self.size = size
        self.group: dist.ProcessGroup | None = None
        self._collectives = collectives
        self._replica = replica

    def sum(self, values: list[float]) -> list[float]:
        """The sums of some numbers over the ranks."""
        tensor = torch.tensor(values, dtype=torch.float64)
        self._together(lambda: self._collectives.finish(self.start_all_reduce(tensor)))
        return [float(value) for value in tensor.tolist()]

    def add_up(self, tensors: Sequence[torch.Tensor]) -> None:
        """Sum each tensor, in place."""
        self.start_add_up(tensors)()

    def start_add_up(self, tensors: Sequence[torch.Tensor]) -> Callable[[], None]:
        """Begin to sum each tensor, in place; returns a function that waits for the sums."""
        works = [self.start_all_reduce(tensor) for tensor in tensors]
        return lambda: self.finish(works)

    def finish(self, works: Sequence[Any]) -> None:
        """Wait for what this rank has begun."""
        self._together(lambda: self._collectives.finish(*works))

    def start_gather(self, mine: torch.Tensor) -> Callable[[], list[torch.Tensor]]:
        """Begin to exchange tensors of one size; returns a function that waits for all ranks' ones, in order."""
        all_ = [torch.empty_like(mine) for _ in range(self.size)]
        work = self._collectives.start(lambda: dist.all_gather(all_, mine, group=self.group, async_op=True))

        def rows() -> list[torch.Tensor]:
            self.finish([work])
            return all_

        return rows

    def broadcast(self, tensor: torch.Tensor, source: int) -> None:
        """Give all ranks the source's tensor, in place."""
        self.start_broadcast(tensor, source)()

    def start_all_reduce(self, tensor: torch.Tensor) -> Any:
        """Begin to sum a tensor in place, which is not needed any more if that fails."""
        return self._collectives.start(lambda: dist.all_reduce(tensor, group=self.group, async_op=True), tensor)

    def start_broadcast(self, tensor: torch.Tensor, source: int) -> Callable[[], None]:
        """Begin to give all ranks the source's tensor; returns a function that waits for it."""
        work = self._collectives.start(lambda: dist.broadcast(tensor, source, group=self.group, async_op=True))
        return lambda: self.finish([work])

    def _together(self, operation: Callable[[], None]) -> None:
        # Workers of one replica cannot go on without each other: what failed for one has failed for all.
        try:
            operation()
        except LostRankError:
            self._replica.agree(False)
            raise
        if not self._replica.agree(True):
            raise LostRankError("another worker of this node was cut off from its peers")
