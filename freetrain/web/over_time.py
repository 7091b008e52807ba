"""Idle and lent nodes over the last day, as shapes of a picture. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil, log10

from freetrain.daemon.reports.recent_nodes import PERIOD_S, RecentNodes
from freetrain.web.window import Window

WIDTH, HEIGHT = 1000, 100
"""Of the shapes; they are stretched to the width of the page."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """Nodes over time.

    Attributes:
        idle: all idle nodes, as a path of SVG's; where nothing is known there is nothing.
        lent: those of them that were lent.
        top_nodes: how many nodes stand at the upper edge.
    """

    idle: str
    lent: str
    top_nodes: int


def draw_over_time(recent: Iterable[RecentNodes], window: Window) -> OverTime:
    """The periods that lie in the window."""
    shown = [one for one in recent if window.from_s < one.from_s + PERIOD_S and one.from_s < window.now_s]
    top = _round_up(max((one.idle_nodes for one in shown), default=1.0))

    def area(nodes: Callable[[RecentNodes], float]) -> str:
        return "".join(_boxes(shown, nodes, window, top))

    return OverTime(area(lambda one: one.idle_nodes), area(lambda one: one.lent_nodes), top)


def _boxes(
    shown: Iterable[RecentNodes], nodes: Callable[[RecentNodes], float], window: Window, top: int
) -> Iterator[str]:
    for one in shown:
        left = WIDTH * window.share(one.from_s)
        right = WIDTH * window.share(min(one.from_s + PERIOD_S, window.now_s))
        height = HEIGHT * nodes(one) / top
        if height > 0:
            yield f"M{left:.2f} {HEIGHT}V{HEIGHT - height:.2f}H{right:.2f}V{HEIGHT}z"


def _round_up(nodes: float) -> int:
    """The next number of nodes that is easy to read."""
    if nodes <= 10:
        return max(1, ceil(nodes))
    unit = 10 ** int(log10(nodes))
    return next(int(unit * step) for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if unit * step >= nodes)
