"""The ends of holes: when each node will be wanted, and by whom, as far as anybody knows. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from math import inf
from types import MappingProxyType

from freetrain.core.amounts import Amount, left_of
from freetrain.core.cluster import Job, JobState, Snapshot
from freetrain.core.problem import Offer
from freetrain.core.trainer import Trainer
from freetrain.lending.rooms import Room, Rooms
from freetrain.lending.shadow import PlannedStart, Shadow


@dataclass(frozen=True, slots=True)
class HoleEnd:
    """When a node will be wanted, and by whom.

    Attributes:
        time_s: UTC epoch seconds.
        why: as a sentence without its end.
        beside: how much of the node may stay lent then; None: nothing.
    """

    time_s: float
    why: str
    beside: Amount | None = None


_NEVER = HoleEnd(inf, "")

cached_offer = lru_cache(maxsize=65536)(Offer)
"""Offers are the same from look to look, but for a few."""

_HALVINGS = 4
"""So often the horizon is halved for the classes of nodes whose ends are known."""


def hole_ends(snapshot: Snapshot, shadow: Shadow) -> Mapping[str, HoleEnd]:
    """Node → when a reservation begins or a waiting job starts there first, in Slurm's plan or in the shadow."""
    ends = {name: _end_by(plan, name) for name, plan in shadow.wanted.items()}
    for name, end in _other_ends(snapshot, shadow):
        if end.time_s < ends.get(name, _NEVER).time_s:
            ends[name] = end
    return ends


def ends_of_parts(snapshot: Snapshot, shadow: Shadow, rooms: Rooms) -> Mapping[str, HoleEnd]:
    """Lent place → the end of its hole, on nodes of which a waiting job is to start on a part.

    What fits beside that job may stay, and those that have been lent for longest do.
    """
    wanted = chain(
        (plan.beside for plan in shadow.plans), (job.planned_nodes for job in snapshot.jobs if job.asks)
    )
    shared = {name for names in wanted for name in names if name in rooms and rooms[name].lent}
    if not shared:
        return {}
    later = (plan for plan in shadow.plans if plan.start_s > shadow.time_s)
    planned = ((name, _end_by(plan, name)) for plan in later for name in plan.nodes if name in shared)
    ends: defaultdict[str, list[HoleEnd]] = defaultdict(list)
    for name, end in chain(planned, _other_ends(snapshot, shadow, rooms)):
        if name in shared:
            ends[name].append(end)
    found: dict[str, HoleEnd] = {}
    for name, its in ends.items():
        its.sort(key=lambda end: end.time_s)
        left = [end.beside for end in its]
        for one in rooms[name].lent:
            found[one.place] = _NEVER
            for number, room in enumerate(left):
                rest = room and left_of(room, one.amount)
                if rest is None:
                    found[one.place] = its[number]
                    break
                left[number] = rest
    return found


def _end_by(plan: PlannedStart, name: str) -> HoleEnd:
    """The end that somebody who starts later makes of the hole of one of his nodes."""
    return HoleEnd(plan.start_s, f"job {plan.job} is to start here", plan.beside.get(name))


def _other_ends(
    snapshot: Snapshot, shadow: Shadow, rooms: Rooms = MappingProxyType({})
) -> Iterator[tuple[str, HoleEnd]]:
    """Nodes, with when a reservation of them begins, or a job starts there in Slurm's own plan.

    Where the shadow has such a job elsewhere, what it leaves is told by what the site's jobs leave now.
    """
    beside = {(plan.job, name): left for plan in shadow.plans for name, left in plan.beside.items()}
    for reservation in snapshot.reservations:
        if reservation.end_s > snapshot.time_s:
            end = HoleEnd(reservation.start_s, f"reservation {reservation.name}")
            yield from ((name, end) for name in reservation.nodes)
    for job in snapshot.jobs:
        if job.state is JobState.PENDING and job.start_s is not None and job.planned_nodes:
            why = f"job {job.id} is to start here"
            for name in job.planned_nodes:
                yield (
                    name,
                    HoleEnd(job.start_s, why, beside.get((job.id, name)) or _beside_now(job, rooms.get(name))),
                )


def _beside_now(job: Job, room: Room | None) -> Amount | None:
    """What would be left of a node if a job started there now and nothing were lent; None: it could not."""
    if room is None or job.asks is None:
        return None
    return left_of(sum((one.amount for one in room.lent), room.free), job.asks)


def planned_ends_s(snapshot: Snapshot, shadow: Shadow) -> Mapping[str, float]:
    """Node → when it will be wanted, as far as anybody knows, UTC epoch seconds."""
    return {name: end.time_s for name, end in hole_ends(snapshot, shadow).items()}


def in_few_classes(
    offered: Sequence[Offer], now_s: float, horizon_s: float, trainers: Iterable[Trainer] = ()
) -> tuple[Offer, ...]:
    """The nodes, the time until their ends rounded down to 1/2, 1/4, 1/8 or 1/16 of the horizon.

    Each different end makes the decision harder; ends beyond the horizon make no difference to it, and what comes
    sooner than 1/16 counts as that, but for nodes that would be gone before they had booted: for the quickest of
    the trainers, or for the slowest.
    """
    boots_s = {one.boot_s for one in trainers if one.boot_s}
    bounds_s = (min(boots_s), max(boots_s)) if boots_s else ()
    ends_s = {node.free_until_s for node in offered if node.free_until_s is not None}
    coarse_s = {end_s: _coarse_s(end_s, now_s, horizon_s, bounds_s) for end_s in ends_s}
    return tuple(
        node
        if node.free_until_s is None
        else cached_offer(node.name, coarse_s[node.free_until_s], node.held_by, node.kind)
        for node in offered
    )


def _coarse_s(end_s: float, now_s: float, horizon_s: float, boots_s: Sequence[float]) -> float | None:
    """One end, rounded; None: it lies beyond the horizon."""
    left_s = end_s - now_s
    halvings = next((number for number in range(_HALVINGS) if left_s >= horizon_s / 2**number), _HALVINGS)
    if halvings == 0:
        return None
    rounded_s: float = horizon_s / 2**halvings
    too_long_s = [boot_s for boot_s in boots_s if left_s <= boot_s < rounded_s]
    if too_long_s:  # between it and the next shorter one, so that nobody's boot ends with it
        rounded_s = (min(too_long_s) + max((each for each in boots_s if each < left_s), default=0.0)) / 2
    return now_s + rounded_s
