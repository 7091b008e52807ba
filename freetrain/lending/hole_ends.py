"""The ends of holes: times at which nodes will be wanted, and the jobs that want them, as far as known. Pure.

Where one more end of a job may let the next in line start earlier than planned, its nodes are kept free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf
from statistics import fmean
from types import MappingProxyType

from freetrain.core.amounts import Amount, left_of
from freetrain.core.cluster import Snapshot
from freetrain.core.grouping import grouped
from freetrain.core.job import Job, JobState
from freetrain.core.node import Nodes
from freetrain.core.place import Place
from freetrain.core.trainer import Trainer
from freetrain.lending.rooms import Room, Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow


@dataclass(frozen=True, slots=True)
class HoleEnd:
    """End of a hole: the time at which a node will be wanted, and by which job or reservation.

    Attributes:
        time_s: UTC epoch seconds.
        why: a sentence without its full stop.
        beside: amount of the node that may stay lent then; None: nothing.
    """

    time_s: float
    why: str
    beside: Amount | None = None


_NEVER = HoleEnd(inf, "")

_HALVINGS = 4


def hole_ends(snapshot: Snapshot, shadow: Shadow) -> Mapping[str, HoleEnd]:
    """Node → the first reservation that begins or waiting job that starts there, in Slurm's plan or the shadow."""
    ends = {name: _end_by(plan, name) for name, plan in shadow.wanted.items()}
    for name, end in _other_ends(snapshot, shadow):
        if end.time_s < ends.get(name, _NEVER).time_s:
            ends[name] = end
    return ends


def ends_of_parts(snapshot: Snapshot, shadow: Shadow, rooms: Rooms) -> Mapping[str, HoleEnd]:
    """Lent place → the end of its hole, on nodes of which a waiting job is planned to take a part.

    Places that fit beside that job may stay; of several, those that have been lent for longest.
    """
    wanted = chain(
        (plan.beside for plan in shadow.plans), (job.planned_nodes for job in snapshot.jobs if job.asks)
    )
    shared = {name for names in wanted for name in names if name in rooms and rooms[name].lent}
    if not shared:
        return {}
    # Starts now are claims (``rooms.py``), whose nodes are given back whatever their holes.
    later = (plan for plan in shadow.plans if plan.start_s > shadow.time_s)
    planned = ((name, _end_by(plan, name)) for plan in later for name in plan.nodes if name in shared)
    others = ((name, end) for name, end in _other_ends(snapshot, shadow, rooms) if name in shared)
    ends = grouped(chain(planned, others))
    found: dict[str, HoleEnd] = {}
    for name, its in ends.items():
        its.sort(key=lambda end: end.time_s)
        left = [end.beside for end in its]
        # In the order in which they were lent: the later ones find less room beside the job, and leave.
        for part in rooms[name].lent:
            found[part.place] = _NEVER
            for number, room in enumerate(left):
                rest = room and left_of(room, part.amount)
                if rest is None:
                    found[part.place] = its[number]
                    break
                left[number] = rest
    return found


def _end_by(plan: PlannedStart, name: str) -> HoleEnd:
    return HoleEnd(plan.start_s, f"job {plan.job} is to start here", plan.beside.get(name))


