"""Which of the site's waiting jobs would start now on parts of nodes if nothing were lent.

The shadow schedule knows whole nodes. A job that asks for a part of a node is looked at here: in Slurm's order, a
job that fits now beside the site's running jobs is given as much as it asks for, first where that is free, else
where the fewest places must be given back. Nobody plans here for later: a job that does not fit blocks none behind
it, so that rather too much is kept free than too little, for as long as a job is believed to start (``claim_s``).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from freetrain.core.amounts import Amount, left_of
from freetrain.core.cluster import Job, Node, Nodes, Snapshot
from freetrain.core.fragment import Fragment, FragmentState
from freetrain.core.needs import Needs, meets_constraint
from freetrain.lending.rooms import Rooms
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import PlannedStart, Shadow
from freetrain.lending.shadow.machine import partitions_of
from freetrain.lending.shadow.starts import in_slurms_order

_MOST_TASKS = 20
"""So many tasks of one array are given room at once."""

_Lent = tuple[Fragment, Amount]
"""A place, and what is free when it is given back."""


@dataclass(frozen=True)
class PartClaims:
    """The answer.

    Attributes:
        shadow: with those jobs that start now on parts of nodes.
        reserved: node → how much of what is free there stays free for them.
        back: place that must be given back for them → the job.
    """

    shadow: Shadow
    reserved: Mapping[str, Amount] = field(default_factory=dict)
    back: Mapping[str, str] = field(default_factory=dict)

    def within(self, rooms: Rooms | None) -> Rooms | None:
        """What is left of each node, without what stays free."""
        if rooms is None or not self.reserved:
            return rooms
        return {
            name: replace(room, free=room.free.without(self.reserved[name])) if name in self.reserved else room
            for name, room in rooms.items()
        }


def find_part_claims(
    snapshot: Snapshot,
    fragments: Iterable[Fragment],
    needs: Mapping[str, Needs],
    shadow: Shadow,
    rules: NodeRules,
    disbelieved: frozenset[str],
) -> PartClaims:
    """What stays free, and what is given back.

    Args:
        snapshot: what there is.
        fragments: those that have not ended.
        needs: trainer → what each of its tasks asks of a node.
        shadow: what the jobs would do that ask for whole nodes.
        rules: what the site allows.
        disbelieved: jobs that did not start although there was room for them; they get none.
    """
    queue = in_slurms_order(snapshot, rules.queue)[: rules.backfill.most_jobs] if rules.in_parts else []
    if not any(job.asks for job in queue):
        return PartClaims(shadow)
    ground = _Ground(snapshot, fragments, needs, shadow)
    starting = {plan.job for plan in shadow.plans if plan.start_s <= shadow.time_s}
    plans: list[PlannedStart] = []
    fitting: set[str] = set()
    blocked: set[str] = set()
    for job in queue:
        partitions = set(job.partition.split(","))
        found = list(ground.starts_of(job, job.id not in disbelieved)) if job.asks is not None else []
        fitting |= {job.id} if found else set()
        if job.id in disbelieved:
            continue
        plans += [replace(plan, by_backfill=partitions <= blocked) for plan in found]
        if not found and job.id not in starting:
            blocked |= partitions
    whole = replace(shadow, plans=(*shadow.plans, *plans), fitting=shadow.fitting | fitting)
    return PartClaims(whole, ground.reserved, ground.back)


class _Ground:
    """All nodes, with what is free of them and what is lent."""

    def __init__(
        self, snapshot: Snapshot, fragments: Iterable[Fragment], needs: Mapping[str, Needs], shadow: Shadow
    ) -> None:
        self._snapshot = snapshot
        self._time_s = shadow.time_s
        usable = [one for one in snapshot.nodes if one.starts_jobs and one.used is not None]
        self._nodes = {one.name: one for one in usable if one.name not in shadow.kept}
        self._free = {name: one.total.without(one.used or Amount()) for name, one in self._nodes.items()}
        self._lent: defaultdict[str, list[_Lent]] = defaultdict(list)
        for one in fragments:
            if one.node in self._nodes and one.trainer in needs:
                self._note(one, needs[one.trainer].amount_on(self._nodes[one.node]))
        self._sizes = Counter(one.trainer for lent in self._lent.values() for one, _ in lent)
        self._possible: dict[tuple[str, str, Nodes], Sequence[Node]] = {}
        self._hopeless: set[tuple[str, str, Nodes, Amount]] = set()
        self.reserved: dict[str, Amount] = {}
        self.back: dict[str, str] = {}

    def _note(self, one: Fragment, amount: Amount) -> None:
        """What is on its way back is free, and what was asked for is taken, whatever Slurm says now."""
        if one.goes_on:
            self._lent[one.node].append((one, amount))
        if one.state is FragmentState.ASKED:
            self._free[one.node] = self._free[one.node].without(amount)
        elif one.state in (FragmentState.LEAVING, FragmentState.ENDING):
            self._free[one.node] = self._free[one.node] + amount

    def starts_of(self, job: Job, is_believed: bool) -> Iterator[PlannedStart]:
        """The job's start now, or those of an array's tasks; of one that is not believed nothing is kept."""
        assert job.asks is not None
        kind = (job.partition, job.features, job.required_nodes)
        for _ in range(min(job.tasks, _MOST_TASKS)):
            if (*kind, job.asks) in self._hopeless and job.node_count == 1:
                return
            chosen = self._choose(job, job.asks, self._possible_for(kind, job))
            if len(chosen) < job.node_count:
                self._hopeless |= {(*kind, job.asks)} if job.node_count == 1 else set()
                return
            clear = frozenset(name for name, back in chosen.items() if not back)
            yield PlannedStart(job.id, self._time_s, frozenset(chosen), clear=clear, in_part=True)
            if not is_believed:
                return
            for name, back in chosen.items():
                self._keep(name, job, job.asks, back)

    def _possible_for(self, kind: tuple[str, str, Nodes], job: Job) -> Sequence[Node]:
        """Nodes that the job could run on: in its partitions, with its features, and not reserved by somebody."""
        if kind not in self._possible:
            reachable = Nodes().union(*(one.nodes for one in partitions_of(job, self._snapshot)))
            until_s = self._time_s + min(job.limit_s, 365 * 86400.0)
            soon = (one for one in self._snapshot.reservations if one.start_s < until_s)
            taken = Nodes().union(*(one.nodes for one in soon if one.end_s > self._time_s))
            names = (job.required_nodes or reachable) & reachable - taken
            self._possible[kind] = [
                node
                for name, node in self._nodes.items()
                if name in names and meets_constraint(job.features, node.features) is not False
            ]
        return self._possible[kind]

    def _choose(self, job: Job, asks: Amount, nodes: Sequence[Node]) -> dict[str, list[_Lent]]:
        """As many nodes as it wants → what must be given back there; first those on which Slurm has planned it."""
        found: dict[str, list[_Lent]] = {}
        ordered = nodes
        if job.planned_nodes:
            ordered = sorted(nodes, key=lambda node: node.name not in job.planned_nodes)
        for node in ordered:
            if len(found) == job.node_count:
                return found
            if left_of(self._free[node.name], asks) is not None:
                found[node.name] = []
        others = [
            (len(back), node.name, back)
            for node in ordered
            if node.name not in found and (back := self._to_give_back(node.name, asks))
        ]
        for _, name, back in sorted(others, key=lambda one: one[:2])[: job.node_count - len(found)]:
            found[name] = back
        return found

    def _to_give_back(self, name: str, asks: Amount) -> list[_Lent]:
        """The places on a node that make room; none if all do not. Of equals those of the largest trainer go."""
        free, lent = self._free[name], self._lent.get(name, [])
        for one in sorted(lent, key=lambda one: (one[1].gpus, one[1].cpus, -self._sizes[one[0].trainer])):
            if left_of(free + one[1], asks) is not None:
                return [one]
        back: list[_Lent] = []
        for one in sorted(lent, key=lambda one: (-one[1].gpus, -one[1].cpus, -self._sizes[one[0].trainer])):
            free, back = free + one[1], [*back, one]
            if left_of(free, asks) is not None:
                return back
        return []

    def _keep(self, name: str, job: Job, asks: Amount, back: Sequence[_Lent]) -> None:
        free = self._free[name]
        for one, amount in back:
            free = free + amount
            self._lent[name].remove((one, amount))
            self._sizes[one.trainer] -= 1
            self.back[one.place] = job.id
        self._free[name] = left_of(free, asks) or Amount()
        self.reserved[name] = self.reserved.get(name, Amount()) + asks
