"""Places: nodes, and parts of nodes, that may be lent. Pure.

A place is what is offered, dealt, decided on and lent. Where it is all of a node it has the node's name, ``c01``.
A part that a fragment has is called ``c01#123_4``, after its job; a free one ``c01#+1``, and what is left of the
node ``c01#``. These names hold for one look.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import ConfigDict, Field

from freetrain.core import bounds

# No host name holds this character.
_MARK = "#"


# A tuple: each look hashes, compares and sorts those of thousands of places.
class Traits(NamedTuple):
    """Traits of a place, by which policies tell places apart; one that is empty or 0 says nothing.

    Attributes:
        kind: kind of the place to the trainers; places that none of them tells apart are of one kind.
        watts: electricity that it takes while it is lent, beyond what it takes idle; 0: it counts for nothing.
    """

    kind: str = ""
    watts: Annotated[float, bounds.WATTS.field] = 0.0


NO_TRAITS = Traits()
"""The traits of a place of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Place:
    """An idle node, or a part of one, that freetrain may lend, or lends already.

    Attributes:
        name: name of the place; the node's where it is all of it.
        until_s: time at which it is expected to be taken back, UTC epoch seconds; None: not within the horizon.
        holder: trainer that has it now; None: free.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    until_s: Annotated[float | None, Field(alias="free_until", allow_inf_nan=False)] = None
    holder: Annotated[str | None, Field(alias="held_by")] = None
    traits: Traits = NO_TRAITS

    @property
    def node(self) -> str:
        """The node on which it is."""
        return node_of(self.name)

    def ending(self, until_s: float | None) -> Place:
        """The same place, expected to be taken back then."""
        # Each look makes thousands of these, and dataclasses.replace takes three times as long.
        return Place(self.name, until_s, self.holder, self.traits)

    def having(self, **traits: Any) -> Place:
        """The same place with other values of these traits."""
        return Place(self.name, self.until_s, self.holder, self.traits._replace(**traits))


class Lease(NamedTuple):
    """A place that a trainer had, or has still (``until_s`` inf); there may be very many.

    Attributes:
        place: its name, as of the end.
        from_s: UTC epoch seconds, as ``until_s``.
    """

    place: str
    trainer: str
    from_s: float
    until_s: float


def node_of(place: str) -> str:
    """The node on which the place of this name is."""
    return place.partition(_MARK)[0]


def is_part(place: str) -> bool:
    """Whether a place is on a node that is lent in parts."""
    return _MARK in place


def lent_place(node: str, job: str) -> str:
    """The name of the part of a node that a fragment's job has."""
    return f"{node}{_MARK}{job}"


def room_of(node: str) -> str:
    """The name of what is left of a node."""
    return f"{node}{_MARK}"


def new_place(node: str, number: int) -> str:
    """The name of a free part of a node."""
    return f"{node}{_MARK}+{number}"


def is_new(place: str) -> bool:
    """Whether a place is what is left of a node, or a free part of it."""
    return place.partition(_MARK)[2][:1] in ("", "+") and is_part(place)
