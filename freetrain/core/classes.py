"""Node classes: nodes that are expected to be taken back together are interchangeable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import ConfigDict, Field


@dataclass(frozen=True, slots=True)
class Offer:
    """An idle node that freetrain may lend, or lends already.

    Attributes:
        name: Slurm's name of it.
        free_until_s: when it is expected to be taken back, UTC epoch seconds; None: not within the horizon.
        held_by: trainer that has it now; None: nobody.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    name: Annotated[str, Field(min_length=1)]
    free_until_s: Annotated[float | None, Field(alias="free_until", allow_inf_nan=False)] = None
    held_by: str | None = None


@dataclass(frozen=True)
class NodeClass:
    """Nodes that are expected to be taken back at the same time.

    Attributes:
        life_s: how long they are expected to stay, at most the horizon.
        taken_back: whether they leave before the horizon ends (and hurt whoever has them).
        names: holder (None: nobody) → names of the nodes it holds, in the problem's order.
    """

    life_s: float
    taken_back: bool
    names: Mapping[str | None, list[str]]

    @cached_property
    def count(self) -> int:
        """Number of nodes in the class."""
        return sum(map(len, self.names.values()))


def group_nodes(nodes: Iterable[Offer], now_s: float, horizon_s: float) -> tuple[NodeClass, ...]:
    """Put nodes together by the time they are expected to stay, longest first; those already due are left out."""
    groups: defaultdict[tuple[float | None, str | None], list[str]] = defaultdict(list)
    for node in nodes:
        groups[node.free_until_s, node.held_by].append(node.name)
    by_life: defaultdict[float, defaultdict[str | None, list[str]]] = defaultdict(lambda: defaultdict(list))
    for (end_s, holder), names in groups.items():
        by_life[horizon_s if end_s is None else min(end_s - now_s, horizon_s)][holder] += names
    return tuple(
        NodeClass(life_s, life_s < horizon_s, by_life[life_s])
        for life_s in sorted(by_life, reverse=True)
        if life_s > 0
    )
