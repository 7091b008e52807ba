"""What one look at the cluster showed, and how the site wants it dealt with: frozen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from freetrain.core.cluster import Snapshot
from freetrain.core.lendable import Lendable, LendingRules
from freetrain.core.lent_trainer import Patience
from freetrain.core.trainer import Trainer
from freetrain.daemon.sharing.claimants import Sharing
from freetrain.daemon.trainers.entries import Entry
from freetrain.daemon.watch import HarmLimits


@dataclass(frozen=True, slots=True)
class Manners:
    """How the site wants it done.

    Attributes:
        rules: what may be lent.
        horizon_s: how far ahead value is counted.
        objective: name of what is maximised.
        longest_fragment_s: time limit of a fragment whose node nobody is expected to want.
        max_running: most trainers that may compete at once.
        cool_down_s: how long a node that was taken back is left alone.
        planning_s: how late, and how roughly, Slurm starts what must fit before a planned job.
        start_within_s: a fragment that Slurm has not started by then is called off.
        patience: how failures are answered.
        harm: when freetrain slows down.
        sharing: how nodes are shared between users.
        default_memory_mb: what Slurm gives a job that asks for no memory, where the partition says nothing.
    """

    rules: LendingRules
    horizon_s: float
    objective: str
    longest_fragment_s: float
    max_running: int
    cool_down_s: float
    planning_s: float
    start_within_s: float
    patience: Patience
    harm: HarmLimits
    sharing: Sharing = field(default_factory=Sharing)
    default_memory_mb: int = 0

    def limit_s(self, free_until_s: float, snapshot: Snapshot) -> float:
        """Time limit of a fragment that starts now on a node whose hole ends then."""
        most_s = snapshot.partitions[self.rules.partition].max_time_s
        hole_s = free_until_s - snapshot.time_s - self.planning_s
        return min(hole_s, self.longest_fragment_s, most_s)


@dataclass(frozen=True)
class Sight:
    """What one look showed.

    Attributes:
        snapshot: Slurm's answer.
        entries: all trainers.
        competing: those that may have nodes.
        lendable: the nodes.
        stopped: why nothing is lent at all; empty: nodes are lent.
    """

    snapshot: Snapshot
    entries: tuple[Entry, ...]
    competing: tuple[tuple[Entry, Trainer], ...]
    lendable: Lendable
    stopped: str = ""

    @cached_property
    def free_until_s(self) -> Mapping[str, float]:
        """Offered node → when its hole ends; inf: nobody knows."""
        return {node.name: node.free_until_s or inf for node in self.lendable.offered}


def with_waiting(sight: Sight, waits_for: Mapping[str, str]) -> Sight:
    """The same, its entries with what they wait for."""
    entries = tuple(replace(one, waits_for=waits_for.get(one.trainer.id, "")) for one in sight.entries)
    return replace(sight, entries=entries)
