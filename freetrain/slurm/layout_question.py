"""What is judged of Slurm's layout: its facts, and where fragments run in it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.layout_facts import PartitionRules, Qos, SlurmLayout

BY_PARTITION, BY_QOS = "preempt/partition_prio", "preempt/qos"


@dataclass(frozen=True)
class Question:
    """What is judged.

    Attributes:
        layout: Slurm's.
        queue: where fragments wait and run.
        tolerable_s: the longest delay of a job of the site's that is not too much.
        owners: users whose trainings are known, with the accounts that they are charged to.
        of: which of several partitions of the queue.
    """

    layout: SlurmLayout
    queue: FragmentQueue
    tolerable_s: float = 60.0
    owners: frozenset[tuple[str, str]] = frozenset()
    of: str = ""

    @property
    def apart(self) -> list[Question]:
        """The same of each partition in which fragments run."""
        return [replace(self, of=name) for name in self.queue.partitions]

    @property
    def ours(self) -> PartitionRules:
        """The partition in which fragments run; of several the one that is judged, see :attr:`apart`."""
        return self.layout.partitions[self.of or self.queue.partition]

    @property
    def is_shared(self) -> bool:
        """Whether jobs of the site's run in that partition, too, told from fragments by their QOS."""
        return bool(self.queue.qos) and self.ours.admitted_qos != frozenset({self.queue.qos})

    @cached_property
    def sites(self) -> list[PartitionRules]:
        """The partitions with nodes of it in which the site's jobs run."""
        nodes = self.ours.partition.nodes
        every = (self.layout.partitions[name] for name in sorted(self.layout.partitions))
        return [one for one in every if one.partition.nodes & nodes and (one != self.ours or self.is_shared)]

    @cached_property
    def fragment_qos(self) -> frozenset[str]:
        """The QOS that fragments may have; where every one is admitted, that which the site preempts most."""
        if self.queue.qos:
            return frozenset({self.queue.qos})
        admitted = self.ours.admitted_qos
        if admitted is not None:
            return admitted
        return frozenset({preempted_most(self.layout) or self.queue.partition})

    @property
    def grace_s(self) -> float:
        """For how long a preempted fragment may go on."""
        if self.layout.settings.preempt_type != BY_QOS:
            return self.ours.partition.grace_s
        known = self.layout.qos or {}
        return max((known[name].grace_s for name in self.fragment_qos if name in known), default=0.0)

    @property
    def exempt_s(self) -> float:
        """For how long after its start a fragment may be safe from preemption."""
        return max((exempt_s for one in self.apart for exempt_s, _ in one.exempt_times()), default=0.0)

    def exempt_times(self) -> Iterator[tuple[float, Qos | None]]:
        """For how long fragments are safe, each with the QOS that says so; None: the cluster's settings do.

        However Slurm preempts, a QOS comes before the cluster: that of the partition, or that of the job. Which of
        the two comes first depends on their flags, so the longer one is taken.
        """
        known = self.layout.qos or {}
        by_qos = self.layout.settings.preempt_type == BY_QOS
        names = known if not by_qos and not self.queue.qos else self.fragment_qos
        for name in sorted(one for one in names if self.ours.admits_qos(one)) or [""]:
            both = [known[one] for one in (self.ours.qos, name) if one in known]
            said = [(one.exempt_s, one) for one in both if one.exempt_s is not None]
            yield max(said, key=lambda each: each[0]) if said else (self.layout.settings.exempt_s, None)


def preempted_most(layout: SlurmLayout) -> str:
    """The QOS that most others preempt; empty: none does."""
    preempted = [name for qos in (layout.qos or {}).values() for name in qos.preempts]
    return max(sorted(set(preempted)), key=preempted.count, default="")
