"""Tasks: how much of a node a task of each trainer takes, and how many have room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from freetrain.core.amounts import Amount, times_in
from freetrain.core.cluster import Snapshot
from freetrain.core.needs import Needs, NodeKinds, kinds_of
from freetrain.core.node import Nodes
from freetrain.core.place import Place
from freetrain.lending.facts import Request
from freetrain.lending.rooms import Rooms


@dataclass(frozen=True, slots=True)
class Task:
    """What a task takes.

    Attributes:
        each: how much of its node; None: all of it.
        worth: as how many nodes it counts.
    """

    each: Amount | None = None
    worth: float = 1.0


WHOLE = Task()


@dataclass(frozen=True)
class Tasks:
    """What the tasks of all trainers take.

    Attributes:
        rooms: what is left of each node; None: nodes are lent whole.
        of_needs: needs of tasks that are lent a part → what each takes.
        capacity: node → what is left of it, and what trainers hold that could run.
    """

    rooms: Rooms | None = None
    of_needs: Mapping[Needs, Task] = field(default_factory=dict)
    capacity: Mapping[str, Amount] = field(default_factory=dict)

    def of(self, needs: Needs) -> Task:
        """What a task with these needs takes."""
        return self.of_needs.get(needs, WHOLE)

    def places(self, needs: Needs, eligible: Nodes) -> int:
        """How many such tasks would have room on these nodes if no other trainer had any."""
        if self.rooms is None:
            return len(eligible)
        each = self.of(needs).each
        if each is None:
            return sum(name in self.rooms and not self.rooms[name].used_by_site for name in eligible)
        return sum(times_in(self.capacity[name], each) for name in eligible if name in self.capacity)


def find_tasks(
    requests: Sequence[Request], offered: Iterable[Place], rooms: Rooms | None, snapshot: Snapshot
) -> Tasks:
    """What the tasks of all trainers take."""
    if rooms is None:
        return Tasks()
    offered = tuple(offered)
    names = dict.fromkeys(offer.node for offer in offered)
    kinds = kinds_of(snapshot.node[name] for name in names if name in snapshot.node)
    tasks = {needs: _task(needs, kinds) for needs in {request.needs for request in requests} if needs.in_part}
    each_of = {request.id: tasks[request.needs].each for request in requests if request.needs in tasks}
    capacity = {name: rooms[name].free for name in names if name in rooms}
    for offer in offered:
        each, name = each_of.get(offer.holder or ""), offer.node
        if each is not None and name in capacity:
            capacity[name] = capacity[name] + each
    return Tasks(rooms, tasks, capacity)


def _task(needs: Needs, kinds: NodeKinds) -> Task:
    """What a task takes of the nodes that it can run on: the largest amount, as a part of the largest node."""
    fitting = [kind[0] for kind in kinds if needs.fits(kind[0])] or [kind[0] for kind in kinds]
    each = max((needs.amount_on(node) for node in fitting), key=lambda amount: amount.cpus, default=None)
    if each is None:
        return WHOLE
    return Task(each, min(each.part_of(node.total) for node in fitting))
