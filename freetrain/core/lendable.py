"""Which nodes may be lent, until when, and why not the others: holes as they are seen live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from freetrain.core.cluster import JobState, Nodes, Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.problem import Offer
from freetrain.core.shadow import BackfillRules, Shadow, find_shadow

_HARMLESS_FLAGS = frozenset({"CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE"})
"""Flags that say nothing against lending; with any other, known or new, a node is left alone."""

_WANTED_BACK = frozenset(
    {"DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "POWER_DOWN", "REBOOT_REQUESTED", "REBOOT_ISSUED", "PLANNED"}
)
"""Flags that say that a lent node is wanted for something else. With any other, and in a state that Slurm itself
does not know (after its restart), a lent node is neither lent anew nor taken away: unknown is not gone."""


@dataclass(frozen=True, slots=True)
class LendingRules:
    """What the site allows.

    Attributes:
        partition: the preemptible one in which fragments run.
        exclude: nodes never to lend.
        reserve_nodes: idle nodes to leave alone.
        most_nodes: most nodes to lend; 0: no limit.
        idle_for_s: how long a node must have been idle.
        shortest_hole_s: holes expected to be shorter are left alone.
        margin_s: a node is given back this long before its hole ends.
        claim_s: how long nodes are kept free for a job that would start on them, and does not.
        backfill: how Slurm plans.
        drained: nodes that the site has told freetrain to empty → what is said of them.
    """

    partition: str
    exclude: Nodes = frozenset()
    reserve_nodes: int = 0
    most_nodes: int = 0
    idle_for_s: float = 0.0
    shortest_hole_s: float = 0.0
    margin_s: float = 0.0
    claim_s: float = 60.0
    backfill: BackfillRules = field(default_factory=BackfillRules)
    drained: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Past:
    """What one snapshot alone does not tell.

    Attributes:
        idle_since_s: since when each idle node has been seen idle.
        resting_until_s: nodes that were just taken back → when they may be lent again.
        fitting_since_s: waiting jobs → since when the nodes to start them have been there.
    """

    idle_since_s: Mapping[str, float]
    resting_until_s: Mapping[str, float]
    fitting_since_s: Mapping[str, float]


@dataclass(frozen=True)
class Lendable:
    """The answer.

    Attributes:
        offered: nodes that may be lent or stay lent, with the end of their hole where one is known.
        due: lent nodes that must be given back now → why.
        withheld: every other node of the partition → why nothing is done with it.
        fitting: waiting jobs for whom there are nodes if nothing is lent.
    """

    offered: tuple[Offer, ...]
    due: Mapping[str, str]
    withheld: Mapping[str, str]
    fitting: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _End:
    """When a node will be wanted, and by whom."""

    time_s: float
    why: str


_NEVER = _End(inf, "")


def find_lendable(snapshot: Snapshot, fragments: Iterable[Fragment], rules: LendingRules, past: Past) -> Lendable:
    """Judge every node of the partition.

    Args:
        snapshot: what there is.
        fragments: those that hold a node.
        rules: what the site allows.
        past: what was seen before.
    """
    holding = [fragment for fragment in fragments if fragment.holds_node]
    ours = frozenset(fragment.job for fragment in holding)
    # A node that changes hands has two fragments for a moment: the one that leaves does not count.
    lent = {one.node: one for one in sorted(holding, key=lambda one: _in_between(one) is None)}
    shadow = _shadow_of(snapshot, lent, ours, rules, past)
    ends = _hole_ends(snapshot, shadow)
    occupied = _occupied(snapshot, ours)
    offered: dict[str, Offer] = {}
    due: dict[str, str] = {}
    withheld: dict[str, str] = {}
    for name in sorted(snapshot.partitions[rules.partition].nodes):
        end = ends.get(name, _NEVER)
        why_not = _why_unfit(snapshot, name, name in lent, end, occupied, rules) or _in_between(lent.get(name))
        if why_not is None and end.time_s - snapshot.time_s <= rules.margin_s:
            why_not = end.why
        if why_not is None:
            until_s = None if end.time_s == inf else end.time_s - rules.margin_s
            offered[name] = Offer(name, until_s, lent[name].trainer if name in lent else None)
        elif name in lent and not _in_between(lent[name]) and _is_wanted_back(snapshot, name):
            due[name] = why_not
        else:
            withheld[name] = why_not
    _take_out(_kept_free(shadow, offered), offered, due, withheld)
    _take_out(_not_yet(snapshot, offered, rules, past), offered, due, withheld)
    _take_out(_beyond_limits(offered, rules), offered, due, withheld)
    return Lendable(tuple(offered.values()), due, withheld, shadow.fitting)


def take_back(lendable: Lendable, why_not: Mapping[str, str]) -> Lendable:
    """The same, but that these nodes are not offered, for these reasons; those that are lent become due."""
    offered = {node.name: node for node in lendable.offered}
    due, withheld = dict(lendable.due), dict(lendable.withheld)
    _take_out({name: why for name, why in why_not.items() if name in offered}, offered, due, withheld)
    return Lendable(tuple(offered.values()), due, withheld, lendable.fitting)


def in_few_classes(offered: Iterable[Offer], now_s: float, horizon_s: float) -> tuple[Offer, ...]:
    """The nodes, their ends rounded to quarters of the horizon: each different end makes the decision harder.

    Ends beyond the horizon make no difference to it; one that comes sooner counts as after one quarter at least.
    """
    quarter_s = horizon_s / 4
    coarse = []
    for node in offered:
        quarters = inf if node.free_until_s is None else (node.free_until_s - now_s) // quarter_s
        until_s = None if quarters >= 4 else now_s + max(1.0, quarters) * quarter_s
        coarse.append(replace(node, free_until_s=until_s))
    return tuple(coarse)


def _shadow_of(
    snapshot: Snapshot, lent: Mapping[str, Fragment], ours: frozenset[str], rules: LendingRules, past: Past
) -> Shadow:
    """What the site's jobs would do; whoever had its nodes for long and did not start waits for something else."""
    disbelieved = (
        job for job, since_s in past.fitting_since_s.items() if snapshot.time_s - since_s >= rules.claim_s
    )
    lent_to = {name: fragment.trainer for name, fragment in lent.items() if _in_between(fragment) is None}
    return find_shadow(snapshot, rules.partition, ours, lent_to, rules.backfill, frozenset(disbelieved))


