"""Amounts that the site's running jobs leave of each node, from moment to moment until all of them have ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from freetrain.core.amounts import Amount, left_of
from freetrain.core.node import Node


@dataclass(frozen=True, slots=True)
class Hold:
    """Amount of a node that a running job has, and its end.

    Attributes:
        end_s: end of the job, UTC epoch seconds; inf: unknown.
        part: amount that it has; None: all of the node.
    """

    end_s: float
    part: Amount | None


Step = tuple[float, Amount]
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
    def steps(self) -> Sequence[tuple[Amount, *tuple[Step, ...]]]:
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


def steps_of(node: Node, holds: Sequence[Hold], now_s: float) -> list[Step]:
    """Amounts that are left of a node now and after each end, until all of it is."""
    room, steps = node.total, list[Step]()
    later_s = inf
    for hold in sorted(holds, key=lambda hold: hold.end_s, reverse=True):
        if hold.end_s < later_s:
            steps.append((hold.end_s, room))
            later_s = hold.end_s
        room = Amount() if hold.part is None else left_of(room, hold.part) or room.without(hold.part)
    return [(now_s, room), *reversed(steps)]
