"""Collectives that cannot hold the training up for ever.

Gloo (as in torch 2.13) forgets a send that is queued when its connection fails: nobody is told, and waiting for it
means waiting for its timeout. Here nobody waits for the transport alone: once the world has been cut, a wait that
does not end soon is given up, and what still runs is left to itself.
"""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable
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

    Args:
        while_waiting: called again and again while a collective is waited for, with the seconds so far; it may
            raise what ends the wait.

    Attributes:
        started: how many have begun; all ranks begin the same ones.
        failed: whether one of them has.
    """

    def __init__(self, while_waiting: Callable[[float], object] = lambda _: None) -> None:
        self.started = 0
        self.failed = False
        self._while_waiting = while_waiting
        self._under_way: deque[tuple[Any, torch.Tensor | None]] = deque()
        self._cut_s: float | None = None

    def start(self, begin: Callable[[], Any], spare: torch.Tensor | None = None) -> Any:
        """Begin a collective and keep an eye on it.

        Args:
            begin: begins it.
            spare: what the transport holds meanwhile, if nobody needs its values should the world be lost.

        Raises:
            LostRankError: the transport says that it cannot.
        """
        self.started += 1
        try:
            work = begin()
        except RuntimeError as error:
            raise self._lost(error) from error
        while self._under_way and self._under_way[0][0].is_completed():
            self._under_way.popleft()
        self._under_way.append((work, spare))
        return work

    def finish(self, work: Any) -> None:
        """Wait until it has ended.

        Raises:
            LostRankError: it failed, or the world was cut and this one does not end.
        """
        begun_s = time.monotonic()
        while not work.is_completed():
            with contextlib.suppress(RuntimeError):
                work.wait(_SLICE)
            if self._overdue() and not work.is_completed():
                raise LostRankError("a collective did not end after its world was cut")
            self._while_waiting(time.monotonic() - begun_s)
        try:
            work.wait()
        except RuntimeError as error:
            raise self._lost(error) from error

    def cut(self) -> None:
        """The world's connections are cut: nobody waits much longer."""
        self._cut_s = self._cut_s or time.monotonic()

    def ended(self) -> bool:
        """After a cut: whether all have ended, given a moment to do so."""
        self.cut()
        while not (ended := all(work.is_completed() for work, _ in self._under_way)) and not self._overdue():
            time.sleep(0.001)
        return ended

    def forget(self) -> None:
        """All have ended: hold their tensors no longer."""
        self._under_way.clear()

    def abandon(self) -> None:
        """After a cut: some never end, and hold their tensors for ever.

        The memory of gradients, whose step is lost anyway, is returned to the system nevertheless.
        """
        for work, spare in self._under_way:
            if spare is not None and not work.is_completed():
                give_back_pages(spare)
        self.forget()

    def _lost(self, error: RuntimeError) -> LostRankError:
        self.failed = True
        return LostRankError(str(error))

    def _overdue(self) -> bool:
        return self._cut_s is not None and time.monotonic() - self._cut_s > _GRACE_S
