"""Withholding: why nodes that nothing speaks against are not lent all the same, rule after rule."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, node_of
from freetrain.core.job import Job, JobState
from freetrain.core.node import Nodes
from freetrain.core.problem import Offer
from freetrain.lending.facts import Facts
from freetrain.lending.limit_claims import due_for_limits
from freetrain.lending.memory import Memory
from freetrain.lending.offers import Offers, withdraw
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow

_YOUNG_S = 30.0
"""A job that has just begun is expected to last as long as this at least."""


def nodes_of_next(
    offered: Iterable[Offer],
    shadow: Shadow,
    snapshot: Snapshot,
    rules: NodeRules,
    rooms: Rooms | None = None,
) -> Mapping[str, str]:
    """Nodes that are kept free, and given back where they are lent, for those next in line that want all of them.

    Args:
        offered: nodes that may be lent.
        shadow: what the site's jobs would do.
        snapshot: what there is.
        rules: how soon the end has to be expected, and which jobs are fragments.
        rooms: what is left of each node, where nodes are lent in parts.

    Returns:
        Node → why.
    """
    plans = [plan for plan in first_in_line(shadow, snapshot).values() if plan.part is None]
    if not plans:
        return {}
    names = frozenset(node_of(offer.name) for offer in offered)
    clear = frozenset(name for name in names if not (rooms and name in rooms and rooms[name].used_by_site))
    jobs_on = Counter(name for job in _running(snapshot, rules) for name in job.nodes)
    ending = [frozenset(name for name in job.nodes if jobs_on[name] == 1) for job in _ending(snapshot, rules)]
    kept: dict[str, str] = {}
    for plan in plans:
        missing = len(plan.nodes - clear)
        reachable = _reachable(plan, snapshot)
        if any(len(nodes & reachable) >= missing for nodes in ending):
            kept |= dict.fromkeys(sorted(plan.nodes & names), _why(plan))
    return kept


def _why(plan: PlannedStart) -> str:
    return f"job {plan.job} is next to start here"


def _running(snapshot: Snapshot, rules: NodeRules) -> Iterator[Job]:
    """The site's jobs that run."""
    return (job for job in snapshot.jobs if job.state is JobState.RUNNING and not rules.queue.has(job))


def _ending(snapshot: Snapshot, rules: NodeRules) -> list[Job]:
    """Those whose end is expected soon."""
    return [job for job in _running(snapshot, rules) if _left_s(job, snapshot.time_s) < rules.next_within_s]


def first_in_line(shadow: Shadow, snapshot: Snapshot) -> Mapping[str, PlannedStart]:
    """Partition → the first of its jobs that cannot start yet."""
    first: dict[str, PlannedStart] = {}
    for plan in shadow.plans:
        if plan.start_s > shadow.time_s:
            for name in snapshot.job[plan.job].partition.split(","):
                first.setdefault(name, plan)
    return first


def _left_s(job: Job, now_s: float) -> float:
    """How much longer it runs, as far as one can tell: as long as it has run already, at most until its limit."""
    age_s = now_s - (now_s if job.start_s is None else job.start_s)
    expected_s = max(age_s, _YOUNG_S)
    return expected_s if job.end_s is None else min(expected_s, job.end_s - now_s)


def _reachable(plan: PlannedStart, snapshot: Snapshot) -> Nodes:
    """Nodes of the partitions in which the job waits."""
    names = snapshot.job[plan.job].partition.split(",")
    return Nodes().union(*(snapshot.partitions[name].nodes for name in names if name in snapshot.partitions))


WhyNot = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WithholdContext:
    """What the rules look at.

    Attributes:
        facts: what the look found out.
        memory: whom fragments block.
        shadow: what the site's jobs would do if nothing were lent.
        nodes: what the site allows.
        rooms: what is left of each node, where nodes are lent in parts.
        claimed: parts of nodes on which jobs of the site would start → why they are given back.
        stopped: why nothing is to be lent at all; empty: nodes are lent.
        crowded_out: fragments whose parts of nodes jobs of the site's have taken before they began.
        late: others that Slurm did not start in time.
    """

    facts: Facts
    memory: Memory
    shadow: Shadow
    nodes: NodeRules
    rooms: Rooms | None
    claimed: WhyNot
    stopped: str
    crowded_out: Sequence[Fragment]
    late: Sequence[Fragment]


def withhold(offers: Offers, context: WithholdContext) -> Offers:
    """Take back what each of ``_RULES_IN_ORDER`` names; where several name a node the first reason is shown."""
    for why_not in _RULES_IN_ORDER:
        offers = withdraw(offers, why_not(offers, context))
    return offers


def _claimed(_offers: Offers, context: WithholdContext) -> WhyNot:
    return context.claimed


def _next_in_line(offers: Offers, context: WithholdContext) -> WhyNot:
    return nodes_of_next(offers.offered, context.shadow, context.facts.snapshot, context.nodes, context.rooms)


def _blocking(_offers: Offers, context: WithholdContext) -> WhyNot:
    return context.memory.blocked.why_not(context.facts.snapshot)


def _counting_in_a_limit(_offers: Offers, context: WithholdContext) -> WhyNot:
    return due_for_limits(context.memory.limits, context.facts, context.nodes)


def _all_where_lending_is_stopped(offers: Offers, context: WithholdContext) -> WhyNot:
    return dict.fromkeys((offer.name for offer in offers.offered), context.stopped) if context.stopped else {}


def _at_fault(offers: Offers, context: WithholdContext) -> WhyNot:
    """Those that nobody has: a fragment that runs there may do well."""
    withheld = context.memory.suspects.withheld(context.facts.snapshot.time_s)
    free = (offer.name for offer in offers.offered if offer.held_by is None) if withheld else ()
    return {name: withheld[node_of(name)] for name in free if node_of(name) in withheld}


def _crowded_out(_offers: Offers, context: WithholdContext) -> WhyNot:
    return dict.fromkeys(
        (fragment.place for fragment in context.crowded_out), "a job of the site's has begun there before it"
    )


def _not_started_in_time(_offers: Offers, context: WithholdContext) -> WhyNot:
    return dict.fromkeys(map(context.nodes.place_of, context.late), "Slurm does not start what it is lent for")


def _new_ones_in_a_pause(offers: Offers, context: WithholdContext) -> WhyNot:
    if not context.facts.paused:
        return {}
    why = f"nothing more is lent: {context.facts.paused}"
    return {node.name: why for node in offers.offered if node.held_by is None}


_RULES_IN_ORDER: Sequence[Callable[[Offers, WithholdContext], WhyNot]] = (
    _claimed,
    _next_in_line,
    _blocking,
    _counting_in_a_limit,
    _all_where_lending_is_stopped,
    _at_fault,
    _crowded_out,
    _not_started_in_time,
    _new_ones_in_a_pause,
)
