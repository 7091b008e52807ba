"""The queue of fragments, by which their jobs differ from the site's own. Pure."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from freetrain.core.job import Job
from freetrain.core.node import Nodes, Partition


@dataclass(frozen=True, slots=True)
class FragmentQueue:
    """The partition or QOS in which fragments wait and run.

    Attributes:
        partition: whose nodes may be lent; several, with commas between, where fragments have a QOS of their own.
        qos: that fragments have, where the site's jobs run in that partition, too; empty: none of them do.
    """

    partition: str
    qos: str = ""

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions by name."""
        return tuple(self.partition.split(","))

    def has(self, job: Job) -> bool:
        """Whether a job waits or runs in it: any other job is the site's own."""
        if self.qos not in ("", job.qos):
            return False
        # Slurm lists several partitions of a waiting job with commas; few jobs have any, and sets cost time.
        if job.partition == self.partition or "," not in job.partition + self.partition:
            return job.partition == self.partition
        return set(job.partition.split(",")) <= set(self.partitions)

    def missing(self, known: Container[str]) -> str:
        """The first of its partitions that is not known; empty: all are."""
        return next((name for name in self.partitions if name not in known), "")

    def among(self, partitions: Mapping[str, Partition]) -> Partition:
        """The partition whose nodes may be lent; of several what those that are up are together.

        Raises:
            KeyError: there is no such partition.
        """
        if self.partition in partitions:
            return partitions[self.partition]
        every = [partitions[name] for name in self.partitions]
        # Where all are down, all of them tell what the queue would be.
        partitions_up = [partition for partition in every if partition.is_up] or every
        return Partition(
            self.partition,
            Nodes().union(*(partition.nodes for partition in partitions_up)),
            partitions_up[0].is_up,
            max(partition.priority_tier for partition in partitions_up),
            partitions_up[0].preempt_mode,
            max(partition.grace_s for partition in partitions_up),
            min(partition.max_time_s for partition in partitions_up),
            max(partition.default_memory_mb for partition in partitions_up),
        )

    def __str__(self) -> str:
        several = "s" if len(self.partitions) > 1 else ""
        return f"partition{several} {', '.join(self.partitions)}" + (f" with QOS {self.qos}" if self.qos else "")
