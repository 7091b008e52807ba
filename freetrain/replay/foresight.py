"""Foresight of a replay: what the policy knows of the time to come, and how good that was.

Known are ends of holes, and plans of the site's waiting jobs. Forecasts of idle nodes are compared with what the
log shows of these nodes later.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np

from freetrain.core.fragment_queue import FragmentQueue
from freetrain.core.holes import Holes
from freetrain.lending.facts import Facts
from freetrain.lending.hole_ends import planned_ends_s
from freetrain.lending.judge import shadow_of
from freetrain.lending.planned_stays import PlannedStays, Score
from freetrain.lending.rules import NodeRules
from freetrain.lending.shadow import NO_SHADOW
from freetrain.lending.sightings import Sightings
from freetrain.lending.stays import Stays
from freetrain.replay.as_daemon.site import LoggedSite
from freetrain.replay.logs import LoggedJobs

# Nothing is lent by these rules: they only name freetrain's partition.
_RULES = NodeRules(FragmentQueue("freetrain"))
_EVERY_S = 600.0
"""Seconds between two comparisons of the forecasts for all idle nodes."""
AHEAD_S = (300.0, 1200.0, 3600.0)
"""Seconds ahead for which the probability is compared that a node is still idle."""
_BANDS = 10
"""Number of equal bands into which probabilities are put."""
FARTHEST_S = (300.0, 1200.0, 3600.0, 14400.0, inf)
"""Upper limits in seconds of the groups of forecasts of the time that is left."""


class Knowledge(StrEnum):
    """Levels of knowledge of the ends of holes."""

    NONE = "none"
    """Only the average time that holes have lasted."""
    LEARNED = "learned"
    """Expected stays of nodes that are idle now, as nodes of their ages stayed in the log so far."""
    PLAN = "plan"
    """LEARNED, and planned starts of jobs that wait, by the limits of those that run, as far as such
    plans have been better than knowing nothing: all that can be known."""
    PERFECT = "perfect"
    """Each end within the horizon, as nobody can know: the most that a forecast can bring."""


@dataclass(frozen=True, slots=True)
class Foresight:
    """Horizon of a decision, and its knowledge of the ends of holes within it.

    Attributes:
        horizon_s: seconds ahead for which value is counted; 0: as long as idle nodes are expected to stay.
    """

    horizon_s: float = 0.0
    knows: Knowledge = Knowledge.LEARNED


class SitePlans:
    """The site's jobs as a replay goes: their limits are known, an end never is before it comes.

    Attributes:
        site: the site's jobs; it is brought up to date from outside.
    """

    def __init__(self, holes: Holes, logged: LoggedJobs) -> None:
        self.site = LoggedSite(holes, logged, _RULES.partition)
        self._seen = Sightings()
        self._shadow = NO_SHADOW

    def look(self, now_s: float) -> Mapping[str, float]:
        """Node → when Slurm would start a waiting job there, but for those that had nodes for long and did not."""
        snapshot = self.site.snapshot(now_s)
        shadow = self._shadow = shadow_of(Facts(snapshot), _RULES, self._seen, before=self._shadow)
        self._seen = self._seen.with_fitting(shadow)
        return {**planned_ends_s(snapshot, shadow), **dict.fromkeys(shadow.kept, now_s)}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Forecasts of about the same probability.

    Attributes:
        ahead_s: seconds after which a node is still idle, by these forecasts.
        expected: mean of the forecast probabilities.
        came: share of the nodes that were still idle.
    """

    ahead_s: float
    forecasts: int
    expected: float
    came: float


@dataclass(frozen=True, slots=True)
class ForecastError:
    """Forecasts of the time that is left which were about as long.

    Attributes:
        up_to_s: the longest of them; None: there is no limit.
        expected_s: mean of the forecasts.
        came_s: seconds that these nodes really stayed, on average.
        off_s: mean error of a forecast, whichever way.
    """

    up_to_s: float | None
    forecasts: int
    expected_s: float
    came_s: float
    off_s: float


@dataclass(frozen=True, slots=True)
class ForecastScore:
    """Score of the forecasts: how well they agree with what came.

    Attributes:
        calibration: calibration of what was learned, by how far ahead, then by probability.
        learned: errors of the times that were expected from what was learned, the shortest first.
        planned: errors of the times at which the site's jobs were planned to take the nodes.
        plans: scores of plans as they went, and so whether they were believed at last; the soonest first.
    """

    calibration: tuple[Calibration, ...] = ()
    learned: tuple[ForecastError, ...] = ()
    planned: tuple[ForecastError, ...] = ()
    plans: tuple[Score, ...] = ()


