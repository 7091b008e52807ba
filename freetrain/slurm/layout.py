"""Whether Slurm's layout lets the site's own jobs take the nodes of fragments at once, and what mends it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding, update
from freetrain.slurm.layout_facts import PartitionRules, Qos, SlurmLayout
from freetrain.slurm.parsing import fold_nodes

BY_PARTITION, BY_QOS = "preempt/partition_prio", "preempt/qos"

_STOPS = frozenset({"CANCEL", "REQUEUE"})
"""What Slurm may do to a fragment that it preempts; anything else leaves it on its node."""


@dataclass(frozen=True)
class Question:
    """What is judged.

    Attributes:
        layout: Slurm's.
        partition: freetrain's.
        tolerable_s: the longest delay of a job of the site's that is not too much.
        owners: users whose trainings are known, with the accounts that they are charged to.
    """

    layout: SlurmLayout
    partition: str
    tolerable_s: float = 60.0
    owners: frozenset[tuple[str, str]] = frozenset()

    @property
    def ours(self) -> PartitionRules:
        """The partition in which fragments run."""
        return self.layout.partitions[self.partition]

    @cached_property
    def sharing(self) -> list[PartitionRules]:
        """The other partitions with nodes of it."""
        nodes = self.ours.partition.nodes
        others = (self.layout.partitions[name] for name in sorted(self.layout.partitions))
        return [one for one in others if one.name != self.partition and one.partition.nodes & nodes]

    @property
    def fragment_qos(self) -> frozenset[str]:
        """The QOS that fragments may have; where every one is admitted, that which the site preempts most."""
        allowed = self.ours.allow_qos
        if allowed is not None:
            return allowed - self.ours.deny_qos
        preempted = [name for qos in (self.layout.qos or {}).values() for name in qos.preempts]
        return frozenset({max(sorted(set(preempted)), key=preempted.count)} if preempted else {self.partition})


def judge(question: Question) -> list[Finding]:
    """All that is not as it should be, what is unsafe first.

    1. Slurm preempts, by tiers of partitions or by QOS.
    2. The partition is no other than freetrain's: not the default one, and others have its nodes, too.
    3. Every job of the site's that can start on its nodes may preempt fragments, whatever its priority.
    4. What Slurm preempts ends, soon after its start as later, and without a long grace time.
    5. Fragments can start, and their owners may hand them in.

    Raises:
        KeyError: Slurm has no such partition.
    """
    preempt_type = question.layout.settings.preempt_type
    found = [*_of_the_partition(question), *_of_the_cluster(question)]
    if preempt_type == BY_PARTITION:
        found += _by_partition(question)
    elif preempt_type == BY_QOS:
        found += _by_qos(question)
    return sorted(dict.fromkeys(found), key=lambda finding: not finding.is_unsafe)


def _of_the_partition(question: Question) -> Iterator[Finding]:
    ours, sharing = question.ours, question.sharing
    if ours.is_default:
        is_lowest = all(one.partition.priority_tier >= ours.partition.priority_tier for one in sharing)
        yield Finding(
            f"Partition {ours.name} is Slurm's default: the site's jobs that name no partition run in it.",
            update(ours.name, "Default=NO") if is_lowest else _name_lowest(question),
        )
    if not sharing:
        yield Finding(
            f"No other partition has nodes of {ours.name}: the site's own jobs run in it, or never on its nodes.",
            f"PartitionName=<the site's> Nodes={fold_nodes(ours.partition.nodes)} "
            f"PriorityTier={ours.partition.priority_tier + 1} State=UP",
        )
    if ours.state != "UP":
        yield Finding(
            f"Partition {ours.name} is {ours.state}: no fragment can start.", update(ours.name, "State=UP"), False
        )
    kept_out = sorted(one for one in question.owners if one[1] and not ours.admits_account(one[1]))
    if kept_out:
        names = ", ".join(f"{user} (account {account})" for user, account in kept_out)
        yield Finding(
            f"Partition {ours.name} does not admit owners of trainings: {names}.", _admit(ours, kept_out), False
        )


def _name_lowest(question: Question) -> str:
    lowest = min(question.sharing, key=lambda one: one.partition.priority_tier)
    return f'slurm.partition = "{lowest.name}"'


def _admit(ours: PartitionRules, kept_out: Iterable[tuple[str, str]]) -> str:
    accounts = {account for _, account in kept_out}
    if ours.allow_accounts is not None:
        return update(ours.name, f"AllowAccounts={','.join(sorted(ours.allow_accounts | accounts))}")
    left = ours.deny_accounts - accounts
    return update(ours.name, f"DenyAccounts={','.join(sorted(left))}")


def _of_the_cluster(question: Question) -> Iterator[Finding]:
    settings = question.layout.settings
    modes = _words(settings.preempt_mode)
    if settings.preempt_type not in (BY_PARTITION, BY_QOS) or modes == {"OFF"}:
        yield Finding(
            f"Slurm does not preempt, or freetrain does not know how (PreemptType={settings.preempt_type}, "
            f"PreemptMode={settings.preempt_mode}): the site's jobs would wait for fragments.",
            f"PreemptType={BY_PARTITION}\nPreemptMode=REQUEUE",
        )
    if "PRIORITY" in modes:
        yield Finding(
            "Only jobs of higher priority preempt (PreemptMode=PRIORITY): others would wait for fragments.",
            f"PreemptMode={','.join(sorted(modes - {'PRIORITY'})) or 'REQUEUE'}",
        )
    if settings.scheduler_type != "sched/backfill":
        yield Finding(
            f"Slurm does not plan (SchedulerType={settings.scheduler_type}): the ends of holes are not known.",
            "SchedulerType=sched/backfill",
            False,
        )
    if settings.complete_wait_s > 0:
        yield Finding(
            "While the node of a fragment is cleared up, Slurm starts nothing for up to "
            f"{settings.complete_wait_s:.0f} s (CompleteWait={settings.complete_wait_s:.0f}).",
            "CompleteWait=0",
            settings.complete_wait_s > question.tolerable_s,
        )
    if settings.epilog:
        yield Finding(
            "A job that ends while slurmctld runs something for it does not make Slurm's main scheduler run "
            f"(EpilogSlurmctld={settings.epilog}): who is first in line for nodes that were lent may wait for a "
            "backfill cycle.",
            "EpilogSlurmctld=  # JobCompType=jobcomp/lua or jobcomp/script has no such effect",
            False,
        )
    yield from _of_parameters("PreemptParameters", settings.preempt_parameters)
    yield from _of_parameters("SchedulerParameters", settings.scheduler_parameters)
    if settings.preempt_type == BY_PARTITION:
        yield from _exempt(question, settings.exempt_s, "PreemptExemptTime=00:00:00", "PreemptExemptTime")


def _of_parameters(name: str, text: str) -> Iterator[Finding]:
    given = [word for word in text.split(",") if word]
    for word in given:
        mend = f"{name}={','.join(other for other in given if other != word)}"
        key = word.partition("=")[0].lower()
        if key in ("youngest_first", "preempt_youngest_first"):
            yield Finding(
                f"Slurm preempts those that began last ({word}): trainings lose what they booted.", mend, False
            )
        elif key == "min_exempt_priority" and name == "PreemptParameters":
            yield Finding(f"Jobs of high priority are never preempted ({word}), and fragments may be such.", mend)
        elif key == "defer" and name == "SchedulerParameters":
            yield Finding("Jobs do not start when they are submitted (defer): holes are found later.", mend, False)


def _by_partition(question: Question) -> Iterator[Finding]:
    ours = question.ours
    tier = ours.partition.priority_tier
    for other in question.sharing:
        if other.partition.priority_tier <= tier:
            count = len(other.partition.nodes & ours.partition.nodes)
            yield Finding(
                f"Partition {other.name} shares {count} nodes with {ours.name} and has PriorityTier="
                f"{other.partition.priority_tier}, not more than its {tier}: jobs in {other.name} wait until the "
                "time limit of fragments.",
                _mend_tier(question, other),
            )
        modes = _words(other.partition.preempt_mode)
        if "PRIORITY" in modes:
            yield Finding(
                f"Jobs in partition {other.name} preempt only what has less priority (PreemptMode=PRIORITY).",
                update(other.name, f"PreemptMode={','.join(sorted(modes - {'PRIORITY'})) or 'OFF'}"),
            )
    yield from _mode(
        ours.partition.preempt_mode, f"partition {ours.name}", update(ours.name, "PreemptMode=REQUEUE")
    )
    yield from _grace(question, ours.partition.grace_s, f"partition {ours.name}", update(ours.name, "GraceTime=0"))


def _mend_tier(question: Question, other: PartitionRules) -> str:
    """Freetrain's partition below all others, which keep their order; where that cannot be, the other above it."""
    tiers = [one.partition.priority_tier for one in question.sharing]
    tier = question.ours.partition.priority_tier
    if max(tiers) < tier or (question.ours.is_default and min(tiers) < tier):
        return _name_lowest(question)  # it is one of the site's own that somebody named
    if min(tiers) > 0:
        return update(question.partition, f"PriorityTier={min(tiers) - 1}")
    return update(other.name, f"PriorityTier={tier + 1}")


