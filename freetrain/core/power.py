"""Power: what nodes take while they are lent, beyond what they take idle. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from freetrain.core.aim import read_aim
from freetrain.core.cluster import Snapshot
from freetrain.core.place import Place


@dataclass(frozen=True, slots=True)
class PowerDraw:
    """Watts of the site's nodes.

    Attributes:
        usual_w: watts of a node of no kind that is named; 0: unknown.
        of_kind_w: feature, type of GPU or, in a replay, kind → of nodes with it.
    """

    usual_w: float = 0.0
    of_kind_w: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether the draw of any node is known."""
        return self.usual_w > 0 or any(self.of_kind_w.values())

    def of(self, names: Collection[str]) -> float:
        """Watts of a node that has these names; where several are known, the most."""
        return max((watts for name, watts in self.of_kind_w.items() if name in names), default=self.usual_w)


NO_DRAW = PowerDraw()
"""Draw of nodes of which nothing is known."""


def with_watts(
    nodes: Iterable[Place], snapshot: Snapshot, draw: PowerDraw, objective: str, part: float = 1.0
) -> tuple[Place, ...]:
    """The nodes, or such parts of nodes, with what each takes while it is lent, if the objective counts it."""
    if not read_aim(objective).energy or not draw.is_known:
        return tuple(nodes)
    return tuple(node.having(watts=part * _watts(node.node, snapshot, draw)) for node in nodes)


def _watts(name: str, snapshot: Snapshot, draw: PowerDraw) -> float:
    node = snapshot.node.get(name)
    return draw.usual_w if node is None else draw.of(node.features | node.gpu_types)
