"""What is done about jobs of the site's that wait for fragments, and how often that has happened."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from freetrain.core.blocked_jobs import Wait, find_waits
from freetrain.core.cluster import JobState, Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.lendable import LendingRules
from freetrain.slurm.parsing import fold_nodes

log = logging.getLogger(__name__)

_MOST_TIMES = 2


class Waits:
    """Remembers for whom nodes were given back, and where nothing is lent any more for it.

    Attributes:
        jobs: those of the site's that waited for fragments and have not started yet.
        is_new: whether the last look found another one.
    """

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()
        self._kept: dict[str, tuple[str, float]] = {}
        self.jobs: frozenset[str] = frozenset()
        self.is_new = False

    def forget(self) -> None:
        """Begin anew: the layout is another one, or somebody has looked at it."""
        self._times.clear()

    def note(self, snapshot: Snapshot, fragments: Iterable[Fragment], rules: LendingRules) -> Mapping[str, str]:
        """The nodes that are not to be lent, or must be given back → why.

        1. Those on which one of the site's jobs is planned for the end of a fragment's limit.
        2. Those given back for such a job, until it has started, or has had its chance.
        3. All nodes of a partition in which that happened twice.
        """
        found = find_waits(snapshot, fragments, rules.partition)
        self._count([wait for wait in found if wait.job not in self.jobs])
        waiting = frozenset(job.id for job in snapshot.jobs if job.state is JobState.PENDING)
        self.jobs = (self.jobs | {wait.job for wait in found}) & waiting
        until_s = snapshot.time_s + rules.claim_s
        self._kept |= {name: (wait.job, until_s) for wait in found for name in wait.nodes}
        self._kept = {
            name: (job, end_s)
            for name, (job, end_s) in self._kept.items()
            if job in self.jobs and snapshot.time_s < end_s
        }
        barred = {name: why for partition in self._times for name, why in self._barred(partition, snapshot)}
        return barred | {name: f"job {job} waits for this node" for name, (job, _) in self._kept.items()}

    def _count(self, new: list[Wait]) -> None:
        self.is_new = bool(new)
        for wait in new:
            log.error(
                "job %s of partition %s would wait for fragments on %s until their time limit: they are given "
                "back. No job may ever wait for them: Slurm's layout must be mended",
                wait.job, wait.partition, fold_nodes(wait.nodes),
            )  # fmt: skip
        for partition in {name for wait in new for name in wait.partition.split(",")}:
            self._times[partition] += 1
            if self._times[partition] == _MOST_TIMES:
                log.error(
                    "nothing more is lent on nodes of partition %s: its jobs waited for fragments %d times. Mend "
                    "Slurm's layout, or reload or restart the daemon",
                    partition, _MOST_TIMES,
                )  # fmt: skip

    def _barred(self, partition: str, snapshot: Snapshot) -> Iterable[tuple[str, str]]:
        if self._times[partition] < _MOST_TIMES or partition not in snapshot.partitions:
            return []
        why = f"jobs of partition {partition} had to wait for fragments"
        return [(name, why) for name in snapshot.partitions[partition].nodes]
