"""The machine without fragments: where a job could run, when running jobs end, and what they leave of each node.

What they leave of a node is known from moment to moment, until all of them have ended.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import inf
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from freetrain.core.amounts import Amount, left_of
from freetrain.core.cluster import Snapshot
from freetrain.core.job import Job, JobState
from freetrain.core.needs import meets_constraint
from freetrain.core.node import Node, Partition
from freetrain.lending.shadow.free_capacity import FreeCapacity, LentPart
from freetrain.lending.shadow.node_sets import NodeSet, closest, node_sets

# Slurm's backfill takes a job without a time limit to run for a year (``YEAR_MINUTES``).
_UNLIMITED_S = 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Hold:
    """Amount of a node that a running job has, and its end.

    Attributes:
        end_s: end of the job, UTC epoch seconds; inf: unknown.
        part: amount that it has; None: all of the node.
    """

    end_s: float
    part: Amount | None


RoomStep = tuple[float, Amount]
"""Moment, UTC epoch seconds, and the amount of a node that is left from then on."""


class RoomsAhead:
    """Amounts that running jobs leave of all nodes, from each moment on at which more is left."""

    def __init__(self, nodes: Sequence[Node], holds: Mapping[str, Sequence[Hold]], now_s: float) -> None:
        self._nodes = nodes
        self._steps = [steps_of(node, holds.get(node.name, ()), now_s) for node in nodes]
        # Different rooms by number: on most machines thousands of moments have a few kinds of them.
        self._rooms: dict[Amount, int] = {}
        self._numbers = [
            [(from_s, self._rooms.setdefault(room, len(self._rooms))) for from_s, room in steps]
            for steps in self._steps
        ]

    @property
    def steps(self) -> Sequence[tuple[Amount, *tuple[RoomStep, ...]]]:
        """Per node: the amount that is left now, and the later moments with the amounts left from then on."""
        return [(first[1], *later) for first, *later in self._steps]

    def from_s(self, part: Amount) -> NDArray[np.float64]:
        """Moment from which on each node has room for the part, shape (nodes,); inf: never, as far as is known."""
        fits = [left_of(room, part) is not None for room in self._rooms]
        return np.array([next((from_s for from_s, room in rooms if fits[room]), inf) for rooms in self._numbers])

    def left_at(self, number: int, moment_s: float, part: Amount, begun: Sequence[Hold]) -> Amount | None:
        """Amount left of a node, by number, at a moment beside a part and jobs that start now; None: no room."""
        node = self._nodes[number]
        room: Amount | None = [room for from_s, room in self._steps[number] if from_s <= moment_s][-1]
        for taken in (*(hold.part for hold in begun if hold.end_s > moment_s), part):
            room = None if room is None or taken is None else left_of(room, node.in_whole_cores(taken))
        return room

    def first_s(self, number: int, part: Amount, begun: Sequence[Hold]) -> float:
        """Moment from which on one node has room for a part, beside further jobs that start now; inf: never."""
        moments_s = {from_s for from_s, _ in self._steps[number]} | {hold.end_s for hold in begun}
        fitting_s = (moment_s for moment_s in sorted(moments_s) if self.left_at(number, moment_s, part, begun))
        return next(fitting_s, inf)


def steps_of(node: Node, holds: Sequence[Hold], now_s: float) -> list[RoomStep]:
    """Amounts that are left of a node now and after each end, until all of it is."""
    room, steps = node.total, list[RoomStep]()
    later_s = inf
    for hold in sorted(holds, key=lambda hold: hold.end_s, reverse=True):
        if hold.end_s < later_s:
            steps.append((hold.end_s, room))
            later_s = hold.end_s
        room = Amount() if hold.part is None else left_of(room, hold.part) or room.without(hold.part)
    return [(now_s, room), *reversed(steps)]


Want = tuple[str, str, Amount | None]
"""Conditions of a job on where it may run: its partitions, its features, the least that it wants of a node."""


class Reach(NamedTuple):
    """The nodes on which a job may ever run, and the longest time limit there."""

    nodes: NodeSet
    limit_s: float


class Machine:
    """All nodes, as the site's jobs would find them if nothing were lent.

    ``fragments`` are jobs that do not exist here; ``lent`` are nodes that fragments keep, and their trainers.

    Attributes:
        in_parts: whether any job has, or wants, only a part of a node.
        reaches: want that was asked about → nodes where such jobs may run, and the longest time limit there.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        fragments: frozenset[str],
        lent: Mapping[str, str],
        parts: Mapping[str, Sequence[LentPart]] | None = None,
    ) -> None:
        self._snapshot = snapshot
        self._parts = parts or {}
        self.in_parts = any(job.asks is not None for job in snapshot.jobs)
        self.sets = node_sets(tuple([node.name for node in snapshot.nodes]))
        self.reaches: dict[Want, Reach] = {}
        self._usable = self.sets.of(node.name for node in snapshot.nodes if node.starts_jobs)
        self._running = [
            job
            for job in snapshot.jobs
            if job.state.has_nodes and job.id not in fragments and job.state is not JobState.COMPLETING
        ]
        # Their ends are unknown.
        self._hidden = snapshot.hidden.difference(lent)
        completing = [job for job in snapshot.jobs if job.state is JobState.COMPLETING]
        self._leaving = self.sets.of(name for job in completing if job.id not in fragments for name in job.nodes)
        given_back = self.sets.of(name for job in completing if job.id in fragments for name in job.nodes)
        self._lent, self._holder = self.sets.of(lent), lent
        self._given_back = given_back & ~self._lent

    def limit_s(self, job: Job) -> float:
        """The time limit of a job, bounded by its partition's."""
        return min(job.limit_s, self._reach((job.partition, job.features, job.least)).limit_s)

    def possible(self, job: Job) -> NodeSet:
        """Nodes that a job could ever run on: of its partitions and features, large enough, named by it."""
        known = self._reach((job.partition, job.features, job.least)).nodes
        return known & self.sets.of(job.required_nodes) if job.required_nodes else known

    def _reach(self, want: Want) -> Reach:
        if want not in self.reaches:
            partition, features, least = want
            partitions = partitions_of(partition, self._snapshot)
            nodes = self._usable & reduce(or_, [self.sets.of(partition.nodes) for partition in partitions], 0)
            nodes &= self._meeting(features) if features else nodes
            nodes &= self._large_enough(least) if least else nodes
            limit_s = min([_UNLIMITED_S, *(partition.max_time_s for partition in partitions)])
            self.reaches[want] = Reach(nodes, limit_s)
        return self.reaches[want]

    def has_reaches(self, reaches: Mapping[Want, Reach]) -> bool:
        """Whether jobs with these wants may run on the same nodes here, for as long."""
        return all(self._reach(want) == reach for want, reach in reaches.items())

    def _meeting(self, features: str) -> NodeSet:
        """Nodes that meet a constraint; all nodes if it is not understood, so that too many are kept free."""
        nodes = self._snapshot.nodes
        return self.sets.of(node.name for node in nodes if meets_constraint(features, node.features) is not False)

    def _large_enough(self, least: Amount) -> NodeSet:
        return self.sets.of(node.name for node in self._snapshot.nodes if least.fits(node.total))

    @cached_property
    def ends_s(self) -> Sequence[float]:
        """Now, and the ends of running jobs, in order."""
        ends_s = {self._end_s(job) for job in self._running}
        return [self._snapshot.time_s, *sorted(ends_s - {inf})]

    @cached_property
    def availability(self) -> tuple[object, ...]:
        """Key of all that searches know of the nodes, without the time: if it is equal, they find the same."""
        # Without the first end below, which is the time of the look itself.
        room = self.ahead.steps if self.in_parts else ()
        return self.sets.names_in_order, self._whole_from, self.ends_s[1:], room, self._snapshot.reservations

    def releases(self, part: Amount | None, moments_s: Iterable[float]) -> list[NodeSet]:
        """The nodes with room for a part at each moment, among which are all ends; part None: the free nodes."""
        free, later = self._whole_from if part is None else self._room_from(part)
        sets = []
        for moment_s in moments_s:
            free |= later.get(moment_s, 0)
            sets.append(free)
        return sets

    @cached_property
    def ahead(self) -> RoomsAhead:
        """Amounts that running jobs leave of each node, from moment to moment."""
        return RoomsAhead(self._snapshot.nodes, self._holds(), self._snapshot.time_s)

    @cached_property
    def free_capacity(self) -> FreeCapacity:
        """Free and lent amounts of each node in reality."""
        return FreeCapacity(self._snapshot.nodes, self._parts)

    def choose(self, nodes: NodeSet, count: int, job: Job) -> NodeSet:
        """``count`` of the nodes: those on which Slurm has planned the job, or those close to each other."""
        planned = self.sets.of(job.planned_nodes)
        if planned.bit_count() == count and planned & nodes == planned:
            return planned
        return closest(nodes, count)

    def choose_now(self, nodes: NodeSet, count: int, job: Job) -> NodeSet:
        """``count`` of the nodes: free ones, then lent ones, then those that a job of the site is leaving.

        Of the lent ones, those that are being given back come first, so that no more are given back for a job
        while it waits for them; then those on which Slurm has planned the job, then those of the trainer that has
        most.
        """
        ours = nodes & self._lent
        chosen = closest(nodes & ~ours & ~self._leaving & ~self._given_back, count)
        chosen |= closest(nodes & self._given_back, count - chosen.bit_count())
        chosen |= closest(ours & self.sets.of(job.planned_nodes), count - chosen.bit_count())
        chosen |= self._from_largest(ours & ~chosen, count - chosen.bit_count())
        return chosen | closest(nodes & self._leaving, count - chosen.bit_count())

    def _from_largest(self, nodes: NodeSet, count: int) -> NodeSet:
        # Trainers with most nodes lose least by one, so they shrink in turn rather than one of them to nothing.
        held: dict[str, list[str]] = {}
        for name in sorted(self.sets.in_order(nodes)) if count else ():
            held.setdefault(self._holder[name], []).append(name)
        return self.sets.of([max(held.values(), key=len).pop() for _ in range(min(count, nodes.bit_count()))])

    def choose_parts_now(self, nodes: NodeSet, job: Job, part: Amount) -> Mapping[str, Sequence[LentPart]]:
        """Node on a part of which the job starts now → the lent parts that are given back there for it.

        Nodes with enough room come first, then those on which lent parts make room: of these the ones on which
        Slurm has planned the job, else those that Slurm itself would choose, since it may preempt there before
        anything is given back elsewhere. Nodes that a job of the site is leaving come last.
        """
        chosen = closest(nodes & self.sets.of(self.free_capacity.with_room(part)), job.node_count)
        if chosen.bit_count() < job.node_count:
            others = self.sets.in_order(nodes & ~chosen)
            lent = self.sets.of(name for name in others if self.free_capacity.makes_room(name, part))
            for usable in (lent & self.sets.of(job.planned_nodes), lent, nodes):
                chosen |= closest(usable & ~chosen, job.node_count - chosen.bit_count())
        return {name: self.free_capacity.take(name, part) for name in self.sets.in_order(chosen)}

    def _end_s(self, job: Job) -> float:
        # Slurm enforces time limits up to half a minute late: a job beyond its limit may end any second.
        return inf if job.end_s is None else max(job.end_s, self._snapshot.time_s + 1.0)

    @cached_property
    def _whole_from(self) -> tuple[NodeSet, Mapping[float, NodeSet]]:
        """The nodes that are free now, and moment → the nodes that are free from then on."""
        until_s: defaultdict[float, NodeSet] = defaultdict(int)
        for job in self._running:
            until_s[self._end_s(job)] |= self.sets.of(job.nodes)
        used = self.sets.of(self._hidden)
        later: dict[float, NodeSet] = {}
        # The last end on a node counts, so ends are gone through backwards.
        for end_s in sorted(until_s, reverse=True):
            later[end_s] = until_s[end_s] & ~used
            used |= later[end_s]
        return self.sets.all & ~used, later

    def _room_from(self, part: Amount) -> tuple[NodeSet, Mapping[float, NodeSet]]:
        """The nodes with room for a part now, and moment → the nodes that have it from then on."""
        from_s = self.ahead.from_s(part)
        is_now = from_s <= self._snapshot.time_s
        later: defaultdict[float, NodeSet] = defaultdict(int)
        for number in np.flatnonzero(~is_now & (from_s < inf)).tolist():
            later[float(from_s[number])] |= 1 << number
        return self.sets.of_flags(is_now), later

    def _holds(self) -> Mapping[str, Sequence[Hold]]:
        """Node → the holds of running jobs on it.

        A job of unknown size has all that is used and that no other job is known to have, or all of the node.
        """
        node = self._snapshot.node
        holds: defaultdict[str, list[Hold]] = defaultdict(list)
        unclear_until_s = dict.fromkeys(self._hidden, inf)
        for job in self._running:
            end_s = self._end_s(job)
            for name in job.nodes & node.keys():
                if job.asks is None:
                    unclear_until_s[name] = max(end_s, unclear_until_s.get(name, 0.0))
                else:
                    holds[name].append(Hold(end_s, node[name].in_whole_cores(job.asks)))
        for name, end_s in unclear_until_s.items():
            holds[name].append(Hold(end_s, self._rest(name, holds[name])))
        return holds

    def _rest(self, name: str, known: Iterable[Hold]) -> Amount | None:
        """Amount used of a node beyond these jobs and fragments; None: Slurm was not asked what is used."""
        rest = self._snapshot.node[name].used
        if rest is None:
            return None
        parts = [hold.part for hold in known if hold.part is not None]
        for part in (*parts, *(part.amount for part in self._parts.get(name, ()) if part.is_used)):
            rest = rest.without(part)
        return rest


def partitions_of(names: str, snapshot: Snapshot) -> list[Partition]:
    """The partitions of a comma-separated list in which jobs may run now."""
    listed = (snapshot.partitions.get(name) for name in names.split(","))
    return [partition for partition in listed if partition is not None and partition.is_up]
