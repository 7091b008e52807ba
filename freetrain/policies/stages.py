"""The stages of a decision: a policy (how many nodes), a placer (which), a finisher (how much of shared ones)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from freetrain.core.amounts import Amount
from freetrain.core.data_wait import SharedNode
from freetrain.core.decision import Allocation, Placement, place
from freetrain.core.grouping import grouped
from freetrain.core.problem import Counts, Problem
from freetrain.core.terms import Table
from freetrain.core.topology import Topology, crossings, nodes_by_leaf, ring_order

NEEDS_PAST = "needs_past"
"""Attribute of policies that decide by ``Problem.past``: the fields of ``TrainerPast`` that they need."""

_MOST_NAMED = 5


class Policy(Protocol):
    """A policy: decides how many nodes each trainer gets. docs/developers/policy.md shows a whole one."""

    def decide(self, problem: Problem) -> Allocation:
        """The allocation; the same problem always gets the same one."""


@runtime_checkable
class Weighing(Protocol):
    """A policy that weighs sizes by a value of its own instead of the objective; 'freetrain explain' shows it."""

    weighs: str

    def weigh(self, problem: Problem) -> Table:
        """The value of each trainer's sizes, shape (trainers, sizes); of impossible sizes it means nothing."""


class Placer(Protocol):
    """Decides which nodes each trainer gets, once a policy has decided how many."""

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """Nodes of each trainer, as many of each class as ``counts`` says; the same arguments give the same nodes.

        A trainer that grows keeps its nodes, and one that does not gets no new one. In which order a trainer's
        nodes stand does not matter: its workers order their ranks by the switches.
        """


@runtime_checkable
class Explaining(Protocol):
    """A placer that explains what it weighed."""

    def explain(self, placement: Placement) -> Iterable[str]:
        """Sentences for the decision's record."""


@runtime_checkable
class RatingServers(Protocol):
    """A placer that prefers some of a trainer's nodes for its servers, where all are expected to stay as long."""

    def rate_for_server(self, node: str, nodes: Sequence[str]) -> float:
        """A rating of one of the trainer's nodes for a server, the higher the better; each has workers."""


class FirstNodes:
    """Takes the first nodes, idle ones before those that another trainer gives up."""

    def place(self, problem: Problem, counts: Counts) -> Placement:
        """The first nodes of each class."""
        return place(problem, counts)


FIRST_NODES = FirstNodes()


class Finisher(Protocol):
    """Decides what new parts of a node get beyond what they ask for, once it is decided who gets them."""

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        """Place → all that it gets, never less than it asks for; places that are missing get what they ask for."""


class AsAsked:
    """The finisher that gives each task what it asks for."""

    def finish(self, node: SharedNode) -> Mapping[str, Amount]:
        """Nothing beyond what the tasks ask for."""
        return {}


AS_ASKED = AsAsked()


def leaf_by_leaf(
    there: Sequence[str],
    count: int,
    beside: Sequence[str],
    topology: Topology,
    rank: Callable[[str, int, int, int], tuple[object, ...]],
) -> Sequence[str]:
    """``count`` of the nodes that are there, leaf by leaf, for a trainer that has others beside them.

    The next leaf is that of smallest rank, by its name, how many of the trainer's nodes are on it, how many are
    free there, and how many are missing.
    """
    free = grouped((topology.leaf_of(name), name) for name in there)
    own, chosen = nodes_by_leaf(beside, topology), list[str]()
    while len(chosen) < count:
        missing = count - len(chosen)
        leaf = min(free, key=lambda leaf: rank(leaf, own[leaf], len(free[leaf]), missing))
        chosen += free.pop(leaf)[:missing]
    return chosen


def say_leaves(placement: Placement, topology: Topology) -> Iterable[str]:
    """A sentence on trainers on several leaves and the links of their rings between them; none: all are on one."""
    leaves = {trainer: nodes_by_leaf(names, topology) for trainer, names in placement.items()}
    several = [trainer for trainer in leaves if len(leaves[trainer]) > 1]
    several.sort(key=lambda trainer: (-len(leaves[trainer]), trainer))
    if not several:
        return
    shown = [
        f"{trainer} on {', '.join(f'{leaf} ({count})' for leaf, count in sorted(leaves[trainer].items()))}, "
        f"{crossings(ring_order(placement[trainer], topology), topology)} links between leaves"
        for trainer in several[:_MOST_NAMED]
    ]
    more = f"; and {len(several) - _MOST_NAMED} more" if len(several) > _MOST_NAMED else ""
    yield f"Of {len(placement)} trainings {len(several)} are on several leaves: {'; '.join(shown)}{more}."