def _by_qos(question: Question) -> Iterator[Finding]:
    known, ours = question.layout.qos, question.ours
    if known is None:
        yield Finding(
            f"Nobody can say which QOS preempt which: {question.layout.problem or 'not asked yet'}.",
            "sacctmgr show qos",
        )
        return
    names = sorted(question.fragment_qos)
    if ours.allow_qos is None:
        yield Finding(
            f"Partition {ours.name} admits every QOS, and fragments may have one that the site's do not preempt.",
            update(ours.name, f"AllowQos={','.join(names)}"),
        )
    for name in names:
        if name not in known:
            yield Finding(f"There is no QOS {name}, which fragments could have.", f"sacctmgr -i add qos {name}")
        yield from _of_fragment_qos(question, known.get(name, Qos(name)))
    for other in question.sharing:
        yield from _qos_of(question, other, known)


def _of_fragment_qos(question: Question, qos: Qos) -> Iterator[Finding]:
    mend = f"sacctmgr -i modify qos {qos.name} set"
    mode = qos.preempt_mode or question.layout.settings.preempt_mode
    yield from _mode(mode, f"QOS {qos.name}", f"{mend} PreemptMode=requeue")
    yield from _grace(question, qos.grace_s, f"QOS {qos.name}", f"{mend} GraceTime=0")
    cluster_s = question.layout.settings.exempt_s
    if qos.exempt_s is None:
        yield from _exempt(question, cluster_s, "PreemptExemptTime=00:00:00", "PreemptExemptTime")
    else:
        yield from _exempt(question, qos.exempt_s, f"{mend} PreemptExemptTime=00:00:00", f"QOS {qos.name}")


