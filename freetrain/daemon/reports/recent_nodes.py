"""How many nodes were idle and lent lately, in periods of five minutes, as the daemon publishes it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

PERIOD_S = 300.0
KEPT_S = 86_400.0


@dataclass(frozen=True, slots=True)
class RecentNodes:
    """Nodes on average over the looks of a period; there is none for a period without a look.

    Attributes:
        from_s: its start, UTC epoch seconds, a multiple of ``PERIOD_S``.
        looks: how many fell into it.
        idle_nodes: that the site's own jobs did not use, lent ones included.
        lent_nodes: that were lent.
    """

    from_s: float
    looks: int
    idle_nodes: float
    lent_nodes: float


def with_look(
    recent: Iterable[RecentNodes], time_s: float, idle_nodes: int, lent_nodes: int
) -> tuple[RecentNodes, ...]:
    """The periods of the last day, oldest first, once a look has shown so many nodes."""
    from_s = time_s - time_s % PERIOD_S
    new = RecentNodes(from_s, 1, idle_nodes, lent_nodes)
    kept = [sample for sample in recent if time_s - KEPT_S < sample.from_s <= from_s]
    if kept and kept[-1].from_s == from_s:
        new = _mean(kept.pop(), new)
    return (*kept, new)


def _mean(before: RecentNodes, new: RecentNodes) -> RecentNodes:
    looks = before.looks + new.looks

    def mean(one: float, other: float) -> float:
        return round((one * before.looks + other * new.looks) / looks, 2)

    return RecentNodes(
        before.from_s,
        looks,
        mean(before.idle_nodes, new.idle_nodes),
        mean(before.lent_nodes, new.lent_nodes),
    )
