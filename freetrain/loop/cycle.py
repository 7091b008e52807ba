"""One cycle of the loop. Its callers differ only in the cluster and the judge that they pass."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, Self, TypeVar

from freetrain.core.aim import read_aim
from freetrain.core.data_wait import SharedNode
from freetrain.core.decision import Decision
from freetrain.core.plan import Action, Lend, plan_moves, plan_serving
from freetrain.core.problem import Problem, Question
from freetrain.core.trainer import NO_PAST, PAST_FIELDS, Serving, Trainer, TrainerPast
from freetrain.loop.deciding import Finished, decide, finish
from freetrain.policies import (
    AS_ASKED,
    FIRST_NODES,
    NEEDS_PAST,
    UNKNOWN_LINKS,
    Finisher,
    Links,
    Placer,
    Policy,
    with_links,
)

Facts_co = TypeVar("Facts_co", covariant=True)
FactsT = TypeVar("FactsT")
PastOf = Callable[[Collection[str]], Mapping[str, TrainerPast]]


class Cluster(Protocol[Facts_co]):
    """Source of facts about nodes and trainers, and executor of actions: Slurm, or a log being replayed."""

    def observe(self) -> Facts_co:
        """The facts as they are now."""

    def past_of(self, trainers: Collection[str]) -> Mapping[str, TrainerPast]:
        """Trainer → its past so far, where that is known; the samples that it has done come from the judge."""

    def act(self, action: Action, decision: str | None) -> None:
        """Carry out one action of this decision; None: it is part of none."""


class Judged(Protocol):
    """Conclusions of a judge from the facts."""

    @property
    def now_s(self) -> float:
        """The instant of the look, UTC epoch seconds."""

    @property
    def orders(self) -> Sequence[Action]:
        """Actions to carry out before anything is decided."""

    @property
    def questions(self) -> Sequence[Question]:
        """Questions to decide, one after the other: which of these trainers gets which of these nodes."""

    @property
    def horizon_s(self) -> float:
        """Seconds ahead for which value is counted."""

    @property
    def changes(self) -> float:
        """Number of times that growing and shrinking are charged."""

    @property
    def done_samples(self) -> Mapping[str, float]:
        """Trainer → samples that it has done so far, as far as is known."""

    @property
    def serving(self) -> Serving:
        """Trainer → those of its nodes on which it was ordered to run servers."""

    def limit_s(self, node: str) -> float:
        """Seconds from now for which the node may be lent."""

    def shared_nodes(self, lent: Mapping[str, Sequence[str]]) -> Iterable[SharedNode]:
        """The nodes of which trainers are lent these new parts; none where nodes are lent whole."""


JudgedT = TypeVar("JudgedT", bound=Judged)


class Journal(Protocol):
    """Store of every decision, so that it can be explained and solved again."""

    def next_decision(self) -> str:
        """Name of the decision that is recorded next."""

    def record(self, problem: Problem, decision: Decision) -> None:
        """Keep one decision with its problem."""


class NullJournal:
    """Journal that keeps nothing."""

    def next_decision(self) -> str:
        """The empty name."""
        return ""

    def record(self, problem: Problem, decision: Decision) -> None:
        """Forget the decision."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Objective of a site, with the policy by the number of decisions in a look, the placer and the finisher."""

    policy_for: Callable[[int], Policy]
    objective: str
    placer: Placer = FIRST_NODES
    finisher: Finisher = AS_ASKED
    links: Links = UNKNOWN_LINKS

    @classmethod
    def of(cls, policy: Policy, objective: str, placer: Placer = FIRST_NODES) -> Self:
        """The goal with the same policy however many decisions there are."""
        return cls(lambda decisions: policy, objective, placer)


