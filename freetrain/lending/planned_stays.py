"""Planned stays: scores of the site's job plans as forecasts of when nodes are taken, and ends that are believed.

Plans rest on time limits, and jobs end before theirs; where Slurm would not start what the shadow starts, a plan
may never come true. So each plan is a forecast, which is scored when its node is taken: by how much its end was
off, beside what is counted with where no end is known, a stay for the whole horizon. Forecasts that are about as
far from now, in parts of the horizon, are scored together. Those that were farther off than knowing nothing are
left out; of the others the end is put where nodes with such plans were taken on the whole. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from dataclasses import astuple, dataclass, field, replace

from freetrain.lending.stays import HALF_LIFE_S

PARTS_OF_HORIZON = (0.0, 0.25, 0.5, 1.0)
"""Parts of the horizon up to which forecasts are scored together; a job that would start now has the first."""
# Slurm plans in steps of a minute: a job that is to start now does so by then, or not yet.
SOON_S = 60.0
# With a smaller number of forecasts a score is chance: until then plans are believed as they are.
_FEWEST = 20.0


@dataclass(frozen=True, slots=True)
class Score:
    """Forecasts that are scored together, those of a day ago counting half.

    Attributes:
        came_s: sum of the actual stays, none counted beyond its horizon.
        off_s: sum of the differences between planned and actual stays.
        off_without_s: sum of the differences between the actual stays and their horizons.
        soon: number of the nodes that were taken within ``SOON_S``.
    """

    forecasts: float = 0.0
    planned_s: float = 0.0
    came_s: float = 0.0
    off_s: float = 0.0
    off_without_s: float = 0.0
    soon: float = 0.0

    @property
    def is_believed(self) -> bool:
        """Whether these forecasts are better than knowing nothing, as far as that is known."""
        return self.forecasts < _FEWEST or self.off_s < self.off_without_s

    def believes(self, planned_s: float) -> bool:
        """Whether a forecast of this stay is believed; of 0 s only if enough are scored: the node stays unused."""
        return self.is_believed and (planned_s > 0 or self.forecasts >= _FEWEST)

    def believed_s(self, planned_s: float) -> float:
        """Seconds that a node is expected to stay if a stay of ``planned_s`` is planned."""
        if self.forecasts < _FEWEST:
            return planned_s
        return planned_s * self.came_s / self.planned_s if self.planned_s else self.came_s / self.forecasts

    def faded(self, by: float) -> Score:
        """The score some time later."""
        return Score(*(by * total for total in astuple(self)))

    def with_forecast(self, forecast: OpenForecast, stayed_s: float) -> Score:
        """The score with one more forecast, whose outcome is known."""
        came_s = min(stayed_s, forecast.horizon_s)
        return Score(
            self.forecasts + 1.0,
            self.planned_s + forecast.planned_s,
            self.came_s + came_s,
            self.off_s + abs(forecast.planned_s - came_s),
            self.off_without_s + forecast.horizon_s - came_s,
            self.soon + float(stayed_s <= SOON_S),
        )


@dataclass(frozen=True, slots=True)
class OpenForecast:
    """A plan whose outcome is not known yet.

    Attributes:
        made_s: time at which it was made, UTC epoch seconds.
        planned_s: seconds that the node would stay by it, less than the horizon.
        horizon_s: the horizon then.
    """

    made_s: float
    planned_s: float
    horizon_s: float

    @property
    def band(self) -> int:
        """Index of the score in which it counts."""
        return bisect_left(PARTS_OF_HORIZON, self.planned_s / self.horizon_s)


@dataclass(frozen=True, slots=True)
class PlannedStays:
    """The scores of plans so far, and the plans that are not scored yet, one of each node.

    Attributes:
        scores: scores of forecasts, grouped by how far from now the planned end was.
        open: idle node → the forecast.
        seen_s: the last instant that is known, UTC epoch seconds; None: there was none.
    """

    scores: tuple[Score, ...] = (Score(),) * len(PARTS_OF_HORIZON)
    open: Mapping[str, OpenForecast] = field(default_factory=dict)
    seen_s: float | None = None

    def after(
        self, now_s: float, idle: Collection[str], planned_s: Mapping[str, float], horizon_s: float
    ) -> PlannedStays:
        """The planned stays after an instant.

        ``idle`` has the nodes that no job of the site's has, lent ones included.
        """
        if not planned_s and not self.open:
            return replace(self, seen_s=now_s)
        fades = 0.5 ** ((now_s - self.seen_s) / HALF_LIFE_S) if self.seen_s is not None else 1.0
        scores = [score.faded(fades) for score in self.scores]
        still_open = dict[str, OpenForecast]()
        for name, forecast in self.open.items():
            stayed_s = now_s - forecast.made_s
            # A node that stays for the whole horizon settles the forecast, too: the plan was wrong.
            if name in idle and stayed_s < forecast.horizon_s:
                still_open[name] = forecast
            else:
                scores[forecast.band] = scores[forecast.band].with_forecast(forecast, stayed_s)
        for name, end_s in planned_s.items():
            # One open forecast for each node: the same plan, seen at each look, would count as many.
            if name in idle and name not in still_open and end_s - now_s < horizon_s:
                still_open[name] = OpenForecast(now_s, max(end_s - now_s, 0.0), horizon_s)
        return PlannedStays(tuple(scores), still_open, now_s)

    def leaves_now(self, saved_node_s: float, again_node_s: float) -> bool:
        """Whether nodes on which a job would start now are better given back: if that had saved more than it cost.

        It saves evictions. It costs the time until the nodes are taken, and two changes of size where they are not
        taken soon: trainers have them again. Both costs are in seconds × nodes: of an eviction beyond giving back,
        and of giving back a node that is not taken.
        """
        score = self.scores[0]
        spent_node_s = score.came_s + max(score.forecasts - score.soon, 0.0) * again_node_s
        return score.soon * saved_node_s > spent_node_s

    def believed_s(self, now_s: float, planned_s: Mapping[str, float], horizon_s: float) -> dict[str, float]:
        """Node → time at which it is expected to be taken, epoch seconds; only those whose plans are believed."""
        believed = {}
        for name, end_s in planned_s.items():
            forecast = OpenForecast(now_s, max(end_s - now_s, 0.0), horizon_s)
            if forecast.planned_s < horizon_s and self.scores[forecast.band].believes(forecast.planned_s):
                believed[name] = now_s + self.scores[forecast.band].believed_s(forecast.planned_s)
        return believed
