"""The site's jobs that wait for a limit in which fragments count: fragments make room for them. Pure.

If nothing were lent, such a job would wait for nodes alone, so the shadow schedule plans it. If it would start
now, as many fragments are given back as have its amount of the limit: that is enough, whatever else counts there.
Until it has started, no trainer that counts in the limit gets more nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from math import inf

from freetrain.core.amounts import Amount
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.job import Job, JobState, LimitOf, SharedLimit, WaitsFor
from freetrain.lending.facts import Bar, Facts
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow

# Slurm counts in whole seconds.
_SAME_S = 1.0


@dataclass(frozen=True, slots=True)
class LimitClaim:
    """Fragments that are given back for a job that waits for a limit.

    Attributes:
        fragments: jobs of the fragments that are, or were, given back for it.
        tasks: number of the job's tasks that it is for.
        gone_s: time since which all of the fragments have left, UTC epoch seconds; None: some have not.
    """

    limit: SharedLimit
    fragments: tuple[str, ...]
    tasks: int = 1
    gone_s: float | None = None


LimitClaims = Mapping[str, LimitClaim]
"""Waiting job of the site's → the fragments that are given back for it."""


def without_limits(facts: Facts, before: LimitClaims, queue: FragmentQueue) -> Facts:
    """The facts, in which jobs that wait for a limit in which fragments count wait for nodes instead.

    For each limit these are the first jobs, as many as its fragments could make room for.
    """
    limited = [job for job in facts.snapshot.limited if not queue.has(job)]
    if not limited:
        return facts
    freed: dict[str, int] = {}
    left: dict[tuple[str, str], int] = {}
    # A waiting job has no nodes yet. On the smallest ones it wants least, so that no job is left out too early.
    smallest = min((node.cpus for node in facts.snapshot.nodes if node.cpus), default=1)
    for job in sorted(limited, key=lambda job: (-job.priority, job.submitted_s)):
        counts = _counts(job)
        key = _whose(job), counts
        if key not in left:
            started = (holder for holder in _holders(job, facts) if holder.state is not FragmentState.ASKED)
            left[key] = sum(_part(fragment, counts, facts) for fragment in started)
        if job.id in before:
            # What was given back at earlier looks counts for it until it starts.
            freed[job.id] = min(job.tasks, before[job.id].tasks)
        elif left[key] > 0:
            each = max(1, _wanted(job, counts, [smallest] * job.node_count))
            freed[job.id] = min(job.tasks, -(-left[key] // each))
            left[key] -= each * freed[job.id]
    if not freed:
        return facts
    jobs = (
        replace(job, waits_for=WaitsFor.NODES, tasks=freed[job.id]) if job.id in freed else job
        for job in facts.snapshot.jobs
    )
    return replace(facts, snapshot=replace(facts.snapshot, jobs=tuple(jobs)))


def claims_after(before: LimitClaims, facts: Facts, shadow: Shadow, rules: NodeRules) -> LimitClaims:
    """The claims after a look, of jobs that the shadow starts now.

    A job keeps its claim until it has started, even if Slurm has found room in the limit by now: otherwise that
    room would be lent to others while the job waits for a node. More is given back for it only if it still waits
    for the limit after Slurm has planned, or had time to, since the fragments left.
    """
    if not facts.snapshot.limited and not before:
        return {}
    nodes: defaultdict[str, list[str]] = defaultdict(list)
    for plan in shadow.plans:
        is_limited = plan.job in before or facts.snapshot.job[plan.job].limit is not None
        if is_limited and plan.start_s <= shadow.time_s:
            nodes[plan.job] += sorted(plan.nodes)
    claims = {id_: _still(before[id_], facts, shadow.time_s) for id_ in nodes if id_ in before}
    claimed = {fragment for claim in claims.values() for fragment in claim.fragments}
    for id_, names in nodes.items():
        claim, job = claims.get(id_), facts.snapshot.job[id_]
        if job.limit is None or (claim is not None and not _has_had_its_chance(claim, facts, rules)):
            continue
        more = _enough(job, names, facts, shadow, claimed)
        claimed.update(more)
        if more:
            given = claim.fragments if claim is not None else ()
            claims[id_] = LimitClaim(job.limit, (*given, *more), _tasks_on(names, job))
    return claims


def due_for_limits(claims: LimitClaims, facts: Facts, rules: NodeRules) -> Mapping[str, str]:
    """Lent place → why it is given back."""
    why = {fragment: _why(job) for job, claim in _claiming(claims, facts) for fragment in claim.fragments}
    given = (fragment for fragment in facts.fragments if fragment.goes_on and fragment.job in why)
    return {rules.place_of(fragment): why[fragment.job] for fragment in given}


def bars_of_limits(claims: LimitClaims, facts: Facts, rules: NodeRules) -> Mapping[str, Bar]:
    """Trainers that count in a limit for which one of the site's jobs waits: they get no more nodes."""
    if not claims:
        return {}
    places = rules.queue.among(facts.snapshot.partitions).nodes
    # Reversed: of an array with several jobs the first one stays.
    first = {job.array: job for job in reversed(facts.snapshot.jobs) if rules.queue.has(job)}
    bars = {}
    for request in facts.requests:
        id_, qos = request.submission_id, rules.queue.qos
        # Of a training that has no job in Slurm yet: one like its fragments.
        own = first.get(id_) or Job(
            id_, id_, request.owner, rules.partition, JobState.PENDING, account=request.account, qos=qos
        )
        jobs = [job for job, _ in _claiming(claims, facts) if facts.shares_limit(job, own)]
        if jobs:
            bars[request.id] = Bar(places, f"{_why(jobs[0])}; it gets no more nodes until that job has started")
    return bars


def tell_claims(claims: LimitClaims, facts: Facts) -> Mapping[str, str]:
    """Job of the site → what is done for it, in sentences."""
    sentences = {}
    for job, claim in _claiming(claims, facts):
        why = _why(job)
        gone = "are gone" if claim.gone_s is not None else "are being given back for it"
        fragments = ", ".join(claim.fragments)
        sentences[job.id] = f"{why[0].upper()}{why[1:]} ({job.reason}). Fragments {fragments} {gone}."
    return sentences


def _claiming(claims: LimitClaims, facts: Facts) -> Iterator[tuple[Job, LimitClaim]]:
    """The jobs with their claims, each with the limit of its claim, which Slurm may not show any more."""
    for id_, claim in claims.items():
        yield replace(facts.snapshot.job[id_], limit=claim.limit), claim


def _holders(job: Job, facts: Facts) -> list[Fragment]:
    """The fragments that count in the limit that a job waits for; those that are to start will count soon."""
    jobs = facts.snapshot.job
    return [
        fragment
        for fragment in facts.fragments
        if fragment.job in jobs and facts.shares_limit(job, jobs[fragment.job])
    ]


def _still(claim: LimitClaim, facts: Facts, now_s: float) -> LimitClaim:
    is_gone = facts.jobs.isdisjoint(claim.fragments)
    return replace(claim, gone_s=(claim.gone_s or now_s) if is_gone else None)


def _has_had_its_chance(claim: LimitClaim, facts: Facts, rules: NodeRules) -> bool:
    """Whether Slurm has planned since the fragments were gone, or had the time to."""
    if claim.gone_s is None:
        return False
    has_planned = facts.last_plan_s is not None and facts.last_plan_s > claim.gone_s + _SAME_S
    return has_planned or facts.snapshot.time_s - claim.gone_s >= rules.claim_s


def _enough(job: Job, nodes: Sequence[str], facts: Facts, shadow: Shadow, claimed: Iterable[str]) -> Sequence[str]:
    """Jobs of the fragments that together have as much in the limit as the job will have on these nodes.

    Fragments come first that leave anyway, or whose nodes one of the site's jobs takes; then those that lose
    least, the youngest first.
    """
    claimed = set(claimed)
    holders = [fragment for fragment in _holders(job, facts) if fragment.job not in claimed]
    counts = _counts(job)
    left = _wanted(job, counts, [facts.snapshot.node[name].cpus for name in nodes])
    taken = {name for plan in shadow.plans if plan.start_s <= shadow.time_s for name in plan.nodes}
    holders.sort(
        key=lambda fragment: (
            fragment.goes_on,
            fragment.node not in taken,
            facts.lost_s(fragment),
            -(fragment.started_s or inf),
            fragment.job,
        )
    )
    chosen: dict[str, None] = {}
    for fragment in holders:
        # All that are to start are called off: they would fill the limit again.
        if fragment.state is FragmentState.ASKED:
            chosen[fragment.job] = None
        elif left > 0 or fragment.job in chosen:
            chosen[fragment.job] = None
            left -= _part(fragment, counts, facts)
    return tuple(chosen)


def _counts(job: Job) -> str:
    """The resource in which fragments and the job are compared; nodes, if the job's amount is unknown."""
    counts = job.limit.counts if job.limit is not None else ""
    total = job.total or Amount()
    known = {"jobs": 1, "cpu": 1, "mem": total.memory_mb, "gres": total.gpus}
    return counts if known.get(counts) else "node"


def _wanted(job: Job, counts: str, cpus: Sequence[int]) -> int:
    """Amount of the resource that a job will have on nodes with so many CPUs.

    An exclusive job has all CPUs of its nodes, however few it asks for.
    """
    tasks, total = _tasks_on(cpus, job), job.total or Amount()
    if counts == "cpu" and (job.total is None or job.least is not None):
        return sum(cpus)
    each = {"jobs": 1, "cpu": total.cpus, "mem": total.memory_mb, "gres": total.gpus}
    return each[counts] * tasks if counts in each else len(cpus)


def _tasks_on(nodes: Sized, job: Job) -> int:
    return max(1, len(nodes) // max(job.node_count, 1))


def _part(fragment: Fragment, counts: str, facts: Facts) -> int:
    node = facts.snapshot.node.get(fragment.node)
    if counts in ("jobs", "node") or node is None:
        return 1
    amount = facts.amount_of(fragment, node)
    return {"cpu": amount.cpus, "mem": amount.memory_mb, "gres": amount.gpus}[counts]


def _why(job: Job) -> str:
    return f"job {job.id} waits for a limit of {_whose(job)} in which fragments count"


def _whose(job: Job) -> str:
    whose = {
        LimitOf.ACCOUNT: f"account {job.account}",
        LimitOf.USER: f"user {job.user} in account {job.account}",
        LimitOf.QOS: f"QOS {job.qos}",
        LimitOf.QOS_AND_USER: f"user {job.user} in QOS {job.qos}",
        LimitOf.QOS_AND_ACCOUNT: f"account {job.account} in QOS {job.qos}",
    }
    return whose[job.limit.of] if job.limit is not None else ""
