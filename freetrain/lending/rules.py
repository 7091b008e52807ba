"""Rules: the site's settings by which its nodes are lent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
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
    """Nodes that Slurm never powers down; all others whose power it manages are left to it.

    Attributes:
        nodes: the nodes by name (``SuspendExcNodes``).
        partitions: partitions all of whose nodes are among them (``SuspendExcParts``).
    """

    nodes: Nodes = frozenset()
    partitions: frozenset[str] = frozenset()

    def suspendable(self, snapshot: Snapshot, queue: FragmentQueue) -> Nodes:
        """The nodes that may be lent and that Slurm powers down when they are idle."""
        named = (snapshot.partitions[name].nodes for name in self.partitions & snapshot.partitions.keys())
        return queue.among(snapshot.partitions).nodes.difference(self.nodes, *named)


@quick
class Share(StrEnum):
    """Part of a node that is lent at once."""

    WHOLE = "whole"
    """All of it."""
    GPUS = "gpus"
    """To tasks that ask for GPUs what they ask for, to others all of it."""
    ANY = "any"
    """What a task asks for."""

    def in_part(self, needs: Needs) -> bool:
        """Whether such a task is lent a part of a node; in an exclusive partition a task has all of it."""
        return self is not Share.WHOLE and not needs.is_whole and (self is Share.ANY or needs.gpus > 0)


@dataclass(frozen=True, slots=True)
class NodeRules:
    """Rules by which nodes may be lent.

    Attributes:
        idle_for_s: seconds for which a node must have been idle.
        shortest_hole_s: holes expected to be shorter are left alone.
        margin_s: a node is given back this long before its hole ends.
        claim_s: seconds for which nodes are kept free for a job that would start on them, and does not.
        cool_down_s: seconds for which a node that was taken back is left alone.
        next_within_s: seconds within which a job's end must be expected that lets the first waiting job of a
            partition start, so that its nodes are kept free.
        power: rules for nodes that Slurm powers down, which are left alone; None: there are none.
        keep: amount that stays free on a node that is lent in parts.
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

    def place_of(self, fragment: Fragment) -> str:
        """The name of what a fragment has: its node's, or one for the part that it has."""
        return fragment.place if self.in_parts else fragment.node


@dataclass(frozen=True, slots=True)
class FragmentRules:
    """Time limits of fragments.

    Attributes:
        longest_s: time limit of a fragment whose node no job is expected to want.
        planning_s: seconds by which Slurm may start late, and plan roughly, what must fit before a planned job.
        start_within_s: seconds after which a fragment that Slurm has not started is called off.
    """

    longest_s: float
    planning_s: float
    start_within_s: float


@dataclass(frozen=True, slots=True)
class HarmRules:
    """Limits of harm beyond which freetrain stops lending for a while by itself.

    Attributes:
        within_s: seconds over which delays, lost nodes and evictions are counted.
        allowed: number of delays that are too long, and number of lost nodes, that are tolerated in that time.
        pause_s: seconds for which nothing is lent then.
        evictions: number of evictions that are tolerated in that time; 0: any number.
    """

    delay_s: float
    within_s: float
    allowed: int
    pause_s: float
    evictions: int = 0

    @property
    def remembered_s(self) -> float:
        """Seconds for which an event counts after it has happened."""
        return self.within_s + self.pause_s


@quick
class FairShare(StrEnum):
    """Parties between which nodes are shared equally."""

    USER = "user"
    ACCOUNT = "account"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class SharingRules:
    """Rules by which nodes are shared between people.

    Attributes:
        half_life_s: seconds in which past use fades to one half.
        shares: user (by account: account) → weight against the others; 1 where it is missing.
        max_running: most trainers that may compete at once.
        most_nodes_per_user: 0: no limit.
        most_nodes_per_account: 0: no limit.
        most_trainers_per_user: most trainers of a user that may compete at once; 0: no limit.
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
    """All rules of the site.

    Attributes:
        horizon_s: seconds ahead for which value is counted; 0: as many as idle nodes are expected to stay.
        changes: number of times that growing and shrinking are charged.
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
        """Seconds that a node rests on which Slurm did not start a fragment, the first time in a row and at most.

        A node that is lent whole probably has a fault; on a node that is lent in parts, other jobs may have taken
        the room.
        """
        return (self.fragments.start_within_s if self.nodes.in_parts else _LONGEST_REST_S), _LONGEST_REST_S

    def limit_s(self, hole_end_s: float, snapshot: Snapshot) -> float:
        """Time limit of a fragment that starts now on a node whose hole ends then."""
        most_s = self.nodes.queue.among(snapshot.partitions).max_time_s
        hole_s = hole_end_s - snapshot.time_s - self.fragments.planning_s
        return min(hole_s, self.fragments.longest_s, most_s)
