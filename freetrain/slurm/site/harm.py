"""Settings of Slurm's that make the site's jobs wait for fragments, with the changes that mend them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.durations import show_duration
from freetrain.slurm.finding import Finding, error, error_if, warning
from freetrain.slurm.parsing import fold_nodes
from freetrain.slurm.site.changes import (
    CLOCK_BY_NETWORK,
    SiteChange,
    Target,
    conf,
    new_partition,
    new_qos,
    partition,
    qos,
    qos_of_accounts,
    setting,
)
from freetrain.slurm.site.facts import BY_PARTITION, BY_QOS, Names, Qos, Site, SitePartition, pools
from freetrain.slurm.site.fields import OF_WORDS, judge_fields, replaced, with_words
from freetrain.slurm.site.limits import OF_ALL, OF_EACH, shared_limits
from freetrain.slurm.site.preemption import (
    STOPS,
    Fate,
    best_fragment_qos,
    exempt_times,
    fates,
    fragment_qos,
    is_shared,
    mode_words,
    ours,
    sites_on,
    what_is_done,
    what_is_done_to_fragments,
)

OWN = "freetrain"
"""The name of a partition or a QOS that is proposed."""
# More than clocks differ that are kept by NTP, and less than margins and polls.
_TOLERABLE_CLOCK_S = 5.0


@dataclass(frozen=True)
class Premise:
    """Assumption of a judgement: the queue in which fragments are to run, and what is wanted of them.

    Attributes:
        queue: the partitions, and the QOS if they have one of their own.
        tolerable_s: the longest delay of a job of the site's that is not too much.
        owners: users whose trainings are known, with the accounts that they are charged to.
        shortest_hole_s: the shortest hole in which something is lent.
        spares_suspendable: whether nodes that Slurm powers down are left alone.
        in_parts: whether parts of nodes are lent.
        steers: whether fragments are their owners' own tasks; else freetrain submits them.
        account: account that the daemon runs as.
    """

    queue: FragmentQueue
    tolerable_s: float = 60.0
    owners: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    shortest_hole_s: float = 0.0
    spares_suspendable: bool = False
    in_parts: bool = False
    steers: bool = True
    account: str = ""


def judge_harm(site: Site, premise: Premise) -> list[Finding]:
    """Findings on all that would make the site's jobs wait, the unsafe ones first.

    1. Slurm preempts, by tiers of partitions or by QOS.
    2. The partition is no other than freetrain's: not the default one, and others have its nodes, too. Or the QOS
       of fragments is one that tells them from the site's jobs in it.
    3. Every job of the site's that can start on its nodes may preempt fragments, whatever its priority, and no
       fragment preempts any.
    4. What Slurm preempts ends, soon after its start as later, and without a long grace time.
    5. Fragments can start, and their owners may submit them. They count in no limit of the site's.
    6. This machine's clock and that of Slurm's controller show the same time.

    Raises:
        KeyError: Slurm has no such partition.
    """
    findings = (
        finding for name in premise.queue.partitions for finding in _judge_in(site, premise, site.partitions[name])
    )
    return sorted(dict.fromkeys(findings), key=lambda finding: not finding.is_unsafe)


def _judge_in(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    yield from _of_partition(site, premise, own)
    yield from _of_cluster(site, premise, own)
    yield from _of_words(site)
    yield from _of_clock(site, premise)
    if site.settings.preempt_type == BY_PARTITION:
        yield from _by_partition(site, premise, own)
    elif site.settings.preempt_type == BY_QOS:
        yield from _by_qos(site, premise, own)
    yield from _of_limits(site, premise, own)
    yield from _of_exempt_times(site, premise, own)


def _of_partition(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    if own.is_default and not is_shared(own, premise.queue):
        yield error(
            f"Partition {own.name} is Slurm's default: the site's jobs that name no partition run in it.",
            _another_default(site, premise, own),
        )
    if not sites_on(site, own, premise.queue):
        yield error(
            f"No other partition has nodes of {own.name}: the site's own jobs run in it, or never on its nodes.",
            f"PartitionName=<the site's> Nodes={fold_nodes(own.partition.nodes)} "
            f"PriorityTier={own.partition.priority_tier + 1} State=UP",
        )
    state = own.row.get("State", "UP")
    if state != "UP":
        up = partition(own.name, "State", "UP")
        yield warning(f"Partition {own.name} is {state}: no fragment can start.", up)
    kept_out = sorted(owner for owner in premise.owners if owner[1] and not own.accounts.admits(owner[1]))
    if kept_out:
        names = ", ".join(f"{user} (account {account})" for user, account in kept_out)
        what = f"Partition {own.name} does not admit owners of trainings: {names}."
        yield warning(what, partition(own.name, *own.accounts.plus(*(account for _, account in kept_out))))


def _another_default(site: Site, premise: Premise, own: SitePartition) -> SiteChange:
    # Slurm has one default partition; without any, it would refuse jobs that name no partition.
    others = [kind for kind in sites_on(site, own, premise.queue) if kind.partition.is_up]
    if any(other.is_default for other in site.partitions.values() if other != own) or not others:
        return partition(own.name, "Default", "NO")
    return partition(max(others, key=lambda kind: len(kind.partition.nodes)).name, "Default", "YES")


def preempt_by_partition(site: Site, queue: FragmentQueue) -> tuple[SiteChange, ...]:
    """Changes that switch preemption on for fragments alone: jobs of all other partitions are not preempted."""
    others = sorted(name for name in site.partitions if name not in queue.partitions)
    off = [partition(name, "PreemptMode", "OFF") for name in others]
    return (*off, conf("PreemptType", BY_PARTITION), conf("PreemptMode", "REQUEUE"))


def _of_cluster(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    settings, queue = site.settings, premise.queue
    modes = mode_words(settings.preempt_mode)
    if settings.preempt_type not in (BY_PARTITION, BY_QOS) or modes == {"OFF"}:
        by_qos = is_shared(own, queue) or settings.preempt_type == BY_QOS
        switched_on = (conf("PreemptType", BY_QOS), conf("PreemptMode", "REQUEUE"))
        yield error(
            f"Slurm does not preempt, or freetrain does not know how (PreemptType={settings.preempt_type}, "
            f"PreemptMode={settings.preempt_mode}): the site's jobs would wait for fragments.",
            *(switched_on if by_qos else preempt_by_partition(site, queue)),
        )
    if "PRIORITY" in modes:
        yield error(
            "Only jobs of higher priority preempt (PreemptMode=PRIORITY): others would wait for fragments.",
            conf("PreemptMode", replaced(settings.preempt_mode, "priority") or "REQUEUE"),
        )
    if settings.complete_wait_s > 0:
        yield error_if(
            settings.complete_wait_s > premise.tolerable_s,
            "While the node of a fragment is cleared up, Slurm starts nothing for up to "
            f"{settings.complete_wait_s:.0f} s (CompleteWait={settings.complete_wait_s:.0f}).",
            conf("CompleteWait", "0"),
        )
    if settings.kill_wait_s > premise.tolerable_s:
        yield warning(
            f"A fragment that ignores SIGTERM keeps its node for {settings.kill_wait_s:.0f} s after Slurm has "
            f"asked it to leave (KillWait={settings.kill_wait_s:.0f}): the site's job waits for so long.",
            conf("KillWait", f"{min(30.0, premise.tolerable_s):.0f}"),
        )


def _of_words(site: Site) -> Iterator[Finding]:
    def change(key: str, right: str) -> SiteChange:
        parameters, _, word = key.partition(".")
        return conf(parameters, replaced(site.conf[parameters], word, right))

    yield from judge_fields(OF_WORDS, with_words(site.conf, "PreemptParameters", "SchedulerParameters"), change)


def _of_clock(site: Site, premise: Premise) -> Iterator[Finding]:
    # Slurm gives ends and starts by its own clock; the time from now until then is counted by this machine's.
    ahead_s = site.clock_ahead_s
    if abs(ahead_s) > _TOLERABLE_CLOCK_S:
        which, length = ("ahead of", "shorter") if ahead_s > 0 else ("behind", "longer")
        yield error_if(
            abs(ahead_s) > premise.tolerable_s,
            f"The clock of this machine is {abs(ahead_s):.0f} s {which} that of Slurm's controller: holes seem "
            f"{length} than they are.",
            CLOCK_BY_NETWORK,
        )


def _by_partition(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    name, tier = own.name, own.partition.priority_tier
    if is_shared(own, premise.queue):
        yield error(
            f"Slurm preempts by partition (PreemptType={BY_PARTITION}): jobs in partition {name} take no "
            "nodes from fragments in the same one, whatever their QOS (slurm.qos).",
            conf("PreemptType", BY_QOS),
        )
        return
    others = sites_on(site, own, premise.queue)
    for other in others:
        if other.partition.priority_tier <= tier:
            count = len(other.partition.nodes & own.partition.nodes)
            yield error(
                f"Partition {other.name} shares {count} nodes with {name} and has PriorityTier="
                f"{other.partition.priority_tier}, not more than its {tier}: jobs in {other.name} wait until the "
                "time limit of fragments.",
                *_below(site, own, others),
            )
        if "PRIORITY" in mode_words(other.partition.preempt_mode):
            yield error(
                f"Jobs in partition {other.name} preempt only what has less priority (PreemptMode=PRIORITY).",
                partition(other.name, "PreemptMode", replaced(other.partition.preempt_mode, "priority") or "OFF"),
            )
    for fate in fates(site, premise.queue, own):
        yield from _of_fate(site, premise, fate)


def _below(site: Site, own: SitePartition, others: Iterable[SitePartition]) -> tuple[SiteChange, ...]:
    """Changes that put freetrain's partition below all others; if one has tier 0, the others all go up by one."""
    lowest = min(other.partition.priority_tier for other in others)
    if lowest > 0:
        return (partition(own.name, "PriorityTier", f"{lowest - 1}"),)
    raised = [
        partition(name, "PriorityTier", f"{other.partition.priority_tier + 1}")
        for name, other in sorted(site.partitions.items())
        if name != own.name
    ]
    lowered = [] if own.partition.priority_tier == 0 else [partition(own.name, "PriorityTier", "0")]
    return (*raised, *lowered)


