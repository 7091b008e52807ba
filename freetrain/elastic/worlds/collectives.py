"""Collectives that cannot hold the training up for ever.

Gloo (as in torch 2.13) forgets a send that is queued when its connection fails: nobody is told, and waiting for it
means waiting for its timeout. Here nobody waits for the transport alone: once the world has been cut, a wait that
does not end soon is given up, and what still runs is left to itself.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import torch

from freetrain.elastic.errors import LostRankError
from freetrain.elastic.worlds.memory import give_back_pages

_GRACE_S = 0.1
"""After the cut, collectives get this long to fail by themselves, as nearly all do at once."""

_SLICE = timedelta(seconds=0.05)


class Collectives:
    """What is under way in one world.

    Attributes:
        started: how many have begun; all ranks begin the same ones.
        failed: whether one of them has.
    """

    def __init__(self) -> None:
        self.started = 0
        self._under_way: deque[Any] = deque()
        self._owed: list[_Owed] = []
        self._cut_s: float | None = None
        self.failed = False

    def start(self, begin: Callable[[], Any]) -> Any:
        """Begin a collective and keep an eye on it.

        Raises:
            LostRankError: the transport says that it cannot.
        """
        self.started += 1
        try:
            work = begin()
        except RuntimeError as error:
            raise self._lost(error) from error
        while self._under_way and self._under_way[0].is_completed():
            self._under_way.popleft()
        self._under_way.append(work)
        return work

    def finish(self, work: Any) -> None:
        """Wait until it has ended.

        Raises:
            LostRankError: it failed, or the world was cut and this one does not end.
        """
        while not work.is_completed():
            with contextlib.suppress(RuntimeError):
                work.wait(_SLICE)
            if self._overdue() and not work.is_completed():
                raise LostRankError("a collective did not end after its world was cut")
        try:
            work.wait()
        except RuntimeError as error:
            raise self._lost(error) from error

    def promise(
        self, works: Sequence[Any], tensor: torch.Tensor, on_loss: Callable[[BaseException], object]
    ) -> Any:
        """A future of the tensor that always comes; where one of the works fails, ``on_loss`` is called before."""

        def note(error: BaseException) -> None:
            self.failed = True
            on_loss(error)

        owed = _Owed(tensor, len(works), note)
        self._owed = [other for other in self._owed if not other.future.done()]
        self._owed.append(owed)
        for work in works:
            work.get_future().add_done_callback(owed.settle)
        return owed.future

    def cut(self) -> None:
        """The world's connections are cut: nobody waits much longer. Call again until all are out."""
        self._cut_s = self._cut_s or time.monotonic()
        if self._overdue():
            for owed in list(self._owed):
                owed.give_up(LostRankError("a sum of gradients did not end after its world was cut"))

    def ended(self) -> bool:
        """After a cut: whether all have ended, given a moment to do so."""
        self._cut_s = self._cut_s or time.monotonic()
        while not (ended := all(work.is_completed() for work in self._under_way)) and not self._overdue():
            time.sleep(0.001)
        return ended

    def forget(self) -> None:
        """All have ended: hold their tensors no longer."""
        self._under_way.clear()
        self._owed.clear()

    def abandon(self) -> None:
        """After a cut: some never end, and hold their tensors for ever.

        The memory of gradients, whose step is lost anyway, is returned to the system nevertheless.
        """
        for owed in self._owed:
            owed.abandon()
        self.forget()

    def _lost(self, error: RuntimeError) -> LostRankError:
        self.failed = True
        return LostRankError(str(error))

    def _overdue(self) -> bool:
        return self._cut_s is not None and time.monotonic() - self._cut_s > _GRACE_S


class _Owed:
    """A tensor that somebody waits for.

    Once it is delivered it holds nothing of its world any more: in a cycle with that, the tensor would stay until
    Python looks for garbage, which a training may give no occasion for.
    """

    def __init__(self, tensor: torch.Tensor, parts: int, on_loss: Callable[[BaseException], object]) -> None:
        self.future: Any = torch.futures.Future()
        self._tensor = tensor
        self._missing = parts
        self._on_loss = on_loss
        self._lock = threading.Lock()
        self._failed = False

    def settle(self, ended: Any) -> None:
        """One of its works has ended, well or not."""
        try:
            ended.value()
        except RuntimeError as error:
            self.give_up(error)
            return
        with self._lock:
            self._missing -= 1
            is_whole = self._missing == 0
        if is_whole:
            self._deliver(None)

    def give_up(self, error: BaseException) -> None:
        """Nobody should wait any longer."""
        self._deliver(error)

    def abandon(self) -> None:
        """Nobody needs the tensor if it failed, but the transport may hold it; its connections are cut."""
        if self._failed:
            give_back_pages(self._tensor)

    def _deliver(self, error: BaseException | None) -> None:
        with self._lock:
            if not self.future.done():
                if error is not None:
                    self._failed = True
                    self._on_loss(error)
                self.future.set_result(self._tensor)
                self._on_loss = _heed_nothing


def _heed_nothing(_: BaseException) -> None:
    pass
