"""Housekeeping: what users submitted is kept as it should be between two looks, and answered."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.trainers.entries import Entry
from freetrain.slurm import commands
from freetrain.slurm.launcher import Launcher, Order
from freetrain.slurm.tags import answer_in

_TOLD_AGAIN_S = 60.0
"""After so long an answer that is still not in the comment is given again."""


class Housekeeping:
    """Keeps submissions as they should be.

    Args:
        launcher: knows how.
        executor: carries orders out.
        fragments: the books.

    Attributes:
        answered: trainers whose owners have been told that they are paused.
    """

    def __init__(self, launcher: Launcher, executor: Executor, fragments: Fragments) -> None:
        self._launcher = launcher
        self._executor = executor
        self._fragments = fragments
        self._tidied: dict[str, Sequence[Order]] = {}
        self._told: dict[str, tuple[Order, float]] = {}
        self.answered: set[str] = set()

    def put_right(self, entry: Entry, now_s: float) -> None:
        """End what is complete, hold what is astray, answer whose tag is wrong."""
        if entry.trainer.state is TrainerState.COMPLETE:
            self._end(entry)
        # What is being taken up again can be told nothing until the next look.
        elif not self._tidy(entry):
            self._answer(entry, now_s)

    def _end(self, entry: Entry) -> None:
        """Cancel what is left of a complete training."""
        if entry.submission.is_over:
            return
        for order in self._launcher.end(entry.submission, entry.fragments, f"{entry.trainer.id} is complete"):
            self._executor.carry_out(order)
        if self._executor.acts:
            self._fragments.note_leaving(entry.fragments)

    def _tidy(self, entry: Entry) -> bool:
        """Whether there was something to do that was not tried at the last look, too."""
        orders = self._launcher.tidy(entry.submission, entry.fragments, entry.needed_again)
        for order in orders:
            self._executor.carry_out(order)
        before = self._tidied.pop(entry.trainer.id, ())
        if orders:
            self._tidied[entry.trainer.id] = orders
        return orders != before and bool(orders)

    def _answer(self, entry: Entry, now_s: float) -> None:
        """Tell the owner in the comment, the one place that he sees and freetrain can write, until it is there."""
        trainer, comment, tasks = entry.trainer, entry.comment, entry.submission.open_tasks
        if trainer.state is not TrainerState.PAUSED:
            self.answered.discard(trainer.id)
        if comment == entry.submission.comment or not tasks:
            self._told.pop(trainer.id, None)
            return
        why = f"answer {trainer.owner}: {answer_in(comment)}" if answer_in(comment) else f"{trainer.id} goes on"
        order = Order(commands.set_comment(tasks, comment), why)
        told, told_s = self._told.get(trainer.id, (None, now_s))
        if told == order and now_s - told_s < _TOLD_AGAIN_S:
            return
        self._told[trainer.id] = (order, now_s)
        if self._executor.carry_out(order) is not None and trainer.state is TrainerState.PAUSED:
            self.answered.add(trainer.id)
