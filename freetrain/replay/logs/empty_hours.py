"""Hours in which nearly the whole machine was idle: the site's jobs were probably not let on it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes, sorted_holes
from freetrain.replay.logs.busy import BusyTimes
from freetrain.replay.logs.model import EmptyHours
from freetrain.replay.logs.times import iso

_NEARLY_ALL = 0.95
_MOST_NAMED = 3
_MUCH = 0.05


def find_empty_hours(machine: Holes, holes: Holes) -> EmptyHours | None:
    """The clock hours in which at least 95 % of the machine was idle; None if they hold no idle time.

    Args:
        machine: the holes of all nodes.
        holes: those of the nodes that are looked at, whose idle time is counted.
    """
    edges_s = _clock_hours(machine.from_s, machine.until_s)
    empty = np.diff(_idle_until(machine, edges_s)) >= _NEARLY_ALL * len(machine.node_names) * np.diff(edges_s)
    begins = np.flatnonzero(empty & ~np.append(False, empty[:-1]))
    ends = np.flatnonzero(empty & ~np.append(empty[1:], False)) + 1
    # At the window's ends stand parts of hours, which say little.
    lasting = edges_s[ends] - edges_s[begins] >= SECONDS_PER_HOUR
    begins, ends = begins[lasting], ends[lasting]
    until_edge_s = _idle_until(holes, edges_s)
    idle_s = float((until_edge_s[ends] - until_edge_s[begins]).sum())
    if not idle_s > 0:
        return None
    return EmptyHours(edges_s[begins], edges_s[ends], idle_s / SECONDS_PER_HOUR, holes.idle_node_hours)


def without_hours(holes: Holes, hours: EmptyHours) -> Holes:
    """The holes with these hours cut out of them; the window stays."""
    begin_s = np.append(holes.from_s, hours.until_s)
    end_s = np.append(hours.from_s, holes.until_s)
    pieces = [
        (holes.node[within], holes.start_s[within].clip(begin), holes.end_s[within].clip(None, end))
        for begin, end in zip(begin_s.tolist(), end_s.tolist(), strict=True)
        if end > begin
        for within in (np.flatnonzero((holes.end_s > begin) & (holes.start_s < end)),)
    ]
    node, start_s, end_s = (np.concatenate(column) for column in zip(*pieces, strict=True)) if pieces else (
        holes.node[:0], holes.start_s[:0], holes.end_s[:0],
    )  # fmt: skip
    return sorted_holes(holes.node_names, node, start_s, end_s, holes.from_s, holes.until_s)


def closed_in_hours(busy: BusyTimes, hours: EmptyHours) -> BusyTimes:
    """The busy times, and behind them these hours on every node, as if it were out of service then."""
    nodes, times = len(busy.node_names), len(hours.from_s)
    everywhere = np.tile(np.arange(nodes, dtype=np.int32), times)
    return busy.and_also(everywhere, np.repeat(hours.from_s, nodes), np.repeat(hours.until_s, nodes))


def left_out(hours: EmptyHours) -> EmptyHours:
    """The same, no longer among the holes."""
    return replace(hours, left_out=True)


def about_empty_hours(hours: EmptyHours) -> str:
    """What they mean, in a sentence or two."""
    spans = [
        f"{iso(begin)} to {iso(end)}"
        for begin, end in zip(hours.from_s[:_MOST_NAMED], hours.until_s[:_MOST_NAMED], strict=True)
    ]
    more = f" and {len(hours.from_s) - _MOST_NAMED:,} times more" if len(hours.from_s) > _MOST_NAMED else ""
    rest = hours.all_idle_node_hours - hours.idle_node_hours
    what = (
        f"At least 95 % of the machine was idle for {hours.hours:,.1f} hours ({'; '.join(spans)}{more}), as in "
        f"maintenance: {hours.idle_node_hours:,.0f} node-hours, {100 * hours.share:.0f} % of all idle time."
    )
    if hours.left_out:
        return f"{what} They are left out; with them, {hours.all_idle_node_hours:,.0f} node-hours are idle."
    return f"{what} Without them {rest:,.0f} are left; --skip-empty-hours leaves them out."


def matter(hours: EmptyHours) -> bool:
    """Whether the figures would be others without them."""
    return hours.share >= _MUCH and not hours.left_out


def _clock_hours(from_s: float, until_s: float) -> NDArray[np.float64]:
    """The window's ends and all full hours in between."""
    first = np.floor(from_s / SECONDS_PER_HOUR) + 1
    last = np.ceil(until_s / SECONDS_PER_HOUR)
    return np.concatenate([[from_s], np.arange(first, last) * SECONDS_PER_HOUR, [until_s]])


def _idle_until(holes: Holes, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Idle node-seconds from the window's start to each instant."""

    def since(ascending_s: NDArray[np.float64]) -> NDArray[np.float64]:
        moments_s = ascending_s - holes.from_s
        sums = np.append(0.0, np.cumsum(moments_s))
        count = np.searchsorted(moments_s, at_s - holes.from_s)
        passed: NDArray[np.float64] = count * (at_s - holes.from_s) - sums[count]
        return passed

    idle_s: NDArray[np.float64] = since(holes.start_s) - since(np.sort(holes.end_s))
    return idle_s
