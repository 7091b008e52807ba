"""Rooms: the amounts that are left of each node, where nodes are lent in parts. Pure.

Slurm says what its jobs, fragments among them, use of a node. It does not count a fragment that was asked for and
has not started yet, so that is subtracted here. What the site's jobs would start on now stays free, and a fragment
whose part they took before it started is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from freetrain.core.amounts import GPU, GPU_PARTS, Amount, count_gres, in_both_forms
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.grouping import grouped
from freetrain.lending.facts import Facts
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import LentPart, Shadow


@dataclass(frozen=True, slots=True)
class Room:
    """Amount left of a node, and the parts of it that are lent.

    Attributes:
        free: amount that may be lent of it; what the site keeps back is not included.
        total: amount that could be lent of it if nothing of it were in use.
        used_by_site: whether one of the site's jobs has part of it, so that it cannot be lent as a whole.
        lent: the parts of it that are lent.
    """

    free: Amount
    total: Amount
    used_by_site: bool
    lent: Sequence[LentPart] = ()


LentParts = Mapping[str, Sequence[LentPart]]
"""Node → the parts of it that fragments have, those included that are on their way back."""


Rooms = Mapping[str, Room]
"""Node → its room; nodes that are not lent in parts are missing."""


def find_lent_parts(facts: Facts) -> LentParts:
    """Node → the parts of it that fragments have; lost fragments and those of unknown trainers are left out."""
    lent: defaultdict[str, list[LentPart]] = defaultdict(list)
    for fragment in facts.fragments:
        request, node = facts.request.get(fragment.trainer), facts.snapshot.node.get(fragment.node)
        if request is None or node is None or fragment.state is FragmentState.LOST:
            continue
        lent[fragment.node].append(
            LentPart(
                fragment.place,
                fragment.trainer,
                facts.amount_of(fragment, node),
                goes_on=fragment.goes_on,
                is_used=fragment.state is not FragmentState.ASKED,
                started_s=inf if fragment.started_s is None else fragment.started_s,
                owner=request.owner,
                lost_s=facts.lost_s(fragment),
            )
        )
    return lent


def find_rooms(facts: Facts, rules: NodeRules) -> tuple[Rooms | None, LentParts]:
    """Room of each node of the partition, and the parts that fragments have of it; None: nodes are lent whole."""
    if not rules.in_parts:
        return None, {}
    lent = find_lent_parts(facts)
    snapshot = facts.snapshot
    ours = rules.queue.among(snapshot.partitions).nodes
    sites = snapshot.site_nodes(rules.queue) | snapshot.hidden
    # Slurm does not count these as used yet.
    waiting = (fragment for fragment in facts.fragments if fragment.state is FragmentState.ASKED)
    asked = grouped((fragment.node, fragment) for fragment in waiting)
    rooms = {}
    for node in snapshot.nodes:
        if node.used is None or node.name not in ours:
            continue
        free = node.total.without(in_both_forms(node.used, node.total))
        for fragment in asked[node.name]:
            free = free.without(in_both_forms(facts.amount_of(fragment, node), node.total))
        free = _without_divided(free, node.used).without(rules.keep)
        staying = tuple(part for part in lent.get(node.name, ()) if part.goes_on)
        rooms[node.name] = Room(free, node.total.without(rules.keep), node.name in sites, staying)
    return rooms, lent


def _without_divided(free: Amount, used: Amount) -> Amount:
    """Free amount; no GPUs and no parts of GPUs if some parts are used: it is unknown of which GPUs they are."""
    # Slurm 22.05.8 shows 1 for a job that has 100 of ``gres/mps``, so how much is used is unknown, too.
    if not any(count_gres(used.gres, name) for name in GPU_PARTS):
        return free
    names = (GPU, *GPU_PARTS)
    gres = tuple((name, count) for name, count in free.gres if name.partition(":")[0] not in names)
    return Amount(free.cpus, free.memory_mb, gres)


def without_claims(rooms: Rooms | None, shadow: Shadow) -> tuple[Rooms | None, Mapping[str, str]]:
    """Room of each node beside the site's jobs that would start now on parts of it if nothing were lent.

    The second value is: place that must be given back for them → why.
    """
    plans = [plan for plan in shadow.plans if plan.part is not None and plan.start_s <= shadow.time_s]
    back = {place: f"job {plan.job} could start here" for plan in plans for place in plan.back}
    if rooms is None:
        return None, back
    reserved: defaultdict[str, Amount] = defaultdict(Amount)
    for plan in plans:
        for name in plan.nodes & rooms.keys():
            reserved[name] = reserved[name] + (plan.part or Amount())
    found = dict(rooms)
    for name, taken in reserved.items():
        free = rooms[name].free.without(in_both_forms(taken, rooms[name].total))
        lent = tuple(part for part in rooms[name].lent if part.place not in back)
        found[name] = replace(rooms[name], free=free, lent=lent)
    return found, back


def crowded_out(facts: Facts, lent: LentParts, queue: FragmentQueue) -> list[Fragment]:
    """Fragments that Slurm has not started and for which their nodes have no room any more.

    It is judged by what jobs are known to have, all as of one instant: what Slurm counts as used on nodes is read
    a moment later, when such a fragment may have started. Jobs of unknown size and fragments that leave count as
    nothing.
    """
    snapshot = facts.snapshot
    waiting = [name for name, parts in lent.items() if any(part.goes_on and not part.is_used for part in parts)]
    if not waiting:
        return []
    theirs: defaultdict[str, Amount] = defaultdict(Amount)
    for job in snapshot.site_jobs(queue):
        if job.state.has_nodes and job.asks is not None:
            for name in job.nodes:
                theirs[name] = theirs[name] + job.asks
    found: set[str] = set()
    for name in waiting:
        left = snapshot.node[name].total.without(theirs[name])
        # Running ones have their parts already; the others, in the order in which they were asked for, get the
        # rest.
        for part in sorted((part for part in lent[name] if part.goes_on), key=lambda part: not part.is_used):
            if part.is_used or part.amount.fits(left):
                # Slurm has given a running one its part, whatever these sums come to.
                left = left.without(part.amount)
            else:
                found.add(part.place)
    return [fragment for fragment in facts.fragments if fragment.place in found]
