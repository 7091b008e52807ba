"""Starting fragments: what a decision to lend becomes in the books, and then in Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState, node_of
from freetrain.core.node import Node
from freetrain.core.plan import Lend
from freetrain.daemon.executor import Executor
from freetrain.daemon.fragments import Fragments
from freetrain.daemon.trainers.kinds import strategy_of
from freetrain.daemon.trainers.training import Training
from freetrain.slurm.launcher import Launcher, Order, Place


class FragmentStarter:
    """Lends nodes to trainers: ties tasks of theirs to places, and lets them start.

    Args:
        launcher: makes fragments.
        executor: carries orders out.
        books: in which fragments are written down before Slurm hears of them.
    """

    def __init__(self, launcher: Launcher, executor: Executor, books: Fragments) -> None:
        self._launcher = launcher
        self._executor = executor
        self._books = books
        self._amounts: dict[str, Amount] = {}

    def amounts_asked(self) -> Mapping[str, Amount]:
        """Job that has still to start → how much of its node it is given, where that is not what it asks for."""
        asked = {fragment.job for fragment in self._books.open if fragment.state is FragmentState.ASKED}
        self._amounts = {job: amount for job, amount in self._amounts.items() if job in asked}
        return dict(self._amounts)

    def lend(self, training: Training, action: Lend, snapshot: Snapshot, decision: str | None) -> None:
        """Lend these places to a trainer.

        Args:
            training: the trainer, or the filler of which it is a task.
            action: which places, for how long, and how much of each.
            snapshot: the nodes.
            decision: that led to it.
        """
        nodes = snapshot.node
        places = [Place(node_of(name), s) for name, s in zip(action.nodes, action.limits_s, strict=True)]
        task = action.trainer if strategy_of(training.tag).tasks_compete else ""
        wanted = self._launcher.lend(training.submission, training.fragments, places, snapshot.time_s, task)
        amounts = [self._given(training, nodes[node_of(name)], action.amounts.get(name)) for name in action.nodes]
        if not self._executor.acts:
            orders = [self._order_of(training, its, amount, nodes) for its, amount in _by_job(wanted, amounts)]
            self._carry_out((*orders, *self._launcher.start(wanted)), decision)
            return
        # Written down before Slurm hears of it: whatever happens then, the next look finds out what became of
        # them. There may be fewer tasks than places.
        fragments = self._books.save(
            [
                replace(_with_parts(one, training, nodes[one.node], amount), decision=decision)
                for one, amount in zip(wanted, amounts, strict=False)
            ]
        )
        jobs = _by_job(fragments, amounts)
        placed = [
            fragment
            for its, amount in jobs
            if self._place(training, its, amount, nodes, decision)
            for fragment in its
        ]
        self._carry_out(self._launcher.start(placed), decision)

    def _carry_out(self, orders: Sequence[Order], decision: str | None) -> None:
        for order in orders:
            self._executor.carry_out(order, decision)

    def _given(self, training: Training, node: Node, amount: Amount | None) -> Amount | None:
        """What the launcher can give of it; None: what the task asks for."""
        if amount is None:
            return None
        asked = training.submission.needs.amount_on(node)
        given = self._launcher.gives(training.submission, amount, asked)
        return None if given == asked else given

    def _place(
        self,
        training: Training,
        its: Sequence[Fragment],
        amount: Amount | None,
        nodes: Mapping[str, Node],
        decision: str | None,
    ) -> bool:
        """Tie a job to its node, or nodes; where Slurm refuses, it is called off."""
        printed = self._executor.carry_out(self._order_of(training, its, amount, nodes), decision)
        if printed is None:
            self._books.call_off(its)
            return False
        placed = [self._launcher.placed(fragment, printed) for fragment in its]
        if amount is not None:
            self._amounts[placed[0].job] = amount
        if placed != its:
            self._books.save(placed)
        return True

    def _order_of(
        self, training: Training, its: Sequence[Fragment], amount: Amount | None, nodes: Mapping[str, Node]
    ) -> Order:
        node, *beside = (nodes[fragment.node] for fragment in its)
        return self._launcher.place(training.submission, its[0], node, amount, beside)


def _with_parts(fragment: Fragment, training: Training, node: Node, amount: Amount | None) -> Fragment:
    """The fragment with how much of its node it has: all that it is given, or what its task asks for."""
    given = amount or training.submission.needs.amount_on(node)
    share = given.part_of(node.total)
    return replace(fragment, share=share, parts=given.parts_of(node.total) if share < 1.0 else ())


def _by_job(
    fragments: Sequence[Fragment], amounts: Sequence[Amount | None]
) -> list[tuple[list[Fragment], Amount | None]]:
    """The fragments of each job, and how much of its node it is given; there may be more amounts."""
    jobs: dict[str, tuple[list[Fragment], Amount | None]] = {}
    for one, amount in zip(fragments, amounts, strict=False):
        jobs.setdefault(one.job, ([], amount))[0].append(one)
    return list(jobs.values())
