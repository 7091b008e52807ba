"""Whether Slurm's layout lets the site's own jobs take the nodes of fragments at once, and what mends it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from freetrain.slurm.finding import Finding, update
from freetrain.slurm.layout_by_qos import judge_by_qos
from freetrain.slurm.layout_facts import PartitionRules
from freetrain.slurm.layout_question import BY_PARTITION, BY_QOS, Question
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.preempted_findings import exempt_findings, grace_findings, mode_findings, words_of

_TOLERABLE_CLOCK_S = 5.0
"""Less than margins and polls, and more than clocks differ that are kept by NTP."""


def judge(question: Question) -> list[Finding]:
    """All that is not as it should be, what is unsafe first.

    1. Slurm preempts, by tiers of partitions or by QOS.
    2. The partition is no other than freetrain's: not the default one, and others have its nodes, too. Or the QOS
       of fragments is one that tells them from the site's jobs in it.
    3. Every job of the site's that can start on its nodes may preempt fragments, whatever its priority, and no
       fragment preempts any.
    4. What Slurm preempts ends, soon after its start as later, and without a long grace time.
    5. Fragments can start, and their owners may hand them in. What they have counts in no limit of the site's.
    6. This machine's clock and that of Slurm's controller tell the same time.

    Of several partitions in which fragments run each is judged by itself.

    Raises:
        KeyError: Slurm has no such partition.
    """
    found = (finding for one in question.apart for finding in _judge_one(one))
    return sorted(dict.fromkeys(found), key=lambda finding: not finding.is_unsafe)


def _judge_one(question: Question) -> list[Finding]:
    preempt_type = question.layout.settings.preempt_type
    found = [*_of_the_partition(question), *_of_the_cluster(question), *_of_the_clock(question)]
    if preempt_type == BY_PARTITION:
        found += _by_partition(question)
    elif preempt_type == BY_QOS:
        found += judge_by_qos(question)
    return [*found, *exempt_findings(question)]


def _of_the_partition(question: Question) -> Iterator[Finding]:
    ours = question.ours
    if ours.is_default and not question.is_shared:
        is_lowest = all(one.partition.priority_tier >= ours.partition.priority_tier for one in question.sites)
        yield Finding(
            f"Partition {ours.name} is Slurm's default: the site's jobs that name no partition run in it.",
            update(ours.name, "Default=NO") if is_lowest else _name_lowest(question),
        )
    if not question.sites:
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
    lowest = min(question.sites, key=lambda one: one.partition.priority_tier)
    return f'slurm.partition = "{lowest.name}"'


def _admit(ours: PartitionRules, kept_out: Iterable[tuple[str, str]]) -> str:
    accounts = {account for _, account in kept_out}
    if ours.allow_accounts is not None:
        return update(ours.name, f"AllowAccounts={','.join(sorted(ours.allow_accounts | accounts))}")
    left = ours.deny_accounts - accounts
    return update(ours.name, f"DenyAccounts={','.join(sorted(left))}")


def _of_the_cluster(question: Question) -> Iterator[Finding]:
    settings = question.layout.settings
    modes = words_of(settings.preempt_mode)
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


def _of_the_clock(question: Question) -> Iterator[Finding]:
    """Slurm tells ends and starts by its own clock; from now until then is reckoned by this machine's."""
    ahead_s = question.layout.clock_ahead_s
    if abs(ahead_s) > _TOLERABLE_CLOCK_S:
        which = "ahead of" if ahead_s > 0 else "behind"
        what = "shorter" if ahead_s > 0 else "longer"
        yield Finding(
            f"The clock of this machine is {abs(ahead_s):.0f} s {which} that of Slurm's controller: holes seem "
            f"{what} than they are.",
            "timedatectl set-ntp true",
            abs(ahead_s) > question.tolerable_s,
        )


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
        elif key == "reclaim_licenses" and name == "PreemptParameters":
            yield Finding(
                f"A job that waits for a licence may start by preemption alone ({word}): it is not seen coming, "
                "and nothing is given back before.",
                mend,
                False,
            )
        elif key == "defer" and name == "SchedulerParameters":
            yield Finding("Jobs do not start when they are submitted (defer): holes are found later.", mend, False)


def _by_partition(question: Question) -> Iterator[Finding]:
    ours = question.ours
    tier = ours.partition.priority_tier
    if question.is_shared:
        yield Finding(
            f"Slurm preempts by partition (PreemptType={BY_PARTITION}): jobs in partition {ours.name} take no "
            "nodes from fragments in the same one, whatever their QOS (slurm.qos).",
            f"PreemptType={BY_QOS}",
        )
        return
    for other in question.sites:
        if other.partition.priority_tier <= tier:
            count = len(other.partition.nodes & ours.partition.nodes)
            yield Finding(
                f"Partition {other.name} shares {count} nodes with {ours.name} and has PriorityTier="
                f"{other.partition.priority_tier}, not more than its {tier}: jobs in {other.name} wait until the "
                "time limit of fragments.",
                _mend_tier(question, other),
            )
        modes = words_of(other.partition.preempt_mode)
        if "PRIORITY" in modes:
            yield Finding(
                f"Jobs in partition {other.name} preempt only what has less priority (PreemptMode=PRIORITY).",
                update(other.name, f"PreemptMode={','.join(sorted(modes - {'PRIORITY'})) or 'OFF'}"),
            )
    yield from mode_findings(
        ours.partition.preempt_mode, f"partition {ours.name}", update(ours.name, "PreemptMode=REQUEUE")
    )
    mend = update(ours.name, "GraceTime=0")
    yield from grace_findings(question, ours.partition.grace_s, f"partition {ours.name}", mend)


def _mend_tier(question: Question, other: PartitionRules) -> str:
    """Freetrain's partition below all others, which keep their order; where that cannot be, the other above it."""
    tiers = [one.partition.priority_tier for one in question.sites]
    tier = question.ours.partition.priority_tier
    if max(tiers) < tier or (question.ours.is_default and min(tiers) < tier):
        return _name_lowest(question)  # it is one of the site's own that somebody named
    if min(tiers) > 0:
        return update(question.ours.name, f"PriorityTier={min(tiers) - 1}")
    return update(other.name, f"PriorityTier={tier + 1}")