def _qos_of(question: Question, other: PartitionRules, known: Mapping[str, Qos]) -> Iterator[Finding]:
    """Every QOS that jobs in a partition of the site's may have must preempt those of fragments."""
    fragments = question.fragment_qos
    admitted = [qos for name, qos in sorted(known.items()) if other.admits_qos(name)]
    for qos in admitted:
        if qos.name in fragments:
            left = sorted(one.name for one in admitted if one.name not in fragments)
            what = (
                f"AllowQos={','.join(left)}"
                if other.allow_qos is not None
                else f"DenyQos={','.join(sorted(other.deny_qos | {qos.name}))}"
            )
            yield Finding(
                f"Jobs in partition {other.name} that ask for QOS {qos.name} do not preempt fragments.",
                update(other.name, what),
                False,
            )
            continue
        missing = sorted(fragments - qos.preempts)
        if missing:
            yield Finding(
                f"Jobs with QOS {qos.name} do not preempt those with QOS {','.join(missing)}: they wait until the "
                "time limit of fragments.",
                f"sacctmgr -i modify qos {qos.name} set Preempt+={','.join(missing)}",
            )
        if "PRIORITY" in _words(qos.preempt_mode):
            yield Finding(
                f"Jobs with QOS {qos.name} preempt only what has less priority (PreemptMode=PRIORITY).",
                f"sacctmgr -i modify qos {qos.name} set PreemptMode=cluster",
            )


def _mode(mode: str, where: str, mend: str) -> Iterator[Finding]:
    words = _words(mode)
    if "OFF" in words or not words:
        yield Finding(f"Fragments of {where} are never preempted (PreemptMode={mode}).", mend)
    elif words - {"WITHIN", "PRIORITY"} - _STOPS:
        yield Finding(
            f"Fragments of {where} are suspended, not ended (PreemptMode={mode}): they keep memory and GPUs.", mend
        )


def _grace(question: Question, grace_s: float, where: str, mend: str) -> Iterator[Finding]:
    if grace_s > 0:
        yield Finding(
            f"The site's jobs wait up to {grace_s:.0f} s for each fragment of {where} that does not leave at once "
            f"(GraceTime={grace_s:.0f}).",
            mend,
            grace_s > question.tolerable_s,
        )


def _exempt(question: Question, exempt_s: float, mend: str, where: str) -> Iterator[Finding]:
    if exempt_s > 0:
        yield Finding(
            f"The site's jobs wait up to {exempt_s:.0f} s for each fragment that has just begun "
            f"({where}: {show_duration(exempt_s)}).",
            mend,
            exempt_s > question.tolerable_s,
        )


def _words(mode: str) -> frozenset[str]:
    return frozenset(filter(None, mode.upper().split(",")))
