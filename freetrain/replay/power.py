"""What each node of a log takes while it is lent, by its kind. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from freetrain.core.holes import Holes
from freetrain.core.power import PowerDraw


def watts_of(holes: Holes, draw: PowerDraw) -> Mapping[str, float]:
    """Node → watts; empty: nobody says."""
    if not draw.is_known:
        return {}
    return {name: draw.of((holes.kind_of.get(name, ""),)) for name in holes.node_names}
