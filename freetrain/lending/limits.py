"""Limits: the time limits of fragments follow the ends of their holes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import attrgetter

from freetrain.core.cluster import Snapshot
from freetrain.core.fragment import Fragment
from freetrain.core.plan import Limit
from freetrain.lending.rules import Rules

# A longer limit gains little, and each change is one more request to Slurm.
_LONGER_BY_S = 600.0


_LIMITED: Callable[[Fragment], tuple[float | None, float]] = attrgetter("started_s", "limit_s")


def limits(
    fragments: Sequence[Fragment], hole_ends_s: Mapping[str, float], snapshot: Snapshot, rules: Rules
) -> list[Limit]:
    """Changes of time limits: places whose fragments get another limit."""
    longest_s = rules.limit_s(inf, snapshot)
    # By kind, because most fragments are alike: at most looks no limit changes, and none is looked at by itself.
    fitting_s = {
        (started_s, now_s, inf): _fitting_s(started_s, now_s, inf, longest_s, snapshot, rules)
        for started_s, now_s in set(map(_LIMITED, fragments))
    }
    is_any_end_known = min(hole_ends_s.values(), default=inf) < inf
    if not is_any_end_known and all(fits_s == now_s for (_, now_s, _), fits_s in fitting_s.items()):
        return []
    place_of = rules.nodes.place_of
    offered: list[tuple[str, Fragment]] = []
    # A job of several nodes has one time limit: the first of its holes to end counts.
    job_until_s: dict[str, float] = {}
    for fragment in fragments:
        place = place_of(fragment)
        until_s = hole_ends_s.get(place) if fragment.goes_on else None
        if until_s is None:
            continue
        offered.append((place, fragment))
        if until_s < inf:
            job_until_s[fragment.job] = min(until_s, job_until_s.get(fragment.job, inf))
    changed: defaultdict[float, list[str]] = defaultdict(list)
    for place, fragment in offered:
        key = fragment.started_s, fragment.limit_s, job_until_s.get(fragment.job, inf)
        limit_s = fitting_s.get(key)
        if limit_s is None:
            limit_s = fitting_s[key] = _fitting_s(*key, longest_s, snapshot, rules)
        if limit_s != fragment.limit_s:
            changed[limit_s].append(place)
    return [Limit(tuple(places), limit_s) for limit_s, places in changed.items()]


def _fitting_s(
    started_s: float | None, limit_s: float, hole_end_s: float, longest_s: float, snapshot: Snapshot, rules: Rules
) -> float:
    """A fragment's limit, if that will do, or a better one, in whole minutes; ``longest_s`` from now at most."""
    if started_s is None:
        # Slurm starts nothing whose limit reaches into a planned job or a reservation.
        return min(limit_s, whole_minutes_s(rules.limit_s(hole_end_s, snapshot)))
    # It runs, so nothing has to be planned any more.
    wanted_s = whole_minutes_s(min(hole_end_s, snapshot.time_s + longest_s) - started_s)
    too_short = wanted_s > limit_s + max(_LONGER_BY_S, rules.fragments.longest_s / 4)
    return wanted_s if wanted_s < limit_s or too_short else limit_s


def whole_minutes_s(seconds: float) -> float:
    """Seconds of a time limit in whole minutes, rounded down, as Slurm counts limits: one minute at least."""
    return max(60.0, seconds // 60 * 60)
