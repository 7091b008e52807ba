"""Advice that has been judged: the lines are applied to the model, and the model is asked again. Pure.

A finding's own changes may let something else happen: where preemption is switched on, the site's partitions
would preempt each other. What the changes lack is added until nothing unsafe is left, and no more than before
can happen to the site's own jobs. Where the premise itself is wrong (the partition is the site's, the QOS is
everybody's, a name is misspelt) other premises are tried; the one that touches the site least is advised.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.slurm.finding import Finding, error, error_if
from freetrain.slurm.site.changes import (
    SiteChange,
    Target,
    apply,
    in_typing_order,
    new_partition,
    partition,
    setting,
)
from freetrain.slurm.site.facts import BY_PARTITION, BY_QOS, USUAL_QOS, Site
from freetrain.slurm.site.harm import OWN, Premise, judge_harm, make_qos, nodes_of_the_site
from freetrain.slurm.site.preemption import (
    JobKind,
    Preemption,
    best_fragment_qos,
    is_of_fragments,
    kinds_of,
    preempting_pairs,
    sites_on,
)

# Each round mends what the one before uncovered; then the premise is given up.
_MOST_ROUNDS = 10
# As difflib measures it (1: equal): one of two such names may be a slip of the pen.
_ALIKE = 0.75
_A_DAY = "1-00:00:00"


@dataclass(frozen=True)
class MendingPlan:
    """Changes after which nothing is unsafe.

    Attributes:
        changes: finding → changes that mend it, in the order in which the findings came.
    """

    queue: FragmentQueue
    site: Site
    changes: Mapping[Finding, tuple[SiteChange, ...]]

    @property
    def all_changes(self) -> tuple[SiteChange, ...]:
        """Changes for all findings, each once, in the order in which the lines are typed."""
        return in_typing_order(change for changes in self.changes.values() for change in changes)


@dataclass(frozen=True)
class Advice:
    """Findings on harm, with the plan that mends them.

    Attributes:
        findings: the unsafe ones first; each with lines that mend it, or none where no lines do.
        plan: the plan of all these lines; None: nothing is unsafe, or nothing mends it.
    """

    findings: Sequence[Finding]
    plan: MendingPlan | None


def advise(site: Site, premise: Premise) -> Advice:
    """Findings of :func:`freetrain.slurm.site.harm.judge_harm`, with lines that harm none of the site's jobs."""
    findings = _unmended(site, premise)
    unsafe = [finding for finding in findings if finding.is_unsafe]
    if not unsafe:
        return Advice([harmless(site, premise.queue, finding) for finding in findings], None)
    plan = best_plan(site, premise)
    if plan is None:
        return Advice([finding.without_lines() if finding.changes else finding for finding in findings], None)
    if plan.queue == premise.queue:
        mended = [_with_changes(site, plan, finding, plan.changes.get(finding, ())) for finding in unsafe]
    else:
        # The premise is another one: all lines belong to the first finding, and mend the others, too.
        first, *others = unsafe
        mended = [
            _with_changes(site, plan, first, plan.all_changes),
            *(finding.without_lines() for finding in others),
        ]
    # Warnings are given of the site as it will be: as it is, they may follow from the wrong premise.
    warnings = judge_harm(plan.site, replace(premise, queue=plan.queue))
    return Advice([*mended, *(harmless(plan.site, plan.queue, finding) for finding in warnings)], plan)


def harmless(site: Site, queue: FragmentQueue, finding: Finding) -> Finding:
    """The finding; without its lines where they would harm the site's own jobs."""
    after, queue_then = apply(finding.changes, site, queue)
    is_harmless = not finding.changes or not judge_own_jobs(site, after, queue_then, queue)
    return finding if is_harmless else finding.without_lines()


def best_plan(site: Site, premise: Premise) -> MendingPlan | None:
    """The plan that touches the site least; None: no premise that was tried has one."""
    plans = [plan for queue in premises(site, premise.queue) if (plan := _plan(site, premise, queue)) is not None]
    return min(plans, key=lambda plan: _cost(site, plan), default=None)


def premises(site: Site, wish: FragmentQueue) -> list[FragmentQueue]:
    """Queues in which fragments might be meant to run, the settings' own first.

    A QOS of their own is thought of where Slurm preempts by QOS, or the settings name one.
    """
    defaults = [name for name, there in site.partitions.items() if there.is_default]
    partitions = [wish.partition, *(_near(name, site.partitions) for name in wish.partitions), OWN, *defaults]
    names = [wish.qos]
    if wish.qos or site.settings.preempt_type == BY_QOS:
        names += [_near(wish.qos, site.qos), best_fragment_qos(site, OWN), ""]
    queues = (
        FragmentQueue(name, qos_name)
        for name, qos_name in product(filter(None, partitions), names)
        if qos_name or "," not in name
    )
    return [queue for queue in dict.fromkeys(queues) if _may_be_meant(site, queue)]


