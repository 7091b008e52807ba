r"""Packing: one problem and its placement in some 1 to 2 kB.

The nodes of a run are numbered once. A problem is then two planes over these numbers: 1 + the index of the
node's ``free_until_s`` among the distinct ones (0 where the node is not in the problem), and the seat of its
holder (0: nobody; 1, 2, …: the problem's trainers in their order). Neighbours mostly share both, so the planes
are stored as runs of equal pairs. The placement is the plane of the new owners' seats, XORed with that of
the holders: zeros wherever nothing changes.

What comes back is what went in, but for the order of the nodes: by number, in the problem and within each
trainer's placement. A node that fits into no plane (its name is not among the run's, or its holder or owner
is none of the problem's trainers) is written out in the header and comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from freetrain.core.placement import Placement
from freetrain.core.problem import Offer, Problem
from freetrain.core.trainer import Trainer
from freetrain.store.frames import Array, join, narrow, run_lengths, split

TRAINER = TypeAdapter(Trainer)
"""Trainers to and from JSON."""

FindTrainers = Callable[[Sequence[int]], Sequence[Trainer]]
"""Gives the run's trainers with these numbers, in this order."""

Seats = Mapping[str | None, int]
"""Trainer of a problem → its place in it, from 1; nobody → 0."""


@dataclass(frozen=True, slots=True)
class PackedDecision:
    """What the store keeps of a problem and its placement."""

    problem: bytes
    placement: bytes


@dataclass(frozen=True, slots=True)
class Roll:
    """A problem's trainers as the run knows them.

    Attributes:
        numbers: the run's number of each, in the problem's order.
        redefined: those that are no longer what they were when the run first saw them.
    """

    numbers: Sequence[int]
    redefined: Sequence[Trainer] = ()


class Packer:
    """Packs the decisions of one run.

    Args:
        node_names: the run's nodes; their order is their numbering.
    """

    def __init__(self, node_names: Sequence[str]) -> None:
        self._numbers = {name: number for number, name in enumerate(node_names)}

    def pack(self, problem: Problem, placement: Placement, roll: Roll) -> PackedDecision:
        """Pack a problem and its placement."""
        seats = _seats(problem)
        header: dict[str, Any] = {"horizon_s": problem.horizon_s, "objective": problem.objective}
        if roll.redefined:
            header["redefined"] = [_to_json(trainer) for trainer in roll.redefined]
        try:
            ends_s, ends, held = self._problem_planes(problem.nodes, seats)
        except KeyError:
            fitting, odd = self._tell_apart(problem.nodes, seats)
            ends_s, ends, held = self._problem_planes(fitting, seats)
            header["odd_nodes"] = [[node.name, node.free_until_s, node.held_by] for node in odd]
        lengths, pairs = run_lengths(ends * len(seats) + held)
        pair_ends, pair_seats = np.divmod(pairs, len(seats))
        steps = np.diff(np.asarray(roll.numbers, dtype=np.int32), prepend=np.int32(0))
        return PackedDecision(
            join(header, (ends_s, narrow(lengths), narrow(pair_ends), narrow(pair_seats), steps)),
            self._pack_placement(placement, seats, held),
        )

    def _problem_planes(self, nodes: Sequence[Offer], seats: Seats) -> tuple[Array, Array, Array]:
        numbers = self._numbers
        where = np.array([numbers[node.name] for node in nodes], dtype=np.intp)
        # None becomes NaN, which np.unique takes for one value.
        free_until_s = np.array([node.free_until_s for node in nodes], dtype=float)
        ends_s, index = np.unique(free_until_s, return_inverse=True)
        ends, held = np.zeros((2, len(numbers)), dtype=np.int64)
        ends[where] = index + 1
        held[where] = [seats[node.held_by] for node in nodes]
        return ends_s, ends, held

    def _pack_placement(self, placement: Placement, seats: Seats, held: Array) -> bytes:
        header: dict[str, Any] = {}
        try:
            owner = self._owner_plane(placement, seats)
        except KeyError:
            header["odd_nodes"] = {
                trainer: [name for name in names if trainer not in seats or name not in self._numbers]
                for trainer, names in placement.items()
            }
            fitting = {
                trainer: tuple(name for name in names if name in self._numbers)
                for trainer, names in placement.items()
                if trainer in seats
            }
            owner = self._owner_plane(fitting, seats)
        lengths, changes = run_lengths(owner ^ held)
        return join(header, (narrow(lengths), narrow(changes)))

    def _owner_plane(self, placement: Placement, seats: Seats) -> Array:
        owner = np.zeros(len(self._numbers), dtype=np.int64)
        # One assignment for all trainers: numpy's cost per call outweighs that of their few nodes.
        where = [self._numbers[name] for name in chain.from_iterable(placement.values())]
        owner[where] = np.repeat([seats[trainer] for trainer in placement], [*map(len, placement.values())])
        return owner

    def _tell_apart(self, nodes: Sequence[Offer], seats: Seats) -> tuple[list[Offer], list[Offer]]:
        fitting: list[Offer] = []
        odd: list[Offer] = []
        for node in nodes:
            (fitting if node.name in self._numbers and node.held_by in seats else odd).append(node)
        return fitting, odd


def unpack(
    packed: PackedDecision, now_s: float, node_names: Sequence[str], find_trainers: FindTrainers
) -> tuple[Problem, Placement]:
    """The problem and the placement that were packed, nodes ordered by number."""
    header, (ends_s, lengths, pair_ends, pair_seats, steps) = split(packed.problem)
    redefined = {each.id: each for each in map(TRAINER.validate_python, header.get("redefined", ()))}
    trainers = tuple(redefined.get(trainer.id, trainer) for trainer in find_trainers(np.cumsum(steps).tolist()))
    holders = [None, *(trainer.id for trainer in trainers)]
    held = np.repeat(pair_seats, lengths)
    index = np.repeat(pair_ends, lengths)
    free_until_s = [None if np.isnan(end_s) else end_s for end_s in ends_s.tolist()]
    nodes = [
        Offer(node_names[number], free_until_s[index[number] - 1], holders[held[number]])
        for number in np.flatnonzero(index).tolist()
    ]
    nodes += [Offer(*odd) for odd in header.get("odd_nodes", ())]
    problem = Problem(now_s, tuple(nodes), trainers, header["horizon_s"], header["objective"])
    return problem, _unpack_placement(packed.placement, held, node_names, [each.id for each in trainers])


def _unpack_placement(
    frame: bytes, held: Array, node_names: Sequence[str], trainer_ids: Sequence[str]
) -> Placement:
    header, (lengths, changes) = split(frame)
    owner = np.repeat(changes, lengths) ^ held
    placement: dict[str, list[str]] = {trainer: [] for trainer in trainer_ids}
    for number in np.flatnonzero(owner).tolist():
        placement[trainer_ids[owner[number] - 1]].append(node_names[number])
    for trainer, names in header.get("odd_nodes", {}).items():
        placement.setdefault(trainer, []).extend(names)
    return {trainer: tuple(names) for trainer, names in placement.items() if names}


def _to_json(trainer: Trainer) -> object:
    return TRAINER.dump_python(trainer, mode="json", by_alias=True)


def _seats(problem: Problem) -> Seats:
    seats: dict[str | None, int] = {None: 0}
    seats.update((trainer.id, seat) for seat, trainer in enumerate(problem.trainers, start=1))
    return seats
