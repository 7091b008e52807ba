"""Rooms: what is left of each node, where nodes are lent in parts. Pure.

What the site's jobs and the fragments have of a node is what Slurm says that it has given away. Of a fragment that
was asked for and does not run yet Slurm knows nothing: what it will have is taken off here. What the site's jobs
would start on now stays free, and a fragment whose part they took before it began is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from types import MappingProxyType

from freetrain.core.amounts import GPU, GPU_PARTS, Amount, count_gres, in_both_forms, left_of
from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.needs import Needs
from freetrain.core.node import Nodes, NodeState
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import LentPart, Shadow


@dataclass(frozen=True, slots=True)
class Room:
    """What is left of a node.

    Attributes:
        free: what may be lent of it; what the site keeps back is not among it.
        total: what could be lent of it if nobody had any.
        used_by_site: whether a job of the site's has part of it, so that it can be lent in parts only.
        lent: the parts of it that are lent.
    """

    free: Amount
    total: Amount
    used_by_site: bool
    lent: Sequence[LentPart] = ()


LentParts = Mapping[str, Sequence[LentPart]]
"""Node → the parts of it that fragments have, those included that are on their way back."""


Rooms = Mapping[str, Room]
"""Node → what is left of it; nodes that are not lent in parts are missing."""


def find_lent_parts(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    needs: Mapping[str, Needs],
    amounts: Mapping[str, Amount] = MappingProxyType({}),
    owners: Mapping[str, str] = MappingProxyType({}),
    lost_s: Callable[[Fragment], float] = lambda fragment: 0.0,
) -> LentParts:
    """What fragments have of each node; those of trainers of which nothing is known are left out.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        needs: trainer → what each of its tasks asks of a node.
        amounts: fragment → what it was asked for with, where that is more than its task asks for.
        owners: trainer → whose it is.
        lost_s: what giving a fragment back costs, in seconds of work.
    """
    lent: defaultdict[str, list[LentPart]] = defaultdict(list)
    for fragment in fragments:
        task, node = needs.get(fragment.trainer), snapshot.node.get(fragment.node)
        if task is None or node is None or fragment.state is FragmentState.LOST:
            continue
        amount = amounts.get(fragment.job) or task.amount_on(node)
        is_used = fragment.state is not FragmentState.ASKED
        started_s = inf if fragment.started_s is None else fragment.started_s
        owner = owners.get(fragment.trainer, "")
        lent[fragment.node].append(
            LentPart(
                fragment.place,
                fragment.trainer,
                amount,
                fragment.goes_on,
                is_used,
                started_s,
                owner,
                lost_s(fragment),
            )
        )
    return lent


def find_rooms(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    needs: Mapping[str, Needs],
    rules: NodeRules,
    amounts: Mapping[str, Amount] = MappingProxyType({}),
    lent: LentParts = MappingProxyType({}),
) -> Rooms | None:
    """What is left of each node of the partition; None where nodes are lent whole.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        needs: trainer → what each of its tasks asks of a node.
        rules: what the site allows.
        amounts: fragment → what it was asked for with, where that is more than its task asks for.
        lent: what fragments have of each node.
    """
    if not rules.in_parts:
        return None
    asked: defaultdict[str, list[Fragment]] = defaultdict(list)
    for fragment in fragments:
        if fragment.state is FragmentState.ASKED:
            asked[fragment.node].append(fragment)
    sites, ours = _nodes_of_the_site(snapshot, rules.queue), rules.queue.among(snapshot.partitions).nodes
    rooms = {}
    for node in snapshot.nodes:
        if node.used is None or node.name not in ours:
            continue
        free = node.total.without(in_both_forms(node.used, node.total))
        for fragment in asked[node.name]:
            amount = amounts.get(fragment.job) or needs.get(fragment.trainer, Needs()).amount_on(node)
            free = free.without(in_both_forms(amount, node.total))
        free = _without_divided(free, node.used).without(rules.keep)
        staying = tuple(part for part in lent.get(node.name, ()) if part.goes_on)
        rooms[node.name] = Room(free, node.total.without(rules.keep), node.name in sites, staying)
    return rooms


def _nodes_of_the_site(snapshot: Snapshot, ours: FragmentQueue) -> Nodes:
    """Nodes that one of the site's jobs has, or somebody whose job is not shown."""
    others = (job for job in snapshot.site_jobs(ours) if job.state.has_nodes)
    theirs = Nodes().union(*(job.nodes for job in others))
    shown = theirs.union(*(job.nodes for job in snapshot.jobs if job.state.has_nodes))
    hidden = (node.name for node in snapshot.nodes if node.state is NodeState.BUSY and node.name not in shown)
    return theirs.union(hidden)