def _kept_free(shadow: Shadow, offered: Mapping[str, Offer]) -> Mapping[str, str]:
    """Nodes on which a job would start now → why they are not lent."""
    return {name: f"job {job} could start here" for name, job in shadow.kept.items() if name in offered}


def _hole_ends(snapshot: Snapshot, shadow: Shadow) -> Mapping[str, _End]:
    """Node → when a reservation begins or a waiting job starts there first, in Slurm's plan or in the shadow."""
    ends = {name: _End(plan.start_s, f"job {plan.job} is to start here") for name, plan in shadow.wanted.items()}
    for reservation in snapshot.reservations:
        if reservation.end_s > snapshot.time_s:
            _earlier(ends, reservation.nodes, _End(reservation.start_s, f"reservation {reservation.name}"))
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.start_s is not None and job.planned_nodes:
            _earlier(ends, job.planned_nodes, _End(job.start_s, f"job {job.id} is to start here"))
    return ends


def _earlier(ends: dict[str, _End], nodes: Nodes, end: _End) -> None:
    for name in nodes:
        if end.time_s < ends.get(name, _NEVER).time_s:
            ends[name] = end


def _occupied(snapshot: Snapshot, ours: frozenset[str]) -> Mapping[str, str]:
    """Node → a job of somebody else that is on it."""
    return {
        name: job.id for job in snapshot.jobs if job.state.has_nodes and job.id not in ours for name in job.nodes
    }


def _why_unfit(
    snapshot: Snapshot, name: str, is_lent: bool, end: _End, occupied: Mapping[str, str], rules: LendingRules
) -> str | None:
    """Why the node may not be lent whatever the time; None: it may."""
    node = snapshot.node.get(name)
    if node is None:
        return "Slurm does not show it"
    if name in rules.exclude:
        return "excluded by the site"
    if name in rules.drained:
        return rules.drained[name]
    if name in occupied:
        return f"job {occupied[name]} runs here"
    harmless = _HARMLESS_FLAGS | ({"PLANNED"} if end is not _NEVER else set())
    if node.flags - harmless:
        return f"Slurm says {'+'.join([node.state, *sorted(node.flags - harmless)])}"
    if node.state != "IDLE" and not (is_lent and node.state in ("ALLOCATED", "MIXED")):
        return f"Slurm says {node.state}"
    return None


_IN_BETWEEN = {FragmentState.LEAVING: "is being given back", FragmentState.ENDING: "its fragment is ending"}


def _in_between(fragment: Fragment | None) -> str | None:
    """Why nothing is to be done with a lent node at the moment."""
    if fragment is None or fragment.state in (FragmentState.ASKED, FragmentState.RUNNING):
        return None
    return _IN_BETWEEN.get(fragment.state, "its fragment is lost")


def _is_wanted_back(snapshot: Snapshot, name: str) -> bool:
    """Whether a lent node that may not stay lent must be given back, rather than left as it is."""
    node = snapshot.node.get(name)
    if node is None or node.state not in ("IDLE", "ALLOCATED", "MIXED"):
        return False
    return not node.flags - _HARMLESS_FLAGS or bool(node.flags & _WANTED_BACK)


def _not_yet(
    snapshot: Snapshot, offered: Mapping[str, Offer], rules: LendingRules, past: Past
) -> Mapping[str, str]:
    """Nodes that nobody has and that should not be lent just now."""
    now_s = snapshot.time_s
    is_up = snapshot.partitions[rules.partition].is_up
    reasons = {}
    for node in offered.values():
        if node.held_by is not None:
            continue
        if not is_up:
            reasons[node.name] = f"partition {rules.partition} is down"
        elif node.free_until_s is not None and node.free_until_s - now_s < rules.shortest_hole_s:
            reasons[node.name] = f"its hole ends in {node.free_until_s - now_s:.0f} s"
        elif now_s - past.idle_since_s.get(node.name, now_s) < rules.idle_for_s:
            reasons[node.name] = f"idle for less than {rules.idle_for_s:.0f} s"
        elif now_s < past.resting_until_s.get(node.name, 0.0):
            reasons[node.name] = "was taken back a moment ago"
    return reasons


def _beyond_limits(offered: Mapping[str, Offer], rules: LendingRules) -> Mapping[str, str]:
    """Nodes too many, those that nobody has first, then those that are wanted back soonest."""
    allowed = max(0, len(offered) - rules.reserve_nodes)
    if rules.most_nodes:
        allowed = min(allowed, rules.most_nodes)
    order = sorted(offered.values(), key=lambda node: (node.held_by is None, -(node.free_until_s or inf)))
    return {node.name: "kept in reserve for the site" for node in order[allowed:]}


def _take_out(
    reasons: Mapping[str, str],
    offered: dict[str, Offer],
    due: dict[str, str],
    withheld: dict[str, str],
) -> None:
    for name, reason in reasons.items():
        node = offered.pop(name)
        (withheld if node.held_by is None else due)[name] = reason