def _by_qos(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    known, queue = site.qos, premise.queue
    if site.qos_rows is None:
        what = f"Nobody can say which QOS preempt which: {site.problem or 'not asked yet'}."
        yield error(what, "sacctmgr show qos")
        return
    yield from _of_admission(site, premise, own)
    names = fragment_qos(site, queue, own)
    for name in sorted(names - known.keys()):
        yield error(f"There is no QOS {name}, which fragments could have.", *make_qos(name))
    for fate in fates(site, queue, own):
        if len(names) == 1 or _is_for_fragments(site, fate.name):
            yield from _of_fate(site, premise, fate)
            if preempted := ",".join(sorted(known[fate.name].preempts - names)):
                yield error(
                    f"Fragments have QOS {fate.name}, which preempts jobs with QOS {preempted}: the site's.",
                    qos(fate.name, "Preempt", preempted, "-="),
                )
    for other in sites_on(site, own, queue):
        for name in filter(other.job_qos.admits, sorted(known)):
            if name not in names:
                yield from _of_site(site, known[name], names)
            elif other.name not in queue.partitions and _is_for_fragments(site, name):
                yield warning(
                    f"Jobs in partition {other.name} that ask for QOS {name} do not preempt fragments.",
                    partition(other.name, *other.job_qos.minus(name)),
                )


def make_qos(name: str) -> tuple[SiteChange, ...]:
    """Changes that make a QOS for fragments, which every other preempts where Slurm preempts by QOS."""
    return (new_qos(name), qos(name, "PreemptMode", "requeue"), qos(name, "UsageFactor", "0"))


def _of_admission(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    """Findings on a partition that does not admit the QOS of fragments, or admits another that they could have."""
    name, admitted = premise.queue.qos, own.job_qos.admitted
    if name:
        if not own.job_qos.admits(name):
            what = f"Partition {own.name} does not admit QOS {name}: no fragment can start."
            yield error(what, partition(own.name, *own.job_qos.plus(name)))
        return
    best = best_fragment_qos(site, OWN, admitted)
    only_best = partition(own.name, "AllowQos", best)
    if admitted is None:
        yield error(
            f"Partition {own.name} admits every QOS, and fragments may have one that the site's do not preempt.",
            only_best,
        )
    elif len(admitted) > 1 and best in admitted and not all(_is_for_fragments(site, other) for other in admitted):
        yield error(
            f"Partition {own.name} admits jobs with QOS {', '.join(sorted(admitted - {best}))}, too: the site's "
            "jobs do not preempt fragments that have it.",
            only_best,
        )


def _is_for_fragments(site: Site, name: str) -> bool:
    return name not in site.usual_qos and any(name in other.preempts for other in site.qos.values())


def _of_site(site: Site, other: Qos, names: Names) -> Iterator[Finding]:
    wanted = names if len(names) == 1 else frozenset(name for name in names if _is_for_fragments(site, name))
    missing = sorted(wanted - other.preempts)
    if missing:
        yield error(
            f"Jobs with QOS {other.name} do not preempt those with QOS {','.join(missing)}: they wait until the "
            "time limit of fragments.",
            qos(other.name, "Preempt", ",".join(missing), "+="),
        )
    if "PRIORITY" in mode_words(other.preempt_mode):
        yield error(
            f"Jobs with QOS {other.name} preempt only what has less priority (PreemptMode=PRIORITY).",
            qos(other.name, "PreemptMode", "cluster"),
        )


def _of_fate(site: Site, premise: Premise, fate: Fate) -> Iterator[Finding]:
    done, grace_s = what_is_done(fate.mode), fate.grace_s
    where = f"partition {fate.name}" if fate.of is Target.PARTITION else f"QOS {fate.name}"
    requeue = SiteChange(
        fate.of, fate.name, "PreemptMode", "REQUEUE" if fate.of is Target.PARTITION else "requeue"
    )
    if "OFF" in done or not done:
        yield error(f"Fragments of {where} are never preempted (PreemptMode={fate.mode}).", requeue)
    elif done - STOPS:
        yield error(
            f"Fragments of {where} are suspended, not ended (PreemptMode={fate.mode}): they keep memory and GPUs.",
            requeue,
        )
    if grace_s <= 0:
        return
    yield error_if(
        grace_s > premise.tolerable_s,
        f"The site's jobs wait up to {grace_s:.0f} s for each fragment of {where} that does not leave at once "
        f"(GraceTime={grace_s:.0f}).",
        SiteChange(fate.of, fate.name, "GraceTime", "0"),
    )
    parameters = site.settings.preempt_parameters
    if "send_user_signal" in parameters.lower().split(","):
        yield warning(
            "A fragment whose script asks for --signal is sent that in place of SIGTERM when its grace time "
            "begins (send_user_signal), and may stay until it is over.",
            conf("PreemptParameters", replaced(parameters, "send_user_signal")),
        )


def _of_exempt_times(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    for exempt_s, by in exempt_times(site, premise.queue, own):
        if exempt_s > 0:
            where = f"QOS {by.name}" if by else "PreemptExemptTime"
            yield error_if(
                exempt_s > premise.tolerable_s,
                f"The site's jobs wait up to {exempt_s:.0f} s for each fragment that has just begun "
                f"({where}: {show_duration(exempt_s)}), unless freetrain gives its node back before.",
                _no_exempt_time(site, premise, own, by),
            )


def _no_exempt_time(site: Site, premise: Premise, own: SitePartition, by: Qos | None) -> SiteChange:
    # A QOS that fragments need not have is better left as it is, and not admitted.
    if by is None:
        return conf("PreemptExemptTime", "00:00:00")
    if site.settings.preempt_type != BY_QOS and by.name not in (own.qos, premise.queue.qos):
        return partition(own.name, *own.job_qos.minus(by.name))
    return qos(by.name, "PreemptExemptTime", "00:00:00")


def _of_limits(site: Site, premise: Premise, own: SitePartition) -> Iterator[Finding]:
    for quality, of_partition in shared_limits(site, premise.queue, own):
        changes = tuple(_out_of_limits(site, premise, own, of_partition))
        of_all, of_each = (", ".join(quality.named_limits(limits)) for limits in (OF_ALL, OF_EACH))
        where = f"in partition {own.name}" if of_partition else "with it"
        if of_all:
            yield error(
                f"QOS {quality.name} limits what all jobs {where} have together ({of_all}), fragments among them: "
                "the site's jobs would wait for what these have of it.",
                *changes,
            )
        else:
            yield warning(
                f"QOS {quality.name} limits what each user or account has {where} ({of_each}), fragments among "
                "it: jobs of owners of trainings may wait for their own fragments.",
                *changes,
            )


def _out_of_limits(site: Site, premise: Premise, own: SitePartition, of_partition: bool) -> Iterator[SiteChange]:
    """Changes for a partition of fragments' own where the limits are the partition's, else for a QOS."""
    if of_partition:
        yield new_partition(OWN, own.partition.nodes, AllowQos=premise.queue.qos)
        yield setting("partition", OWN)
        return
    name = best_fragment_qos(site, OWN, frozenset({OWN}))
    if name not in site.qos:
        yield from make_qos(name)
        yield qos(name, "GrpTRES", f"node={len(own.partition.nodes)}")
        yield qos(name, "MaxSubmitJobsPU", f"{most_submitted(len(own.partition.nodes))}")
    yield from admit_accounts_to(site, name)
    if site.settings.preempt_type == BY_PARTITION or name not in (own.job_qos.admitted or {name}):
        yield partition(own.name, "AllowQos", name)
    yield setting("qos", name)


def admit_accounts_to(site: Site, name: str) -> Iterator[SiteChange]:
    """Change that lets every account use a QOS, where Slurm enforces that; none where some account may use it."""
    accounts = sorted({association.account for association in site.associations} - {"root"})
    if accounts and not any(name in association.qos for association in site.associations):
        yield qos_of_accounts(accounts, name)


def most_submitted(nodes: int) -> int:
    """Proposed limit of the jobs that a user may submit: a training has as many tasks as it can use nodes."""
    return max(1000, 2 * nodes)


def what_preemption_means(site: Site, premise: Premise) -> str:
    """Sentence on the fate of a fragment that Slurm takes a node back from; empty: Slurm preempts none."""
    mode = what_is_done_to_fragments(site, premise.queue)
    done = what_is_done(mode) & STOPS
    if not done:
        return ""
    if not premise.steers:
        return (
            f"What Slurm preempts has ended for good (PreemptMode={mode}; what freetrain submits is never "
            "requeued): for the next node freetrain submits another fragment."
        )
    if "REQUEUE" in done:
        return (
            f"Slurm requeues what it preempts (PreemptMode={mode}): an evicted task waits for its next node under "
            "the same job id, and its script begins again there; sacct --duplicates shows each run."
        )
    return (
        f"Slurm cancels what it preempts (PreemptMode={mode}): an evicted task has ended, as PREEMPTED, until "
        "freetrain requeues it, held, at its next look. What ends while no daemon runs is gone after MinJobAge."
    )


def nodes_of_the_site(site: Site) -> Names:
    """All nodes of partitions that are up; of all partitions where none is."""
    up = [partition for partition in site.partitions.values() if partition.partition.is_up]
    return pools(up) or pools(site.partitions.values())


def own_nodes(site: Site, queue: FragmentQueue) -> Names:
    """All nodes that may be lent."""
    return pools(ours(site, queue))
