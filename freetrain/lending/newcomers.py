"""Newcomers: jobs that have just been submitted, and the idle nodes that are kept for the next ones.

Behind a job that cannot start yet Slurm starts others at its next backfill cycle, if it finds idle nodes for them
then. One that comes a moment before the cycle, and finds its nodes lent, loses the cycle and sometimes its place,
however quickly the nodes are given back: only nodes that are not lent help it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import ceil, inf

from freetrain.core.cluster import Job, JobState, Nodes, Snapshot, WaitsFor
from freetrain.core.problem import Offer
from freetrain.lending.next_in_line import first_in_line
from freetrain.lending.shadow import Shadow

_REMEMBERED = 200
"""So many newcomers of a partition tell how large the next ones will be."""
_OF_ONE_USER = 50
"""So many of them at most are of one user, so that nobody alone decides how many nodes are kept."""


@dataclass(frozen=True, slots=True)
class Newcomers:
    """How large the site's jobs are that were submitted lately, and waited for nothing but nodes.

    Attributes:
        sizes: partition → who submitted each of them, and the nodes that it wanted; oldest first.
        latest_s: when the last of them was submitted, UTC epoch seconds.
    """

    sizes: Mapping[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)
    latest_s: float = -inf

    def after(self, snapshot: Snapshot, partition: str) -> Newcomers:
        """After a look.

        Args:
            snapshot: what there is.
            partition: freetrain's own.
        """
        new = [job for job in snapshot.jobs if job.submitted_s > self.latest_s and job.node_count]
        new = [job for job in new if job.partition != partition and _wants_only_nodes(job)]
        if not new:
            return self
        sizes = dict(self.sizes)
        for job in sorted(new, key=lambda one: one.submitted_s):
            for name in job.partition.split(","):
                sizes[name] = _with(sizes.get(name, ()), (job.user, job.node_count))
        return Newcomers(sizes, max(job.submitted_s for job in new))

    def nodes_for(self, partition: str, share: float) -> int:
        """So many nodes are enough for each one of this share of the partition's newcomers."""
        sizes = sorted(size for _, size in self.sizes.get(partition, ()))
        return sizes[ceil(share * len(sizes)) - 1] if sizes and share else 0

    def kept(
        self, offered: Iterable[Offer], shadow: Shadow, snapshot: Snapshot, share: float
    ) -> Mapping[str, str]:
        """Nodes that nobody has and that are not lent, for those who are submitted next → why.

        In each partition in which a job waits for its turn, so that others can only start by backfill, as many as
        :meth:`nodes_for` says, those first that are wanted soonest. Nothing is taken back for that.

        Args:
            offered: nodes that may be lent.
            shadow: what the site's jobs would do.
            snapshot: what there is.
            share: of the newcomers, for whom there shall be nodes.
        """
        idle = sorted((one for one in offered if one.held_by is None), key=lambda one: one.free_until_s or inf)
        kept: dict[str, str] = {}
        for partition, plan in first_in_line(shadow, snapshot).items():
            names = snapshot.partitions[partition].nodes if partition in snapshot.partitions else Nodes()
            reachable = [one.name for one in idle if one.name in names][: self.nodes_for(partition, share)]
            kept |= dict.fromkeys(reachable, f"kept for new jobs of {partition} while job {plan.job} waits")
        return kept


def _wants_only_nodes(job: Job) -> bool:
    return job.state is not JobState.PENDING or (job.waits_for is WaitsFor.NODES and not job.is_held)


def _with(sizes: tuple[tuple[str, int], ...], new: tuple[str, int]) -> tuple[tuple[str, int], ...]:
    """The newest of them, and of one user."""
    of_same = [position for position, (user, _) in enumerate(sizes) if user == new[0]]
    if len(of_same) >= _OF_ONE_USER:
        sizes = sizes[: of_same[0]] + sizes[of_same[0] + 1 :]
    return (*sizes[-_REMEMBERED + 1 :], new)
