"""Upkeep: what is done in each cycle before anything is decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.lent_trainer import TrainerState
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.sight import Manners, Sight
from freetrain.daemon.trainers.entries import Entry
from freetrain.slurm import commands
from freetrain.slurm.launcher import Launcher, Order
from freetrain.slurm.tags import answer_in

_LONGER_BY_S = 600.0
"""A running fragment's limit is raised when that gains this much; each raise is a question to Slurm."""


_TOLD_AGAIN_S = 60.0
"""After so long an answer that is still not in the comment is given again."""


class Upkeep:
    """Keeps fragments and submissions as they should be.

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

    def put_right(self, sight: Sight, manners: Manners) -> None:
        """End what is complete, hold what is astray, answer whose tag is wrong, fit limits to holes."""
        for entry in sight.entries:
            if entry.trainer.state is TrainerState.COMPLETE:
                self._end(entry)
            else:
                # What is being taken up again can be told nothing until the next look.
                if not self._tidy(entry):
                    self._answer(entry, sight.snapshot.time_s)
        self._adjust_limits(sight, manners)

    def _end(self, entry: Entry) -> None:
        """Cancel what is left of a complete training."""
        if entry.submission.is_over:
            return
        for order in self._launcher.end(entry.submission, entry.fragments, f"{entry.trainer.id} is complete"):
            self._executor.carry_out(order)
        self._note_leaving(entry.fragments)

    def _tidy(self, entry: Entry) -> bool:
        """Whether there was something to do that was not tried at the last look, too."""
        orders = self._launcher.tidy(entry.submission, entry.fragments, entry.goes_on, entry.is_elastic)
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

    def _adjust_limits(self, sight: Sight, manners: Manners) -> None:
        """Let the limits of fragments follow the ends of their holes."""
        free_until_s = sight.free_until_s
        changed: dict[float, list[Fragment]] = {}
        for fragment in self._fragments.open:
            if fragment.node in free_until_s:
                limit_s = _fitting_limit_s(fragment, free_until_s[fragment.node], sight.snapshot, manners)
                if limit_s != fragment.limit_s:
                    changed.setdefault(limit_s, []).append(fragment)
        for limit_s, fragments in changed.items():
            jobs = [fragment.job for fragment in fragments]
            order = Order(commands.set_limit(limit_s, *jobs), f"fit {len(jobs)} fragments to their holes")
            if self._executor.carry_out(order) is not None:
                self._fragments.save([replace(fragment, limit_s=limit_s) for fragment in fragments])

    def give_back(self, sight: Sight) -> None:
        """Take due nodes from whoever has them."""
        reasons: dict[str, list[Fragment]] = {}
        for fragment in self._fragments.open:
            if fragment.node in sight.lendable.due:
                reasons.setdefault(sight.lendable.due[fragment.node], []).append(fragment)
        for why, fragments in reasons.items():
            nodes = ", ".join(fragment.node for fragment in fragments)
            self.stop(fragments, f"give {nodes} back: {why}", None)

    def stop(self, fragments: Sequence[Fragment], why: str, decision: str | None) -> None:
        """End fragments, for a reason and, perhaps, by a decision."""
        for order in self._launcher.stop(fragments, why):
            self._executor.carry_out(order, decision)
        self._note_leaving(fragments)

    def _note_leaving(self, fragments: Iterable[Fragment]) -> None:
        if self._executor.acts:
            running = [one for one in fragments if one.state is FragmentState.RUNNING]
            self._fragments.save([replace(one, state=FragmentState.LEAVING) for one in running])


def _fitting_limit_s(fragment: Fragment, free_until_s: float, snapshot: Snapshot, manners: Manners) -> float:
    """Its limit, if that will do, or a better one, in whole minutes."""
    if fragment.started_s is None:  # with too long a limit it would never start
        return min(fragment.limit_s, _whole_minutes_s(manners.limit_s(free_until_s, snapshot)))
    # It runs, so nothing has to be planned any more.
    longest_s = manners.limit_s(inf, snapshot) + snapshot.time_s - fragment.started_s
    wanted_s = _whole_minutes_s(min(free_until_s - fragment.started_s, longest_s))
    too_long = wanted_s < fragment.limit_s
    too_short = wanted_s > fragment.limit_s + max(_LONGER_BY_S, manners.longest_fragment_s / 4)
    return wanted_s if too_long or too_short else fragment.limit_s


def _whole_minutes_s(seconds: float) -> float:
    """As Slurm counts limits: one minute at least."""
    return max(60.0, seconds // 60 * 60)