def run_cycle(
    cluster: Cluster[FactsT],
    judge: Callable[[FactsT], JudgedT],
    goal: Goal,
    journal: Journal,
    stopwatch_s: Callable[[], float],
) -> tuple[JudgedT, list[Decision]]:
    """Observe, judge, decide, verify, act, record: once.

    1. What the judge orders is done before anything is decided.
    2. Each decision is carried out before the next is made, releases first, and kept when that has been done.
       Where a finisher divides shared nodes, all are made first: it divides among trainings of several decisions.
    """
    judged = judge(cluster.observe())
    for order in judged.orders:
        cluster.act(order, None)
    decided = _decide_all(judged, goal, stopwatch_s, cluster.past_of)
    finished = Finished()
    if goal.finisher is not AS_ASKED:
        # A node's parts may belong to trainings of several decisions, and the finisher has to see all of them.
        decided = iter(all_of_them := list(decided))
        finished = finish(goal.finisher, judged.shared_nodes(_lent(all_of_them)))
    decisions = []
    for problem, decision in decided:
        for action in plan_moves(problem.held_names, decision.placement):
            cluster.act(_with_limits(action, judged, finished), journal.next_decision())
        for serve in plan_serving(problem.serving, decision.serving):
            cluster.act(serve, journal.next_decision())
        if finished.notes:
            notes = (note for trainer in decision.placement for note in finished.notes.get(trainer, ()))
            decision = replace(decision, notes=(*decision.notes, *notes))
        journal.record(problem, decision)
        decisions.append(decision)
    return judged, decisions


def _decide_all(
    judged: Judged, goal: Goal, stopwatch_s: Callable[[], float], past_of: PastOf
) -> Iterator[tuple[Problem, Decision]]:
    questions, serving_now = judged.questions, judged.serving
    policy, placer = with_links(goal.policy_for(len(questions)), goal.placer, goal.links, questions)
    for nodes, trainers in questions:
        past = _past(policy, goal.objective, judged, trainers, past_of)
        serving = {trainer.id: on for trainer in trainers if (on := serving_now.get(trainer.id))}
        problem = Problem(
            judged.now_s, nodes, trainers, judged.horizon_s, goal.objective, past, serving, judged.changes
        )
        # A generator, so that each decision is carried out before the next one is made.
        yield problem, decide(policy, problem, stopwatch_s, placer)


def _lent(decided: Iterable[tuple[Problem, Decision]]) -> Mapping[str, Sequence[str]]:
    """Trainer → nodes, or parts of some, that it is lent."""
    moves = (move for problem, decision in decided for move in plan_moves(problem.held_names, decision.placement))
    return {move.trainer: move.nodes for move in moves if isinstance(move, Lend)}


def _past(
    policy: Policy, objective: str, judged: Judged, trainers: Sequence[Trainer], past_of: PastOf
) -> Mapping[str, TrainerPast]:
    """Trainer → the values of its past that the policy or a deadline needs; a trainer without any is missing."""
    # Packages' policies are checked where they are loaded: what is unknown all the same is left out.
    needs = frozenset(getattr(policy, NEEDS_PAST, ())) & PAST_FIELDS
    by_deadline = read_aim(objective).deadlines > 0
    had = past_of([trainer.id for trainer in trainers]) if needs - {"done_samples"} else {}
    past = dict[str, TrainerPast]()
    for trainer in trainers:
        known = had.get(trainer.id, NO_PAST)
        values = {name: getattr(known, name) for name in needs}
        if "done_samples" in needs or (by_deadline and trainer.deadline_s is not None):
            # Progress is what its owner says: less than nothing is nothing.
            values["done_samples"] = max(judged.done_samples.get(trainer.id, 0.0), 0.0)
        # The journal keeps every problem: most are kept without a past.
        if any(value is not None and value != 0 for value in values.values()):
            past[trainer.id] = TrainerPast(**values)
    return past


def _with_limits(action: Action, judged: Judged, finished: Finished) -> Action:
    """The action; one that lends, with the nodes' time limits and, of shared nodes, the finisher's amounts."""
    if not isinstance(action, Lend):
        return action
    limits_s = tuple(judged.limit_s(node) for node in action.nodes)
    amounts = {place: finished.amounts[place] for place in action.nodes if place in finished.amounts}
    return Lend(action.trainer, action.nodes, limits_s, amounts)
