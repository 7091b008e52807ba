"""What each node of a log takes while it is lent, by its kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from freetrain.core.fragment import node_of
from freetrain.core.holes import Holes
from freetrain.core.power import PowerDraw


def watts_of(holes: Holes, draw: PowerDraw) -> Mapping[str, float]:
    """Node → watts; empty: nobody says. The places of a node take equal parts of what it takes."""
    if not draw.is_known:
        return {}
    places = Counter(map(node_of, holes.node_names)) if holes.in_parts else Counter[str]()
    return {
        name: draw.of((holes.kind_of.get(name, ""),)) / max(places[node_of(name)], 1) for name in holes.node_names
    }