def _without_divided(free: Amount, used: Amount) -> Amount:
    """What is free, without GPUs and their parts where some parts are used: nobody can say of which GPUs they are.

    Slurm 22.05.8 shows 1 for a job that has 100 of ``gres/mps``.
    """
    if not any(count_gres(used.gres, name) for name in GPU_PARTS):
        return free
    names = (GPU, *GPU_PARTS)
    gres = tuple((name, count) for name, count in free.gres if name.partition(":")[0] not in names)
    return Amount(free.cpus, free.memory_mb, gres)


@dataclass(frozen=True)
class PartClaims:
    """The answer.

    Attributes:
        reserved: node → how much of what is free there stays free.
        back: place that must be given back → why.
    """

    reserved: Mapping[str, Amount] = field(default_factory=dict)
    back: Mapping[str, str] = field(default_factory=dict)

    def within(self, rooms: Rooms | None) -> Rooms | None:
        """What is left of each node, without what stays free and without what is given back."""
        if rooms is None or not self.reserved:
            return rooms
        return {
            name: replace(
                room,
                free=room.free.without(in_both_forms(self.reserved[name], room.total)),
                lent=tuple(part for part in room.lent if part.place not in self.back),
            )
            if name in self.reserved
            else room
            for name, room in rooms.items()
        }


def claims_of_starting(shadow: Shadow) -> PartClaims:
    """For the jobs that would start now on parts of nodes if nothing were lent."""
    reserved: dict[str, Amount] = {}
    back: dict[str, str] = {}
    for plan in shadow.plans:
        if plan.part is None or plan.start_s > shadow.time_s:
            continue
        for name in plan.nodes:
            reserved[name] = reserved.get(name, Amount()) + plan.part
        back |= dict.fromkeys(plan.back, f"job {plan.job} could start here")
    return PartClaims(reserved, back)


def crowded_out(
    snapshot: Snapshot, fragments: Iterable[Fragment], lent: LentParts, queue: FragmentQueue
) -> list[Fragment]:
    """Fragments for which there is no room on their nodes any more, although Slurm has not started them.

    What counts is what jobs are known to have, all of them as of one instant: what Slurm says to be used of nodes
    it says a moment later, when such a fragment may have begun. A job of which nobody knows what it has counts as
    nothing, and so does what fragments have that leave.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        lent: what they have of each node, in the order in which they were asked for.
        queue: where they wait and run.
    """
    waiting = [name for name, parts in lent.items() if any(part.goes_on and not part.is_used for part in parts)]
    if not waiting:
        return []
    theirs: defaultdict[str, Amount] = defaultdict(Amount)
    for job in snapshot.jobs:
        if job.state.has_nodes and job.asks is not None and not queue.has(job):
            for name in job.nodes:
                theirs[name] = theirs[name] + job.asks
    found: set[str] = set()
    for name in waiting:
        left = snapshot.node[name].total.without(theirs[name])
        for part in sorted((part for part in lent[name] if part.goes_on), key=lambda part: not part.is_used):
            rest = left_of(left, part.amount)
            if rest is not None:
                left = rest
            elif part.is_used:
                left = left.without(part.amount)
            else:
                found.add(part.place)
    return [fragment for fragment in fragments if fragment.place in found]
