"""A node that is dealt in parts, while it is dealt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from freetrain.core.amounts import Amount, left_of

Order = tuple[int, int, float, int]
"""Whose room is used first: GPUs and CPUs that are left, how long the node stays, its number."""


class Lent(Protocol):
    """A part that a fragment has: see :class:`freetrain.lending.shadow.LentPart`."""

    @property
    def place(self) -> str:
        """What it is called."""

    @property
    def started_s(self) -> float:
        """Since when it runs; infinite: it does not yet."""


class Divided(Protocol):
    """What is left of a node: see :class:`freetrain.lending.rooms.Room`."""

    @property
    def free(self) -> Amount:
        """What may be lent of it."""

    @property
    def total(self) -> Amount:
        """What could be lent of it if nobody had any."""

    @property
    def used_by_site(self) -> bool:
        """Whether a job of the site's has part of it."""

    @property
    def lent(self) -> Sequence[Lent]:
        """The parts of it that are lent."""


@dataclass(slots=True, eq=False)
class Place:
    """A place that somebody holds, or has been given.

    Attributes:
        name: as it is called; empty: nobody holds it.
        row: whose it is.
        amount: what it takes of its node.
    """

    name: str
    row: int
    amount: Amount


@dataclass(slots=True, eq=False)
class PartNode:
    """A node.

    Attributes:
        name: its name.
        until_s: when it will be wanted; None: nobody knows.
        room: what nobody has of it.
        used_by_site: whether the site has part of it.
        held: places on it that their holders have not been given again; they give up the first ones first.
        given: places on it that somebody has been given.
    """

    name: str
    until_s: float | None
    room: Amount
    used_by_site: bool
    held: list[Place] = field(default_factory=list)
    given: list[Place] = field(default_factory=list)

    def takes(self, each: Amount | None) -> bool:
        """Whether there is room for a place; one that takes all of a node wants nobody else there."""
        if each is None:
            return not (self.used_by_site or self.held or self.given)
        return left_of(self.room, each) is not None

    def order(self, number: int) -> Order:
        """Whose room is used first: the smallest."""
        return self.room.gpus, self.room.cpus, -(self.until_s or inf), number
