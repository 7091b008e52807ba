"""Housekeeping: what users submitted is kept as it should be between two looks, and answered."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from freetrain.core.cluster import Snapshot
from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.daemon.trainers.training import Training
from freetrain.slurm import commands
from freetrain.slurm.comments import answer_in, with_servers
from freetrain.slurm.errors import SlurmUnreachableError
from freetrain.slurm.launcher import Launcher, Order

log = logging.getLogger(__name__)

# An answer that is still not in the comment by then was lost, or somebody has overwritten it.
_GIVEN_AGAIN_S = 60.0
# One owner's submissions must not cost the others a look: the rest waits for the next one.
_MOST_S = 5.0
# Orders that change nothing are given so often in a row, and then less and less often.
_SAME_AGAIN = 3
_PAUSE_S, _LONGEST_PAUSE_S = 60.0, 3600.0
"""Seconds until what failed is tried again, at first and at most."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """Orders that were given, or failed, so often in a row; not again before ``next_s``, UTC epoch seconds."""

    orders: Sequence[Order] = ()
    times: int = 0
    next_s: float = 0.0

    def counts(self, now_s: float) -> bool:
        """Whether it was tried lately: a longer pause follows only then."""
        return now_s - self.next_s < _LONGEST_PAUSE_S

    def again(self, orders: Sequence[Order], now_s: float, without_pause: int) -> _Tried:
        """Record after these orders were given: once more, or for the first time if they are others."""
        times = self.times + 1 if orders == self.orders else 1
        pauses = times - without_pause
        pause_s = min(_PAUSE_S * 2 ** (pauses - 1), _LONGEST_PAUSE_S) if pauses > 0 else 0.0
        return _Tried(orders, times, now_s + pause_s)


class Housekeeping:
    """Keeps submissions as they should be.

    What is done for one owner never costs the others a look: it has its time, and what fails of it is tried again
    later. Where Slurm does not answer to the orders for two of them it answers nobody.

    Attributes:
        answered: trainers whose owners have been informed that they are paused.
    """

    def __init__(self, launcher: Launcher, executor: Executor, fragments: Fragments) -> None:
        self._launcher = launcher
        self._executor = executor
        self._fragments = fragments
        self._tidied: dict[str, _Tried] = {}
        self._given: dict[str, tuple[Order, float]] = {}
        self._failed: dict[str, _Tried] = {}
        self._spent_s: dict[str, float] = {}
        self._failed_now: set[str] = set()
        self._look_s = 0.0
        self.answered: set[str] = set()

    def look_after(self, training: Training, snapshot: Snapshot) -> None:
        """End what is complete, hold what is astray, and answer owners whose tag is wrong.

        Raises:
            SlurmUnreachableError: no answer, and none to the orders for another owner at this look.
        """
        owner, now_s = training.trainer.owner, snapshot.time_s
        if now_s != self._look_s:
            # A new look: what was tried long ago is forgotten, too, for somebody who may be gone.
            self._look_s, self._spent_s, self._failed_now = now_s, {}, set()
            self._tidied = {id_: tried for id_, tried in self._tidied.items() if tried.counts(now_s)}
            self._failed = {owner: tried for owner, tried in self._failed.items() if tried.counts(now_s)}
        failed = self._failed.get(owner, _Tried())
        if now_s < failed.next_s or self._spent_s.get(owner, 0.0) > _MOST_S:
            return
        began_s = time.perf_counter()
        try:
            if training.trainer.state is TrainerState.COMPLETE:
                self._end(training)
            # What is being taken up again cannot be informed until the next look.
            elif not self._tidy(training, snapshot):
                self._answer(training, now_s)
        except SlurmUnreachableError as error:
            self._failed[owner] = failed.again((), now_s, 0)
            self._failed_now.add(owner)
            # Slurm may refuse to answer for one owner's submissions; silent for two it answers nobody.
            if self._failed_now != {owner}:
                raise
            log.warning("%s The submissions of %s are looked after again later.", error.what, owner)
        else:
            self._failed.pop(owner, None)
        self._spent_s[owner] = self._spent_s.get(owner, 0.0) + time.perf_counter() - began_s

    def _end(self, training: Training) -> None:
        if training.submission.is_over:
            return
        for order in self._launcher.end(training.submission, f"{training.id} is complete"):
            self._executor.carry_out(order)
        if self._executor.acts:
            self._fragments.note_leaving(training.fragments)

    def _tidy(self, training: Training, snapshot: Snapshot) -> bool:
        """Put the submission right, and return whether that took orders other than those given last."""
        needs_again = partial(strategy_of(training.tag).needs_again, training)
        orders = self._launcher.tidy(training.submission, needs_again, snapshot.jobs)
        before = self._tidied.get(training.id, _Tried())
        if not orders:
            self._tidied.pop(training.id, None)
            return False
        if orders == before.orders and snapshot.time_s < before.next_s:
            return False
        self._tidied[training.id] = before.again(orders, snapshot.time_s, _SAME_AGAIN)
        for order in orders:
            self._executor.carry_out(order)
        return orders != before.orders

    def _answer(self, training: Training, now_s: float) -> None:
        """Answer in the comment, the one place that owners see and freetrain can write, until it is there."""
        trainer, comment, submission = training.trainer, training.comment, training.submission
        if trainer.state is not TrainerState.PAUSED:
            self.answered.discard(trainer.id)
        if comment == submission.comment or submission.is_over:
            self._given.pop(trainer.id, None)
            return
        why = f"answer {trainer.owner}: {answer_in(comment)}" if answer_in(comment) else f"{trainer.id} goes on"
        was_given = self._tell(trainer.id, Order(commands.set_comment(submission.open_tasks, comment), why), now_s)
        if was_given and trainer.state is TrainerState.PAUSED:
            self.answered.add(trainer.id)

    def tell_servers(self, training: Training, nodes: Sequence[str], now_s: float, decision: str | None) -> None:
        """Tell the trainer's agents on which nodes its servers are to run; they read the comment, too."""
        tasks, comment = training.submission.open_tasks, with_servers(training.submission.comment, nodes)
        if tasks:
            why = f"{training.id} has servers on {', '.join(nodes) or 'no node'}"
            order = Order(commands.set_comment(tasks, comment), why)
            self._tell(f"servers of {training.id}", order, now_s, decision)

    def _tell(self, what: str, order: Order, now_s: float, decision: str | None = None) -> bool:
        """Give an order, the same one again only after a while, and return whether Slurm took it."""
        self._given = {key: answer for key, answer in self._given.items() if now_s - answer[1] < _GIVEN_AGAIN_S}
        if what in self._given and self._given[what][0] == order:
            return False
        self._given[what] = (order, now_s)
        return self._executor.carry_out(order, decision) is not None
