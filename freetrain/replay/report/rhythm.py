"""When nodes are idle: by hour of the day, by day of the week, and from week to week."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

import numpy as np
from numpy.typing import NDArray

from freetrain.core.holes import SECONDS_PER_HOUR, Holes
from freetrain.replay.report.figures import Numbers, node_means
from freetrain.replay.timeline import Timeline
from freetrain.showing.words import amount, count, share

_DAY_S = 86_400.0
_WEEK_HOURS = 7 * 24
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True)
class Rhythm:
    """Idle and lent nodes on average, by hour of the day and by day of the week, as the site's clocks count.

    Attributes:
        idle_by_hour: idle nodes, lent ones included, shape (24,).
        lent_by_hour: lent nodes, shape (24,).
        idle_by_day: the same by weekday from Monday, shape (7,).
        lent_by_day: the same.
    """

    idle_by_hour: Numbers
    lent_by_hour: Numbers
    idle_by_day: Numbers
    lent_by_day: Numbers


@dataclass(frozen=True, slots=True)
class Week:
    """A whole week from Monday to Sunday: its first day, and its idle and lent node-hours."""

    begins: str
    idle_node_hours: float
    lent_node_hours: float


@dataclass(frozen=True, slots=True)
class _Hours:
    """Clock hours of the window: how long each is, its nodes, and where it lies in day and week."""

    lasts_s: Numbers
    idle: Numbers
    lent: Numbers
    hour: NDArray[np.intp]
    weekday: NDArray[np.intp]
    monday: NDArray[np.intp]


def find_rhythm(holes: Holes, timeline: Timeline, zone: tzinfo) -> Rhythm | None:
    """The rhythm; None where the window is shorter than a week."""
    if holes.duration_s < 7 * _DAY_S or not len(holes):
        return None
    hours = _hours(holes, timeline, zone)
    return Rhythm(
        _means(hours.idle, hours.lasts_s, hours.hour, 24),
        _means(hours.lent, hours.lasts_s, hours.hour, 24),
        _means(hours.idle, hours.lasts_s, hours.weekday, 7),
        _means(hours.lent, hours.lasts_s, hours.weekday, 7),
    )


def find_weeks(holes: Holes, timeline: Timeline, zone: tzinfo) -> tuple[Week, ...]:
    """The weeks that lie in the window as a whole."""
    if holes.duration_s < 7 * _DAY_S:
        return ()
    hours = _hours(holes, timeline, zone)
    weeks = []
    for monday in np.unique(hours.monday).tolist():
        within = hours.monday == monday
        # Clocks that are put forward make a week an hour shorter.
        if hours.lasts_s[within].sum() >= (_WEEK_HOURS - 1) * SECONDS_PER_HOUR:
            node_hours = [
                float((nodes * hours.lasts_s)[within].sum()) / SECONDS_PER_HOUR
                for nodes in (hours.idle, hours.lent)
            ]
            weeks.append(Week(f"{datetime.fromordinal(monday):%Y-%m-%d}", *node_hours))
    return tuple(weeks)


def about_weeks(weeks: tuple[Week, ...]) -> str:
    """How far weeks differ, in a sentence; empty for fewer than two."""
    if len(weeks) < 2:
        return ""
    low, high = (pick(weeks, key=lambda week: week.idle_node_hours) for pick in (min, max))
    lent = [week.lent_node_hours / week.idle_node_hours for week in weeks if week.idle_node_hours > 0]
    least, most = (share(min(lent)), share(max(lent))) if lent else (share(None), share(None))
    top = high.idle_node_hours
    return (
        f"Of the {count(len(weeks), 'whole week')}, that of {low.begins} had the fewest idle node-hours "
        f"({amount(low.idle_node_hours, top)}) and that of {high.begins} the most ({amount(top)}); "
        f"{least} to {most} of them were lent."
    )


def _hours(holes: Holes, timeline: Timeline, zone: tzinfo) -> _Hours:
    first = np.floor(holes.from_s / SECONDS_PER_HOUR) + 1
    last = np.ceil(holes.until_s / SECONDS_PER_HOUR)
    edges_s = np.concatenate([[holes.from_s], np.arange(first, last) * SECONDS_PER_HOUR, [holes.until_s]])
    idle, lent = node_means(holes, timeline, edges_s)
    middle = [datetime.fromtimestamp(at_s, zone) for at_s in ((edges_s[1:] + edges_s[:-1]) / 2).tolist()]
    return _Hours(
        np.diff(edges_s),
        idle,
        lent,
        np.array([at.hour for at in middle]),
        np.array([at.weekday() for at in middle]),
        np.array([(at - timedelta(days=at.weekday())).toordinal() for at in middle]),
    )


def _means(nodes: Numbers, lasts_s: Numbers, group: NDArray[np.intp], groups: int) -> Numbers:
    node_s = np.bincount(group, nodes * lasts_s, groups)
    means: Numbers = node_s / np.maximum(np.bincount(group, lasts_s, groups), 1e-9)
    return means