def _other_ends(
    snapshot: Snapshot, shadow: Shadow, rooms: Rooms = MappingProxyType({})
) -> Iterator[tuple[str, HoleEnd]]:
    """Nodes with the start of a reservation, or of a job in Slurm's own plan.

    If the shadow plans such a job on other nodes, what it would leave of these follows from their present use.
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
    """Amount left of a node if a job started there now and nothing were lent; None: nothing, or it is unknown."""
    if room is None or job.asks is None:
        return None
    return left_of(sum((part.amount for part in room.lent), room.free), job.asks)


# By its age alone, a job that has just begun would be expected to end at once.
_YOUNG_S = 30.0


def nodes_of_next(
    offered: Iterable[Place], shadow: Shadow, snapshot: Snapshot, rules: NodeRules, rooms: Rooms | None = None
) -> Mapping[str, str]:
    """Nodes kept free, and given back where lent, for those next in line that want all of them → why."""
    plans = [plan for plan in first_in_line(shadow, snapshot).values() if plan.part is None]
    if not plans:
        return {}
    running = [job for job in snapshot.site_jobs(rules.queue) if job.state is JobState.RUNNING]
    ending = [job for job in running if _left_s(job, snapshot.time_s) < rules.next_within_s]
    if not ending:
        return {}
    names = frozenset(offer.node for offer in offered)
    clear = frozenset(name for name in names if not (rooms and name in rooms and rooms[name].used_by_site))
    jobs_on = Counter(name for job in running for name in job.nodes)
    # A node that another job stays on does not come free with this one.
    freed = [frozenset(name for name in job.nodes if jobs_on[name] == 1) for job in ending]
    kept: dict[str, str] = {}
    for plan in plans:
        missing = len(plan.nodes - clear)
        partitions = set(snapshot.job[plan.job].partition.split(",")) & snapshot.partitions.keys()
        reachable = Nodes().union(*(snapshot.partitions[name].nodes for name in partitions))
        if any(len(nodes & reachable) >= missing for nodes in freed):
            kept |= dict.fromkeys(sorted(plan.nodes & names), f"job {plan.job} is next to start here")
    return kept


def next_change_in_line_s(shadow: Shadow, snapshot: Snapshot, rules: NodeRules) -> float:
    """Next time when a running job comes near its limit, or is too old to be expected to end soon; inf: never."""
    if not shadow.plans:
        return inf
    running = [job for job in snapshot.site_jobs(rules.queue) if job.state is JobState.RUNNING]
    old_s = (job.start_s + rules.next_within_s for job in running if job.start_s is not None)
    ends_s = (job.end_s - rules.next_within_s for job in running if job.end_s is not None)
    return min((at_s for at_s in chain(old_s, ends_s) if at_s > snapshot.time_s), default=inf)


def first_in_line(shadow: Shadow, snapshot: Snapshot) -> Mapping[str, PlannedStart]:
    """Partition → the first of its jobs that cannot start yet."""
    first: dict[str, PlannedStart] = {}
    for plan in shadow.plans:
        if plan.start_s > shadow.time_s:
            for name in snapshot.job[plan.job].partition.split(","):
                first.setdefault(name, plan)
    return first


def _left_s(job: Job, now_s: float) -> float:
    """Further seconds that a job is expected to run: as many as it has run, at least 30, at most to its limit."""
    age_s = now_s - (now_s if job.start_s is None else job.start_s)
    expected_s = max(age_s, _YOUNG_S)
    return expected_s if job.end_s is None else min(expected_s, job.end_s - now_s)


def planned_ends_s(snapshot: Snapshot, shadow: Shadow) -> Mapping[str, float]:
    """Node → time at which it will be wanted, as far as is known, UTC epoch seconds."""
    return {name: end.time_s for name, end in hole_ends(snapshot, shadow).items()}


def in_few_classes(
    offered: Sequence[Place], now_s: float, horizon_s: float, trainers: Iterable[Trainer] = ()
) -> tuple[Place, ...]:
    """The nodes, where nodes that leave at about the same time have the mean of their ends.

    Every different end makes the decision harder. So all ends within the second half of the horizon become one,
    and likewise those within the second quarter, within the second eighth, and before. Nodes that would leave
    before they had booted, for the quickest or the slowest trainer, are kept apart. Ends beyond the horizon make
    no difference and are dropped. An end that is past counts as now.

    The mean keeps the worth of nodes that leave together for a trainer that has them all. Rounding down would make
    decisions refuse nodes that are worth their boot and their start.
    """
    boots_s = [trainer.boot_s for trainer in trainers if trainer.boot_s]
    bounds_s = (min(boots_s), max(boots_s)) if boots_s else ()
    nodes = Counter(node.until_s for node in offered if node.until_s is not None)
    if not nodes:
        return tuple(offered)
    groups = grouped((_group_of(end_s - now_s, horizon_s, bounds_s), end_s) for end_s in nodes)
    mean_s: dict[float | None, float | None] = {None: None}
    for (halvings, _), ends_s in groups.items():
        left_s = fmean((max(end_s - now_s, 0.0) for end_s in ends_s), [nodes[end_s] for end_s in ends_s])
        mean_s |= dict.fromkeys(ends_s, now_s + left_s if halvings else None)
    return tuple(node if node.until_s is None else node.ending(mean_s[node.until_s]) for node in offered)


def _group_of(left_s: float, horizon_s: float, boots_s: Sequence[float]) -> tuple[int, int]:
    """Number of halvings of the horizon until it is no longer than this, and number of boots that are shorter."""
    halvings = next((number for number in range(_HALVINGS) if left_s >= horizon_s / 2**number), _HALVINGS)
    return halvings, sum(boot_s < left_s for boot_s in boots_s)
