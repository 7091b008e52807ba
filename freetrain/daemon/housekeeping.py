"""Housekeeping: what users submitted is kept as it should be between two looks, and answered."""

from __future__ import annotations

from collections.abc import Sequence

from freetrain.core.known_trainer import TrainerState
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.trainers.entries import Entry
from freetrain.slurm import commands
from freetrain.slurm.comments import answer_in, with_servers
from freetrain.slurm.launcher import Launcher, Order

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
        was_told = self._tell(trainer.id, Order(commands.set_comment(tasks, comment), why), now_s)
        if was_told and trainer.state is TrainerState.PAUSED:
            self.answered.add(trainer.id)

    def tell_servers(self, entry: Entry, nodes: Sequence[str], now_s: float, decision: str | None) -> None:
        """Tell the trainer's agents on which nodes its servers are to run; they read the comment, too.

        Args:
            entry: the trainer.
            nodes: by name.
            now_s: UTC epoch seconds.
            decision: that says so.
        """
        tasks, comment = entry.submission.open_tasks, with_servers(entry.submission.comment, nodes)
        if tasks:
            why = f"{entry.trainer.id} has servers on {', '.join(nodes) or 'no node'}"
            self._tell(
                f"servers of {entry.trainer.id}", Order(commands.set_comment(tasks, comment), why), now_s, decision
            )

    def _tell(self, what: str, order: Order, now_s: float, decision: str | None = None) -> bool:
        """Whether Slurm took it; what has been told is told again after a while only."""
        self._told = {key: one for key, one in self._told.items() if now_s - one[1] < _TOLD_AGAIN_S}
        if what in self._told and self._told[what][0] == order:
            return False
        self._told[what] = (order, now_s)
        return self._executor.carry_out(order, decision) is not None
