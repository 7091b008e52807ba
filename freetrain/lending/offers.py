"""Which nodes may be lent, until when, and why not the others: holes as they are seen live."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from freetrain.core.cluster import JobState, Node, Nodes, NodeState, Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.problem import Offer
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import Shadow, find_shadow
from freetrain.lending.sightings import Sightings


@dataclass(frozen=True)
class Offers:
    """The verdict on every node of the partition.

    Attributes:
        offered: nodes that may be lent or stay lent, with the end of their hole where one is known.
        due: lent nodes that must be given back now → why.
        withheld: every other node of the partition → why nothing is done with it.
    """

    offered: tuple[Offer, ...]
    due: Mapping[str, str]
    withheld: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _End:
    """When a node will be wanted, and by whom."""

    time_s: float
    why: str


_NEVER = _End(inf, "")

_offer = lru_cache(maxsize=65536)(Offer)
"""Offers are the same from look to look, but for a few."""

_HALVINGS = 4
"""So often the horizon is halved for the classes of nodes whose ends are known."""


def shadow_of(snapshot: Snapshot, fragments: Iterable[Fragment], rules: NodeRules, seen: Sightings) -> Shadow:
    """What the site's jobs would do; whoever had its nodes for long and did not start waits for something else.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        rules: what the site allows.
        seen: what was seen before.
    """
    if not any(job.state is JobState.PENDING for job in snapshot.jobs):
        return Shadow(snapshot.time_s, (), frozenset())
    fragments = list(fragments)
    since_s = seen.fitting_since_s
    disbelieved = frozenset(job for job in since_s if snapshot.time_s - since_s[job] >= rules.claim_s)
    ours = frozenset(fragment.job for fragment in fragments)
    lent_to = {one.node: one.trainer for one in fragments if one.goes_on}
    return find_shadow(snapshot, rules.partition, ours, lent_to, rules.backfill, disbelieved)


def find_offers(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    shadow: Shadow,
    rules: NodeRules,
    seen: Sightings,
    drained: Mapping[str, str],
) -> Offers:
    """Judge every node of the partition.

    1. What speaks against lending a node whatever the time: Slurm, the site, other jobs on it.
    2. Who will want it, and when.
    3. Which nodes the site's jobs would start on now.
    4. What nobody has and should not be lent just now, and what would be too much.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        shadow: what the site's jobs would do if nothing were lent.
        rules: what the site allows.
        seen: what was seen before.
        drained: nodes that the site has told freetrain to empty → what is said of them.
    """
    fragments = list(fragments)
    # On a node that changes hands there are two: the one that leaves counts no more.
    holder = {one.node: one.trainer for one in fragments if one.goes_on}
    between = {one.node: _why_between(one) for one in fragments if one.node not in holder}
    lent, ends = holder.keys() | between.keys(), _hole_ends(snapshot, shadow)
    why_not = {
        **{name: end.why for name, end in ends.items() if end.time_s - snapshot.time_s <= rules.margin_s},
        **between,
        **_why_unfit(snapshot, fragments, lent, ends, rules, drained),
    }
    names = sorted(snapshot.partitions[rules.partition].nodes)
    until_s = {name: end.time_s - rules.margin_s for name, end in ends.items() if end.time_s < inf}
    offered = tuple(_offer(name, until_s.get(name), holder.get(name)) for name in names if name not in why_not)
    out = [name for name in names if name in why_not]
    back = {name for name in out if name in lent and name not in between and _is_wanted_back(snapshot, name)}
    due = {name: why_not[name] for name in out if name in back}
    offers = Offers(offered, due, {name: why_not[name] for name in out if name not in back})
    offers = take_back(offers, {name: f"job {job} could start here" for name, job in shadow.kept.items()})
    offers = take_back(offers, _not_yet(snapshot, offers.offered, rules, seen))
    return take_back(offers, _beyond_limits(offers.offered, rules))


def take_back(offers: Offers, why_not: Mapping[str, str]) -> Offers:
    """The same, but that these nodes are not offered, for these reasons; those that are lent become due."""
    if not why_not:
        return offers
    kept = tuple(node for node in offers.offered if node.name not in why_not)
    out = [node for node in offers.offered if node.name in why_not]
    due = {node.name: why_not[node.name] for node in out if node.held_by is not None}
    withheld = {node.name: why_not[node.name] for node in out if node.held_by is None}
    return Offers(kept, {**offers.due, **due}, {**offers.withheld, **withheld})


def planned_ends_s(snapshot: Snapshot, shadow: Shadow) -> Mapping[str, float]:
    """Node → when it will be wanted, as far as anybody knows, UTC epoch seconds."""
    return {name: end.time_s for name, end in _hole_ends(snapshot, shadow).items()}


def in_few_classes(offered: Sequence[Offer], now_s: float, horizon_s: float) -> tuple[Offer, ...]:
    """The nodes, the time until their ends rounded down to 1/2, 1/4, 1/8 or 1/16 of the horizon.

    Each different end makes the decision harder; ends beyond the horizon make no difference to it, and what comes
    sooner than 1/16 counts as that.
    """
    ends_s = {node.free_until_s for node in offered if node.free_until_s is not None}
    coarse_s = {end_s: _coarse_s(end_s, now_s, horizon_s) for end_s in ends_s}
    return tuple(
        node if node.free_until_s is None else _offer(node.name, coarse_s[node.free_until_s], node.held_by)
        for node in offered
    )


def _coarse_s(end_s: float, now_s: float, horizon_s: float) -> float | None:
    """One end, rounded; None: it lies beyond the horizon."""
    left_s = end_s - now_s
    halvings = next((number for number in range(_HALVINGS) if left_s >= horizon_s / 2**number), _HALVINGS)
    return None if halvings == 0 else now_s + horizon_s / 2**halvings


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


def _why_unfit(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    lent: Set[str],
    ends: Mapping[str, _End],
    rules: NodeRules,
    drained: Mapping[str, str],
) -> Mapping[str, str]:
    """Node that is not to be lent, whatever the time → the weightiest reason."""
    ours = {fragment.job for fragment in fragments}
    others = (job for job in snapshot.jobs if job.state.has_nodes and job.id not in ours)
    why = {name: f"job {job.id} runs here" for job in others for name in job.nodes}
    for node in snapshot.nodes:
        if node.name not in why and not _is_free(node, lent, ends):
            why[node.name] = f"Slurm says {node.said}"
    why |= drained
    if rules.power is not None:
        why |= dict.fromkeys(rules.power.suspendable(snapshot, rules.partition), "Slurm powers it down when idle")
    why |= dict.fromkeys(rules.exclude, "excluded by the site")
    missing = snapshot.partitions[rules.partition].nodes - snapshot.node.keys()
    return why | dict.fromkeys(missing, "Slurm does not show it")


def _is_free(node: Node, lent: Set[str], ends: Mapping[str, _End]) -> bool:
    """Whether Slurm says nothing against lending it, or keeping it lent."""
    if node.state is not NodeState.IDLE and (node.state is not NodeState.BUSY or node.name not in lent):
        return False
    return node.may_be_lent and not (node.is_planned and node.name not in ends)


_IN_BETWEEN = {FragmentState.LEAVING: "is being given back", FragmentState.ENDING: "its fragment is ending"}


def _why_between(fragment: Fragment) -> str:
    """Why nothing is to be done with the node of a fragment that does not go on."""
    return _IN_BETWEEN.get(fragment.state, "its fragment is lost")


def _is_wanted_back(snapshot: Snapshot, name: str) -> bool:
    """Whether a lent node that may not stay lent must be given back, rather than left as it is.

    One in a state that Slurm itself does not know (after its restart), or with a flag that is new, is neither lent
    anew nor taken away: unknown is not gone.
    """
    node = snapshot.node.get(name)
    if node is None or node.state not in (NodeState.IDLE, NodeState.BUSY):
        return False
    return node.may_be_lent or node.is_wanted


def _not_yet(snapshot: Snapshot, offered: Iterable[Offer], rules: NodeRules, seen: Sightings) -> Mapping[str, str]:
    """Nodes that nobody has and that should not be lent just now."""
    now_s = snapshot.time_s
    is_up = snapshot.partitions[rules.partition].is_up
    reasons = {}
    for node in offered:
        if node.held_by is not None:
            continue
        if not is_up:
            reasons[node.name] = f"partition {rules.partition} is down"
        elif node.free_until_s is not None and node.free_until_s - now_s < rules.shortest_hole_s:
            reasons[node.name] = f"its hole ends in {node.free_until_s - now_s:.0f} s"
        elif now_s - seen.idle_since_s.get(node.name, now_s) < rules.idle_for_s:
            reasons[node.name] = f"idle for less than {rules.idle_for_s:.0f} s"
        elif now_s < seen.resting_until_s.get(node.name, 0.0):
            reasons[node.name] = "was taken back a moment ago"
    return reasons


def _beyond_limits(offered: Sequence[Offer], rules: NodeRules) -> Mapping[str, str]:
    """Nodes too many, those that nobody has first, then those that are wanted back soonest."""
    allowed = max(0, len(offered) - rules.reserve_nodes)
    if rules.most_nodes:
        allowed = min(allowed, rules.most_nodes)
    if allowed >= len(offered):
        return {}
    order = sorted(offered, key=lambda node: (node.held_by is None, -(node.free_until_s or inf)))
    return {node.name: "kept in reserve for the site" for node in order[allowed:]}
