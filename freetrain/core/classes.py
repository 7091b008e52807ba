"""Node classes: nodes of one kind that are expected to be taken back together are interchangeable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Annotated, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from freetrain.core import bounds

"""More than any node takes."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An idle node that freetrain may lend, or lends already.

    Attributes:
        name: Slurm's name of it.
        free_until_s: when it is expected to be taken back, UTC epoch seconds; None: not within the horizon.
        held_by: trainer that has it now; None: nobody.
        kind: what it is to the trainers; nodes that none of them tells apart are of one kind.
        watts: electricity that it takes while it is lent, beyond what it takes idle; 0: it counts for nothing.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    free_until_s: Annotated[float | None, Field(alias="free_until", allow_inf_nan=False)] = None
    held_by: str | None = None
    kind: str = ""
    watts: Annotated[float, bounds.WATTS.field] = 0.0


class AlikeNodes(Sequence[Offer]):
    """Nodes that nobody tells apart and of which no end is known, put together by who has them.

    Args:
        names: holder (None: nobody) → names of the nodes it holds.
    """

    def __init__(self, names: Mapping[str | None, Sequence[str]]) -> None:
        self.names = names

    def __len__(self) -> int:
        return sum(map(len, self.names.values()))

    def __iter__(self) -> Iterator[Offer]:
        return (Offer(name, held_by=holder) for holder, names in self.names.items() for name in names)

    @overload
    def __getitem__(self, at: int) -> Offer: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[Offer, ...]: ...

    def __getitem__(self, at: int | slice) -> Offer | tuple[Offer, ...]:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AlikeNodes | tuple) and tuple(self) == tuple(other)


def holders_of(nodes: Sequence[Offer]) -> set[str | None]:
    """Who has any of these nodes; None: nobody has some."""
    return set(nodes.names) if isinstance(nodes, AlikeNodes) else set(map(_HOLDER, nodes))


@dataclass(frozen=True)
class NodeClass:
    """Nodes of one kind that are expected to be taken back at the same time, and take as much electricity.

    Attributes:
        life_s: how long they are expected to stay, at most the horizon.
        taken_back: whether they leave before the horizon ends (and hurt whoever has them).
        names: holder (None: nobody) → names of the nodes it holds, in the problem's order.
        kind: theirs.
        watts: of each while it is lent.
    """

    life_s: float
    taken_back: bool
    names: Mapping[str | None, Sequence[str]]
    kind: str = ""
    watts: float = 0.0

    @cached_property
    def count(self) -> int:
        """Number of nodes in the class."""
        return sum(map(len, self.names.values()))


_HOLDER = attrgetter("held_by")
_GROUP = attrgetter("free_until_s", "kind", "watts", "held_by")


def group_nodes(nodes: Sequence[Offer], now_s: float, horizon_s: float) -> tuple[NodeClass, ...]:
    """Put nodes of one kind together by the time they are expected to stay, longest first, then by kind and watts.

    Those already due are left out.
    """
    if isinstance(nodes, AlikeNodes):
        return (NodeClass(horizon_s, False, nodes.names),) if nodes else ()
    groups: defaultdict[tuple[float | None, str, float, str | None], list[str]] = defaultdict(list)
    for node in nodes:
        groups[_GROUP(node)].append(node.name)
    classes: defaultdict[tuple[float, str, float], defaultdict[str | None, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for (end_s, kind, watts, holder), names in groups.items():
        life_s = horizon_s if end_s is None else min(end_s - now_s, horizon_s)
        classes[-life_s, kind, watts][holder] += names
    return tuple(
        NodeClass(-minus_s, -minus_s < horizon_s, classes[minus_s, kind, watts], kind, watts)
        for minus_s, kind, watts in sorted(classes)
        if minus_s < 0
    )


def first_of_life(classes: Sequence[NodeClass]) -> NDArray[np.int64]:
    """For each class the position of the first one that lives as long, shape (classes,)."""
    lives_s = np.array([node_class.life_s for node_class in classes])
    return np.searchsorted(-lives_s, -lives_s).astype(np.int64)
