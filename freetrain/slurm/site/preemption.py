"""Kinds of jobs, and which of them may preempt which, how, and after how long. Pure.

With ``preempt/partition_prio`` a job preempts a job in a partition of a lower PriorityTier, unless that
partition's PreemptMode is OFF. With ``preempt/qos`` it preempts a job whose QOS is in its own QOS's Preempt
list, or, with WITHIN, a job of the same QOS and of lower priority. PRIORITY in a mode adds that the other's
priority must be lower. (Slurm's plug-ins of these names, 22.05 to 25.11.)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import product

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.site.changes import Target
from freetrain.slurm.site.facts import BY_PARTITION, BY_QOS, Names, Qos, Site, SitePartition

STOPS = frozenset({"CANCEL", "REQUEUE"})
"""Words of a PreemptMode by which a preempted job leaves its node; suspended jobs keep memory and GPUs."""
# These say who may preempt, or how suspended jobs go on, and not what is done.
_FLAGS = frozenset({"WITHIN", "PRIORITY", "GANG"})


@dataclass(frozen=True, slots=True, order=True)
class JobKind:
    """A kind of jobs: those of one QOS in one partition.

    Attributes:
        qos: its name; empty where there is no accounting.
    """

    partition: str
    qos: str


class Preemption(IntEnum):
    """Whether jobs of one kind may preempt those of another."""

    NEVER = 0
    IF_HIGHER = 1
    """If their priority is higher."""
    ALWAYS = 2


def mode_words(mode: str) -> Names:
    """The words of a PreemptMode."""
    return frozenset(filter(None, mode.upper().split(",")))


def what_is_done(mode: str) -> Names:
    """Actions of a PreemptMode on preempted jobs, in Slurm's words; OFF, or empty: no job is preempted."""
    return mode_words(mode) - _FLAGS


def kinds_of(site: Site) -> list[JobKind]:
    """Every kind of jobs that partitions admit."""
    names = sorted(site.qos) or [""]
    return [
        JobKind(partition.name, qos)
        for partition, qos in product(site.partitions.values(), names)
        if not qos or partition.job_qos.admits(qos)
    ]


def is_of_fragments(kind: JobKind, queue: FragmentQueue) -> bool:
    """Whether jobs of this kind are fragments."""
    return kind.partition in queue.partitions and queue.qos in ("", kind.qos)


def may_preempt(site: Site, taker: JobKind, holder: JobKind) -> Preemption:
    """Whether jobs of one kind may take the nodes of jobs of another."""
    if mode_words(site.settings.preempt_mode) <= {"OFF"}:
        return Preemption.NEVER
    if site.settings.preempt_type == BY_PARTITION:
        return _by_partition(site.partitions[taker.partition], site.partitions[holder.partition])
    if site.settings.preempt_type == BY_QOS and taker.qos and holder.qos:
        return _by_qos(site, site.qos[taker.qos], site.qos[holder.qos])
    return Preemption.NEVER


def preempting_pairs(
    site: Site, kinds: list[JobKind], one_by_one: bool = False
) -> Mapping[tuple[JobKind, JobKind], Preemption]:
    """The pairs of these kinds of which the first may preempt the second.

    Slurm looks at partitions or at QOS, never at both: kinds that differ in the other are taken together, unless
    they are wanted one by one.
    """
    key = "qos" if site.settings.preempt_type == BY_QOS else "partition"
    alike = kinds if one_by_one else {getattr(kind, key): kind for kind in reversed(kinds)}.values()
    found = {(a, b): may_preempt(site, a, b) for a, b in product(alike, repeat=2)}
    return {pair: preemption for pair, preemption in found.items() if preemption}


def _by_partition(taker: SitePartition, holder: SitePartition) -> Preemption:
    lower, higher = holder.partition, taker.partition
    done = what_is_done(lower.preempt_mode)
    if higher.priority_tier <= lower.priority_tier or not done or "OFF" in done or not higher.nodes & lower.nodes:
        return Preemption.NEVER
    needs_priority = "PRIORITY" in mode_words(higher.preempt_mode) | mode_words(lower.preempt_mode)
    return Preemption.IF_HIGHER if needs_priority else Preemption.ALWAYS


def _by_qos(site: Site, taker: Qos, holder: Qos) -> Preemption:
    mode = mode_words(qos_mode(site, holder))
    done = mode - _FLAGS
    if not done or "OFF" in done:
        return Preemption.NEVER
    if taker.name == holder.name:
        return Preemption.IF_HIGHER if "WITHIN" in mode else Preemption.NEVER
    if holder.name not in taker.preempts:
        return Preemption.NEVER
    needs_priority = "PRIORITY" in mode | mode_words(qos_mode(site, taker))
    return Preemption.IF_HIGHER if needs_priority else Preemption.ALWAYS


