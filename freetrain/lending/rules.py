"""Rules: how the site wants its nodes lent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import Self

from freetrain.core.amounts import Amount
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.needs import Needs
from freetrain.core.node import Nodes
from freetrain.core.power import NO_DRAW, PowerDraw
from freetrain.core.quick_enum import quick
from freetrain.core.topology import FLAT, Topology
from freetrain.lending.shadow import BackfillRules

_LONGEST_REST_S = 60.0
"""The longest rest of a node on which Slurm did not start a fragment."""


@dataclass(frozen=True, slots=True)
class PowerRules:
    """Which nodes Slurm never powers down, of those that it manages: all others are left to it.

    Attributes:
        nodes: these.
        partitions: and those of these.
    """

    nodes: Nodes = frozenset()
    partitions: frozenset[str] = frozenset()

    def suspendable(self, snapshot: Snapshot, queue: FragmentQueue) -> Nodes:
        """The nodes that may be lent and that Slurm powers down when they are idle."""
        named = (snapshot.partitions[name].nodes for name in self.partitions & snapshot.partitions.keys())
        return queue.among(snapshot.partitions).nodes.difference(self.nodes, *named)


@quick
class Share(StrEnum):
    """How much of a node is lent at once."""

    WHOLE = "whole"
    """All of it."""
    GPUS = "gpus"
    """To tasks that ask for GPUs what they ask for, to others all of it."""
    ANY = "any"
    """What a task asks for."""

    def in_part(self, needs: Needs) -> bool:
        """Whether such a task is lent a part of a node; in an exclusive partition a task has all of it."""
        return self is not Share.WHOLE and not needs.is_whole and (self is Share.ANY or needs.gpus > 0)


_part_of: Callable[[Fragment], str] = attrgetter("place")
_node_of: Callable[[Fragment], str] = attrgetter("node")


@dataclass(frozen=True, slots=True)
class NodeRules:
    """Which nodes may be lent.

    Attributes:
        idle_for_s: how long a node must have been idle.
        shortest_hole_s: holes expected to be shorter are left alone.
        margin_s: a node is given back this long before its hole ends.
        claim_s: how long nodes are kept free for a job that would start on them, and does not.
        cool_down_s: how long a node that was taken back is left alone.
        next_within_s: how soon the end has to be expected that lets the first waiting job of a partition start, so
            that its nodes are kept free.
        power: which nodes Slurm powers down and are left alone for that; None: none.
        keep: what stays free on a node that is lent in parts.
    """

    queue: FragmentQueue
    exclude: Nodes = frozenset()
    reserve_nodes: int = 0
    most_nodes: int = 0
    idle_for_s: float = 0.0
    shortest_hole_s: float = 0.0
    margin_s: float = 0.0
    claim_s: float = 60.0
    cool_down_s: float = 0.0
    next_within_s: float = 0.0
    backfill: BackfillRules = field(default_factory=BackfillRules)
    power: PowerRules | None = None
    share: Share = Share.WHOLE
    keep: Amount = field(default_factory=Amount)

    def without_caution(self) -> Self:
        """The same nodes, lent as soon and for as long as they are idle."""
        return replace(
            self,
            reserve_nodes=0,
            idle_for_s=0.0,
            shortest_hole_s=0.0,
            margin_s=0.0,
            cool_down_s=0.0,
            next_within_s=0.0,
        )

    @property
    def partition(self) -> str:
        """The partition whose nodes may be lent."""
        return self.queue.partition

    @property
    def in_parts(self) -> bool:
        """Whether parts of nodes are lent."""
        return self.share is not Share.WHOLE

    @property
    def place_of(self) -> Callable[[Fragment], str]:
        """The name of what a fragment has: its node's, or one for the part that it has."""
        return _part_of if self.in_parts else _node_of


@dataclass(frozen=True, slots=True)
class FragmentRules:
    """How long fragments may run.

    Attributes:
        longest_s: time limit of one whose node nobody is expected to want.
        planning_s: how late, and how roughly, Slurm starts what must fit before a planned job.
        start_within_s: one that Slurm has not started by then is called off.
    """

    longest_s: float
    planning_s: float
    start_within_s: float


@dataclass(frozen=True, slots=True)
class HarmRules:
    """When freetrain slows down by itself.

    Attributes:
        within_s: over what time delays, lost nodes and evictions are counted.
        allowed: how many delays that are too much, and how many lost nodes, are tolerated in that time.
        pause_s: how long nothing is lent then.
        evictions: how many evictions are tolerated in that time; 0: any number.
    """

    delay_s: float
    within_s: float
    allowed: int
    pause_s: float
    evictions: int = 0

    @property
    def remembered_s(self) -> float:
        """How far back anything counts."""
        return self.within_s + self.pause_s


@quick
class FairShare(StrEnum):
    """Between which parties nodes are shared equally."""

    USER = "user"
    ACCOUNT = "account"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SharingRules:
    """How nodes are shared between people.

    Attributes:
        half_life_s: in which past use fades to one half.
        shares: user (by account: account) → weight against the others; 1 where it is missing.
        max_running: most trainers that may compete at once.
        most_nodes_per_user: 0: no limit.
        most_nodes_per_account: 0: no limit.
        most_trainers_per_user: that may compete at once; 0: no limit.
        topology: the switches by which nodes are dealt that are equally good otherwise.
    """

    by: FairShare = FairShare.USER
    half_life_s: float = 7 * 86400.0
    shares: Mapping[str, float] = field(default_factory=dict)
    max_running: int = 10
    most_nodes_per_user: int = 0
    most_nodes_per_account: int = 0
    most_trainers_per_user: int = 0
    topology: Topology = FLAT


@dataclass(frozen=True, slots=True)
class Rules:
    """All of them.

    Attributes:
        horizon_s: how far ahead value is counted; 0: as long as idle nodes are expected to stay.
        changes: how often growing and shrinking are charged.
    """

    nodes: NodeRules
    fragments: FragmentRules
    harm: HarmRules
    sharing: SharingRules
    objective: str
    horizon_s: float
    changes: float = 1.0
    draw: PowerDraw = NO_DRAW

    @property
    def rests_s(self) -> tuple[float, float]:
        """How long a node rests on which Slurm did not start a fragment, the first time in a row and at most.

        Something is the matter with a whole one; of one that is lent in parts others may have taken the room.
        """
        return (self.fragments.start_within_s if self.nodes.in_parts else _LONGEST_REST_S), _LONGEST_REST_S

    def limit_s(self, hole_end_s: float, snapshot: Snapshot) -> float:
        """Time limit of a fragment that starts now on a node whose hole ends then."""
        most_s = self.nodes.queue.among(snapshot.partitions).max_time_s
        hole_s = hole_end_s - snapshot.time_s - self.fragments.planning_s
        return min(hole_s, self.fragments.longest_s, most_s)