@dataclass(slots=True)
class _Sums:
    forecasts: int = 0
    forecast: float = 0.0
    came: float = 0.0
    off: float = 0.0

    def add(self, forecast: float, came: Sequence[float]) -> None:
        self.forecasts += len(came)
        for outcome in came:
            self.forecast += forecast
            self.came += outcome
            self.off += abs(forecast - outcome)

    @property
    def means(self) -> tuple[int, float, float, float]:
        """Number of forecasts, their mean, the mean of what came, and their mean error."""
        of = self.forecasts
        return of, self.forecast / of, self.came / of, self.off / of


_Errors = defaultdict[int, _Sums]
"""Forecasts of the time that is left, by the position of their length in ``FARTHEST_S``."""


def _add_error(errors: _Errors, forecast_s: float, came_s: Sequence[float]) -> None:
    if came_s:
        errors[bisect_right(FARTHEST_S[:-1], forecast_s)].add(forecast_s, came_s)


def _mean_errors(errors: _Errors) -> tuple[ForecastError, ...]:
    limits_s = (*FARTHEST_S[:-1], None)
    return tuple(ForecastError(limits_s[at], *sums.means) for at, sums in sorted(errors.items()))


class ForecastLog:
    """Compares forecasts with the log as a replay goes; nobody but the final score learns what the log says.

    Nobody knows how long a hole lasted that reaches the end of the window: only what happens before is compared.
    """

    def __init__(self, holes: Holes) -> None:
        self._from_s, self._until_s = holes.from_s, holes.until_s
        self._next_s = holes.from_s
        # All nodes' holes are laid one behind the other, each as long as the window and a second.
        self._row_s = holes.duration_s + 1.0
        begins_s = holes.node * self._row_s + (holes.start_s - holes.from_s)
        order = np.argsort(begins_s)
        self._begins_s, self._node, self._end_s = begins_s[order], holes.node[order], holes.end_s[order]
        self._number_of = {name: number for number, name in enumerate(holes.node_names)}
        self._calibration: defaultdict[tuple[float, int], _Sums] = defaultdict(_Sums)
        self._learned, self._planned = _Errors(_Sums), _Errors(_Sums)
        self._plans = PlannedStays()

    def note(
        self,
        now_s: float,
        stays: Stays,
        planned_s: Iterable[tuple[str, float]] = (),
        plans: PlannedStays = PlannedStays(),  # noqa: B008  # frozen
    ) -> None:
        """Compare what was learned, and when jobs are planned to take nodes, with the log, if it is time again."""
        self._plans = plans
        if now_s < self._next_s:
            return
        self._next_s = now_s + _EVERY_S
        of_group: defaultdict[float, list[float]] = defaultdict(list)
        ends_s = self._ends_s(now_s, stays.since_s)
        for since_s, end_s in zip(stays.since_s.values(), ends_s, strict=True):
            if end_s > now_s:
                of_group[since_s].append(end_s)
        for since_s, group_s in of_group.items():
            self._note_group(now_s, now_s - since_s, stays, group_s)
        planned = dict(planned_s)
        for start_s, end_s in zip(planned.values(), self._ends_s(now_s, planned), strict=True):
            # A hole that reaches the end of the window was cut there: how long it lasted is not known.
            if now_s < end_s < self._until_s:
                _add_error(self._planned, start_s - now_s, [end_s - now_s])

    def _ends_s(self, now_s: float, names: Iterable[str]) -> list[float]:
        """Time at which each of these nodes is taken; not after now where the log does not say that it is idle."""
        nodes = np.array([self._number_of.get(name, -1) for name in names], dtype=np.int64)
        if not len(self._node):
            return [-inf] * len(nodes)
        at = np.searchsorted(self._begins_s, nodes * self._row_s + (now_s - self._from_s), side="right") - 1
        ends_s: list[float] = np.where(self._node[at] == nodes, self._end_s[at], -inf).tolist()
        return ends_s

    def score(self) -> ForecastScore:
        """Score of all forecasts so far."""
        calibration = tuple(
            Calibration(ahead_s, *sums.means[:3]) for (ahead_s, _), sums in sorted(self._calibration.items())
        )
        learned, planned = _mean_errors(self._learned), _mean_errors(self._planned)
        return ForecastScore(calibration, learned, planned, self._plans.scores)

    def _note_group(self, now_s: float, age_s: float, stays: Stays, ends_s: Sequence[float]) -> None:
        remaining_s = stays.remaining_s(age_s)
        _add_error(self._learned, remaining_s, [end_s - now_s for end_s in ends_s if end_s < self._until_s])
        for ahead_s in AHEAD_S:
            if (then_s := now_s + ahead_s) < self._until_s:
                probability = stays.stays(age_s, ahead_s)
                band = min(int(probability * _BANDS), _BANDS - 1)
                self._calibration[ahead_s, band].add(probability, [float(end_s > then_s) for end_s in ends_s])
