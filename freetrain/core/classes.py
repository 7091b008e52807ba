"""Node classes: nodes that are expected to be taken back together are interchangeable."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import ConfigDict, Field


@dataclass(frozen=True, slots=True)
class Node:
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


def group_nodes(nodes: Iterable[Node], now_s: float, horizon_s: float) -> tuple[NodeClass, ...]:
    """Put nodes together by the time they are expected to stay, longest first; those already due are left out."""
    by_end: defaultdict[float | None, defaultdict[str | None, list[str]]]
    by_end = defaultdict(lambda: defaultdict(list))
    for node in nodes:
        end_s = node.free_until_s
        by_end[None if end_s is None or end_s >= now_s + horizon_s else end_s][node.held_by].append(node.name)
    beyond_horizon = by_end.pop(None, None)
    classes = [NodeClass(horizon_s, False, beyond_horizon)] if beyond_horizon else []
    for end_s in sorted((end_s for end_s in by_end if end_s is not None and end_s > now_s), reverse=True):
        classes.append(NodeClass(end_s - now_s, True, by_end[end_s]))
    return tuple(classes)
