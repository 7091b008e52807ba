"""The figures with and without the hours in which nearly the whole machine was idle."""

from __future__ import annotations

from dataclasses import dataclass

from freetrain.core.holes import SECONDS_PER_HOUR
from freetrain.replay.course import ReplayRecord
from freetrain.replay.full_hours import without_empty_hours
from freetrain.replay.logs.model import EmptyHours
from freetrain.showing.words import amount, large, share


@dataclass(frozen=True, slots=True)
class WithAndWithout:
    """One figure, of all hours and of those that are left."""

    name: str
    all_hours: str
    full_hours: str


def with_and_without(record: ReplayRecord, empty: EmptyHours | None) -> tuple[WithAndWithout, ...]:
    """The figures; nothing where there are no such hours, or they were left out of the replay."""
    if empty is None or empty.left_out:
        return ()
    rest = without_empty_hours(record.timeline, empty, record.holes.until_s)
    idle_h = record.holes.idle_node_hours
    trained_h = sum(run.node_s for run in record.runs) / SECONDS_PER_HOUR
    hours = record.holes.duration_s / SECONDS_PER_HOUR
    samples = sum(run.samples for run in record.runs)
    return (
        WithAndWithout("hours", amount(hours), amount(hours - empty.hours, hours)),
        WithAndWithout("idle node-hours", amount(idle_h), amount(rest.idle_node_hours, idle_h)),
        WithAndWithout("of them with trainings", amount(trained_h, idle_h), amount(rest.lent_node_hours, idle_h)),
        WithAndWithout(
            "their share", _share(trained_h, idle_h), _share(rest.lent_node_hours, rest.idle_node_hours)
        ),
        WithAndWithout("samples", large(samples), large(rest.samples)),
    )


def _share(part: float, whole: float) -> str:
    return share(part / whole if whole > 0 else None)
