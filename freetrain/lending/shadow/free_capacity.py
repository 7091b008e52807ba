"""Free and lent amounts of each node in reality, and the parts given back for jobs that start on parts of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf

from freetrain.core.amounts import Amount, in_both_forms, left_of
from freetrain.core.node import Node


@dataclass(frozen=True, slots=True)
class LentPart:
    """A part of a node that a fragment has.

    Attributes:
        place: its name, see :func:`freetrain.core.place.node_of`.
        goes_on: whether it has not been ended.
        is_used: whether it runs, so that Slurm counts what it has as used.
        started_s: time since which it runs, UTC epoch seconds; infinite: it does not yet.
        owner: owner of its trainer; empty: unknown.
        lost_s: seconds of work that giving it back costs.
    """

    place: str
    trainer: str
    amount: Amount
    goes_on: bool = True
    is_used: bool = True
    started_s: float = inf
    owner: str = ""
    lost_s: float = 0.0


# What is lost is known only roughly: smaller differences do not count.
_ALIKE_S = 10.0


class FreeCapacity:
    """All nodes, with the parts of them that fragments have; what has been taken is not free any more."""

    def __init__(self, nodes: Iterable[Node], lent: Mapping[str, Sequence[LentPart]]) -> None:
        # Of nodes that are not lent in parts nobody asks Slurm how much is used.
        self._node = {node.name: node for node in nodes if node.used is not None}
        self._free = {
            name: node.total.without(in_both_forms(node.used or Amount(), node.total))
            for name, node in self._node.items()
        }
        self._lent: defaultdict[str, list[LentPart]] = defaultdict(list)
        # How many nodes owners have, and how many parts trainers have.
        self._nodes_of: defaultdict[str, float] = defaultdict(float)
        self._parts_of = Counter[str]()
        for name in lent.keys() & self._node.keys():
            for lent_part in lent[name]:
                amount = in_both_forms(lent_part.amount, self._node[name].total)
                self._note(name, replace(lent_part, amount=amount))
        self._with_room: dict[Amount, set[str]] = {}

    def _note(self, name: str, lent_part: LentPart) -> None:
        # What is on its way back is free, and what was asked for is taken, whatever Slurm says now.
        if lent_part.goes_on:
            self._lent[name].append(lent_part)
            self._count(name, lent_part, 1)
        if lent_part.goes_on and not lent_part.is_used:
            self._free[name] = self._free[name].without(lent_part.amount)
        elif lent_part.is_used and not lent_part.goes_on:
            self._free[name] = self._free[name] + lent_part.amount

    def _count(self, name: str, part: LentPart, number: int) -> None:
        self._nodes_of[part.owner] += number * part.amount.part_of(self._node[name].total)
        self._parts_of[part.trainer] += number

    def with_room(self, part: Amount) -> Set[str]:
        """Nodes of which so much is free."""
        if part not in self._with_room:
            self._with_room[part] = {name for name in self._node if self._has_room(name, part)}
        return self._with_room[part]

    def makes_room(self, name: str, part: Amount) -> bool:
        """Whether there is room for a part if all that is lent of the node is given back."""
        if name not in self._node:
            return False
        free = sum((lent_part.amount for lent_part in self._lent.get(name, ())), self._free[name])
        return left_of(free, self._rounded(name, part)) is not None

    def take(self, name: str, part: Amount) -> Sequence[LentPart]:
        """Take a part of a node, and return the lent parts that are given back there for it."""
        if name not in self._node:
            return ()
        back = () if self._has_room(name, part) else self._to_give_back(name, part)
        for lent_part in back:
            self._free[name] = self._free[name] + lent_part.amount
            self._lent[name].remove(lent_part)
            self._count(name, lent_part, -1)
        taken = in_both_forms(self._rounded(name, part), self._node[name].total)
        self._free[name] = self._free[name].without(taken)
        for wanted, nodes in self._with_room.items():
            # What was given back may be more than what is taken, so a node may also come to have room.
            nodes.discard(name)
            nodes.update([name] if self._has_room(name, wanted) else ())
        return back

    def _has_room(self, name: str, part: Amount) -> bool:
        return left_of(self._free[name], self._rounded(name, part)) is not None

    def _rounded(self, name: str, part: Amount) -> Amount:
        return self._node[name].in_whole_cores(part)

    def _to_give_back(self, name: str, part: Amount) -> Sequence[LentPart]:
        """The lent parts of a node that make room for a part; none if all do not.

        One that is large enough is given back rather than several. Of equals

        1. those that lose least are, an elastic training before a task that begins again, in steps of some
           seconds;
        2. of these, parts of the owner that has most, so that nothing has to change hands between owners
           afterwards;
        3. of these those of their largest trainer;
        4. of these the youngest.
        """
        free, wanted = self._free[name], self._rounded(name, part)
        equals = sorted(self._lent.get(name, ()), key=self._order)
        for lent_part in sorted(equals, key=lambda lent_part: (lent_part.amount.gpus, lent_part.amount.cpus)):
            if left_of(free + lent_part.amount, wanted) is not None:
                return (lent_part,)
        back: list[LentPart] = []
        for lent_part in sorted(equals, key=lambda lent_part: (-lent_part.amount.gpus, -lent_part.amount.cpus)):
            free = free + lent_part.amount
            back.append(lent_part)
            if left_of(free, wanted) is not None:
                return back
        return ()

    def _order(self, part: LentPart) -> tuple[float, ...]:
        # Rounded: sums of the same shares differ in their last digits by the order in which they were added.
        owners = round(self._nodes_of[part.owner], 6)
        return part.lost_s // _ALIKE_S, -owners, -self._parts_of[part.trainer], -part.started_s