def _may_be_meant(site: Site, queue: FragmentQueue) -> bool:
    """Whether no ordinary jobs would be taken for fragments: by a partition of the site's, or by a usual QOS."""
    if queue.qos:
        is_preempted = any(queue.qos in quality.preempts for quality in site.qos.values())
        return queue.qos != USUAL_QOS and (is_preempted or queue.qos not in site.usual_qos)
    own = site.partitions.get(queue.partition)
    if own is None or own.name == OWN:
        return True
    tiers = [other.partition.priority_tier for other in sites_on(site, own, queue)]
    return not own.is_default and not (tiers and max(tiers) < own.partition.priority_tier)


def _near(name: str, known: Iterable[str]) -> str:
    """The known name that is nearly this one; empty: none is, or it is known itself."""
    names = sorted(known)
    return "" if name in names else next(iter(difflib.get_close_matches(name, names, 1, _ALIKE)), "")


def _unmended(site: Site, premise: Premise) -> list[Finding]:
    """Findings on names in the settings that Slurm does not have, with changes that make them, and on harm."""
    queue, findings = premise.queue, []
    name = queue.missing(site.partitions)
    if name:
        there = ", ".join(sorted(site.partitions)) or "none"
        findings.append(
            error(f"Slurm has no partition {name}; it has {there}.", *_made_partition(site, queue, name))
        )
    if queue.qos and site.qos_rows is not None and queue.qos not in site.qos:
        near = _near(queue.qos, site.qos)
        what = f"Slurm has no QOS {queue.qos}; it has {', '.join(sorted(site.qos))}."
        findings.append(error(what + (f" Did you mean {near}?" if near else ""), *make_qos(queue.qos)))
    return findings if name else [*findings, *judge_harm(site, premise)]


def _made_partition(site: Site, queue: FragmentQueue, name: str) -> tuple[SiteChange, ...]:
    """Change that makes a partition of all nodes, below all others, or equal to those of tier 0, which go up."""
    lowest = min((partition.partition.priority_tier for partition in site.partitions.values()), default=1)
    by_qos = {"AllowQos": queue.qos or best_fragment_qos(site, OWN)}
    fields = {
        "PriorityTier": f"{max(0, lowest - 1)}",
        "PreemptMode": "REQUEUE",
        "GraceTime": "0",
        "MaxTime": _A_DAY,
        **(by_qos if queue.qos or site.settings.preempt_type == BY_QOS else {}),
    }
    return (new_partition(name, nodes_of_the_site(site), **fields),)


def _plan(site: Site, premise: Premise, queue: FragmentQueue) -> MendingPlan | None:
    """Plan that mends all that is unsafe where fragments run in this queue; None: something cannot be mended."""
    wanted = {"partition": queue.partition, "qos": queue.qos}
    settings = [setting(key, name) for key, name in wanted.items() if name != getattr(premise.queue, key)]
    meant = queue
    first = _unmended(site, replace(premise, queue=queue))
    changes: dict[Finding, tuple[SiteChange, ...]] = {}
    typed, after = list(settings), site
    root = error("")
    for _ in range(_MOST_ROUNDS):
        findings = (*_unmended(after, replace(premise, queue=queue)), *judge_own_jobs(site, after, queue, meant))
        unsafe = [finding for finding in findings if finding.is_unsafe]
        if not unsafe:
            changes[root] = (*changes.get(root, ()), *settings)
            return MendingPlan(queue, after, changes)
        before = len(typed)
        for finding in unsafe:
            # What follows from changes belongs to the finding that they mend.
            root = finding if finding in first else root
            new = [change for change in finding.changes if change not in typed]
            changes[root] = (*changes.get(root, ()), *new)
            typed += new
        if len(typed) == before:
            return None
        after, queue = apply(in_typing_order(typed), site, queue)
    return None


def judge_own_jobs(before: Site, after: Site, *queues: FragmentQueue) -> list[Finding]:
    """Findings on changes that affect the site's own jobs: pairs that may preempt, locked-out jobs, another order.

    The queues are where fragments would run, and also where they were meant to run before.
    """
    kinds = [kind for kind in kinds_of(before) if not any(is_of_fragments(kind, queue) for queue in queues)]
    return [
        *_new_preemptions(before, after, kinds),
        *_locked_out(before, after, kinds, queues[0]),
        *_another_order(before, after, sorted({kind.partition for kind in kinds})),
        *_new_limits(before, after),
    ]


