"""What stays free of nodes that are lent in parts, and what is given back, for those who start there now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from freetrain.core.amounts import Amount
from freetrain.lending.rooms import Rooms
from freetrain.lending.shadow import Shadow


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
                free=room.free.without(self.reserved[name]),
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