def qos_mode(site: Site, qos: Qos) -> str:
    """The PreemptMode that counts for jobs with a QOS."""
    return qos.preempt_mode or site.settings.preempt_mode


def ours(site: Site, queue: FragmentQueue) -> list[SitePartition]:
    """The partitions in which fragments run, without those that Slurm does not have."""
    return [site.partitions[name] for name in queue.partitions if name in site.partitions]


def is_shared(partition: SitePartition, queue: FragmentQueue) -> bool:
    """Whether jobs of the site's run in a partition of fragments, too, and differ from them by their QOS."""
    return bool(queue.qos) and partition.job_qos.admitted != frozenset({queue.qos})


def sites_on(site: Site, partition: SitePartition, queue: FragmentQueue) -> list[SitePartition]:
    """The partitions with nodes of this one in which jobs of the site's run."""
    nodes = partition.partition.nodes
    return [
        other
        for name in sorted(site.partitions)
        if (other := site.partitions[name]).partition.nodes & nodes
        and (is_shared(other, queue) if name in queue.partitions else True)
    ]


def fragment_qos(site: Site, queue: FragmentQueue, partition: SitePartition) -> Names:
    """The QOS that fragments in a partition may have; where every QOS is admitted, the best for them."""
    if queue.qos:
        return frozenset({queue.qos})
    admitted = partition.job_qos.admitted
    return frozenset({best_fragment_qos(site, queue.partition)}) if admitted is None else admitted


def best_fragment_qos(site: Site, wish: str, among: Names | None = None) -> str:
    """The QOS that is best for fragments: the one that most others preempt, unless ordinary jobs have it.

    Where there is none, it is one to be made, with the wished name.
    """
    free = [name for name in site.qos if name not in site.usual_qos and (among is None or name in among)]
    times = {name: sum(name in qos.preempts for qos in site.qos.values()) for name in free}
    preempted = [name for name in sorted(free) if times[name]]
    return max(preempted, key=lambda name: times[name], default=wish)


@dataclass(frozen=True, slots=True)
class Fate:
    """Fate of preempted fragments, which their partition or a QOS of theirs sets.

    Attributes:
        of: kind of object that sets it: a partition or a QOS.
        mode: the PreemptMode that counts.
        grace_s: seconds that they may go on.
    """

    of: Target
    name: str
    mode: str
    grace_s: float


def fates(site: Site, queue: FragmentQueue, own: SitePartition) -> list[Fate]:
    """Fates of preempted fragments in a partition: one for each QOS where Slurm preempts by QOS, else one."""
    if site.settings.preempt_type != BY_QOS:
        return [Fate(Target.PARTITION, own.name, own.partition.preempt_mode, own.partition.grace_s)]
    of_fragments = site.qos_among(fragment_qos(site, queue, own))
    return [Fate(Target.QOS, qos.name, qos_mode(site, qos), qos.grace_s) for qos in of_fragments]


def what_is_done_to_fragments(site: Site, queue: FragmentQueue) -> str:
    """The PreemptMode that counts for fragments; where it differs among them, that of the cluster."""
    modes = {fate.mode for fate in fates(site, queue, ours(site, queue)[0])}
    return modes.pop() if len(modes) == 1 else site.settings.preempt_mode


def leaving_bound_s(site: Site, queue: FragmentQueue) -> float:
    """Most seconds that a fragment may stay on its node after Slurm has asked it to leave: until SIGKILL.

    The time of an Epilog, or of a process that cannot be killed (UnkillableStepTimeout), comes on top.
    """
    grace_s = max((fate.grace_s for own in ours(site, queue) for fate in fates(site, queue, own)), default=0.0)
    return grace_s + site.settings.kill_wait_s


def exempt_s(site: Site, queue: FragmentQueue) -> float:
    """Most seconds after its start in which a fragment may be safe from preemption."""
    return max(
        (exempt for kind in ours(site, queue) for exempt, _ in exempt_times(site, queue, kind)), default=0.0
    )


def exempt_times(site: Site, queue: FragmentQueue, partition: SitePartition) -> Iterator[tuple[float, Qos | None]]:
    """Seconds in which fragments are safe, each with the QOS that sets them; None: the cluster's settings do."""
    # However Slurm preempts, a QOS comes before the cluster: that of the partition, or that of the job. Which of
    # the two comes first depends on their flags (OverPartQOS), so the longer one is taken.
    known = site.qos
    by_qos = site.settings.preempt_type == BY_QOS
    names = known if not by_qos and not queue.qos else fragment_qos(site, queue, partition)
    for name in sorted(name for name in names if partition.job_qos.admits(name)) or [""]:
        both = [known[qos] for qos in (partition.qos, name) if qos in known]
        given = [(qos.exempt_s, qos) for qos in both if qos.exempt_s is not None]
        yield max(given, key=lambda pair: pair[0]) if given else (site.settings.exempt_s, None)