def _new_preemptions(before: Site, after: Site, kinds: list[JobKind]) -> Iterator[Finding]:
    old = before.settings.preempt_type
    is_another = old != after.settings.preempt_type and old in (BY_PARTITION, BY_QOS)
    was_off = old not in (BY_PARTITION, BY_QOS) or before.settings.preempt_mode == "OFF"
    by_tiers_now = was_off and after.settings.preempt_type == BY_PARTITION
    pairs_before, pairs_after = (preempting_pairs(site, kinds, one_by_one=is_another) for site in (before, after))
    for taker, holder in pairs_before.keys() | pairs_after.keys():
        was = pairs_before.get((taker, holder), Preemption.NEVER)
        now = pairs_after.get((taker, holder), Preemption.NEVER)
        if now != was:
            mend = [partition(holder.partition, "PreemptMode", "OFF")] if by_tiers_now else []
            verb = "would preempt" if now > was else "would no longer preempt"
            yield error(f"Jobs of {_named(after, taker)} {verb} jobs of {_named(after, holder)}.", *mend)


def _named(site: Site, kind: JobKind) -> str:
    return f"QOS {kind.qos}" if site.settings.preempt_type == BY_QOS else f"partition {kind.partition}"


def _locked_out(before: Site, after: Site, kinds: Iterable[JobKind], queue: FragmentQueue) -> Iterator[Finding]:
    of_fragments = {queue.qos} if queue.qos else {best_fragment_qos(before, OWN)}
    for kind in kinds:
        there = after.partitions[kind.partition]
        if kind.qos and kind.qos not in of_fragments and not there.job_qos.admits(kind.qos):
            yield error(f"Jobs with QOS {kind.qos} could not run in partition {kind.partition} any more.")
    for name, there in before.partitions.items():
        if there.is_default and name not in queue.partitions and not after.partitions[name].is_default:
            yield error(f"Jobs that name no partition would not run in partition {name} any more.")


def _another_order(before: Site, after: Site, names: Sequence[str]) -> Iterator[Finding]:
    def order(site: Site, first: str, second: str) -> int:
        tiers = [site.partitions[name].partition.priority_tier for name in (first, second)]
        return (tiers[0] > tiers[1]) - (tiers[0] < tiers[1])

    for first, second in combinations(names, 2):
        if order(before, first, second) != order(after, first, second):
            yield error(f"Jobs of partitions {first} and {second} would be considered in another order.")


def _new_limits(before: Site, after: Site) -> Iterator[Finding]:
    for name in sorted(before.usual_qos & before.qos.keys()):
        new = after.qos[name].limits.items() - before.qos[name].limits.items()
        for key, limit in sorted(new):
            yield error(f"Jobs with QOS {name} would have a limit ({key}={limit}).")


def _cost(site: Site, plan: MendingPlan) -> tuple[int, int, int]:
    changes = plan.all_changes
    settings = sum(change.target is Target.SETTINGS for change in changes)
    theirs = sum(_is_the_sites(site, plan.queue, change) for change in changes)
    return theirs, len(changes) - settings - theirs, settings


def _is_the_sites(site: Site, queue: FragmentQueue, change: SiteChange) -> bool:
    match change.target:
        case Target.SETTINGS | Target.MACHINE:
            return False
        case Target.PARTITION:
            return change.name in site.partitions and change.name not in queue.partitions
        case Target.QOS:
            own = queue.qos or best_fragment_qos(site, OWN)
            return change.name in site.qos and change.name != own
    return True


def _with_changes(site: Site, plan: MendingPlan, finding: Finding, changes: Sequence[SiteChange]) -> Finding:
    if not changes:
        return finding
    concerned = [_concerned(site, change) for change in changes if _is_the_sites(site, plan.queue, change)]
    names = list(dict.fromkeys(filter(None, concerned)))
    concerns = f" The lines concern {', '.join(names)}, too." if names else ""
    return error_if(finding.is_unsafe, finding.what + concerns, *changes)


def _concerned(site: Site, change: SiteChange) -> str:
    """Jobs of the site's that a line concerns, in words; empty: the line only protects them."""
    if change.target is Target.PARTITION:
        return "" if change.value == "OFF" else f"all jobs in partition {change.name}"
    if change.target is Target.QOS:
        users = {member.user for member in site.members}
        of_qos = {member.user for member in site.members if member.usual_qos == change.name}
        if users and of_qos == users:
            return f"QOS {change.name} (all {len(users)} users without another QOS)"
        return f"QOS {change.name}" + (f" ({len(of_qos)} users by default)" if of_qos else "")
    return ""
