r"""Observed: what was seen of a trainer beside its owner's claims: speeds by kinds of nodes, costs of changes.

**Speeds.** Observations that were made on the same number of nodes of two kinds tell how fast one is beside the
other. One kind, the fastest by the owner's word of those that were seen, keeps the speed that the owner claims;
the other's is

.. math:: \ln s = \frac{\ln s_\mathrm{claimed} + w \ln (s_0\,r / r_0)}{1 + w}

with *r* its rates and :math:`r_0` those of the first, and *w* how many observations there are of it: the owner's
claim counts as much as one.

**Costs.** Pauses at changes of size are averaged by the kind of change, the newest with most weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from freetrain.core.throughput import Observation, mean_rates, usable

ELSEWHERE = ""
"""The kind of nodes that its owner does not name."""

_MOST_TIMES = 10
"""Number of observations above which more count no more, in an average or against the owner's claim."""
_LEAST_SPEED, _MOST_SPEED = 0.01, 100.0
_LONGEST_S = 86400.0
"""Longest pause of a change, in seconds; a longer one is not a change, or clocks differ."""


def kind_of_nodes(nodes: Iterable[Iterable[str]], claimed: Mapping[str, float]) -> str:
    """The kind that sets a trainer's speed: the slowest that its owner names of any of its nodes.

    ``nodes`` are the features and types of GPUs of each.
    """
    kinds = {
        # By name, too: of kinds that are equally fast always the same one is learned of.
        min((name for name in names if name in claimed), key=lambda name: (claimed[name], name), default=ELSEWHERE)
        for names in nodes
    }
    return min(kinds, key=lambda kind: claimed.get(kind, 1.0), default=ELSEWHERE)


def seen_speeds(observations: Iterable[Observation], claimed: Mapping[str, float]) -> Mapping[str, float]:
    """Kind that its owner names → the speed on it that is believed."""
    speeds = {ELSEWHERE: 1.0, **claimed}
    seen = {
        kind: [observation for observation in usable(observations) if observation.kind == kind] for kind in speeds
    }
    known = [kind for kind in speeds if seen[kind]]
    if len(known) < 2:
        return claimed
    first = max(known, key=lambda kind: speeds[kind])
    rates = mean_rates(seen[first])
    found = {kind: _believed(seen[kind], rates, speeds[first], speeds[kind]) for kind in known if kind != first}
    # Nodes of no named kind have speed 1 by definition, whatever was seen: the others are measured by them.
    scale = 1.0 / found.get(ELSEWHERE, 1.0)
    scaled = {kind: found.get(kind, speed) * scale for kind, speed in claimed.items()}
    # Rounded, so that small differences change no decision.
    return {kind: float(f"{min(max(speed, _LEAST_SPEED), _MOST_SPEED):.2g}") for kind, speed in scaled.items()}


def at_speed_1(observations: Iterable[Observation], speeds: Mapping[str, float]) -> tuple[Observation, ...]:
    """The observations as if made at speed 1, without those on kinds that are not named any more."""
    known = {ELSEWHERE: 1.0, **speeds}
    return tuple(
        replace(observation, samples_per_s=observation.samples_per_s / known[observation.kind], kind=ELSEWHERE)
        if observation.kind
        else observation
        for observation in observations
        if observation.kind in known
    )


def _believed(seen: Sequence[Observation], rates: Mapping[int, float], first: float, claimed: float) -> float:
    alike = [observation for observation in seen if observation.nodes in rates]
    if not alike:
        return claimed
    ratios = [first * observation.samples_per_s / rates[observation.nodes] for observation in alike]
    weights = [observation.weight for observation in alike]
    mean = sum(weight * math.log(ratio) for weight, ratio in zip(weights, ratios, strict=True)) / sum(weights)
    times = min(len(alike), _MOST_TIMES)
    return math.exp((math.log(claimed) + times * mean) / (1 + times))


@dataclass(frozen=True, slots=True)
class SizeChange:
    """A change of a trainer's size, by its progress.

    Attributes:
        time_s: time at which it trained again, UTC epoch seconds.
        cause: start, join, leave, loss or broken.
        start_s: seconds from the start of its programs to their first step; None: not known.
    """

    time_s: float
    nodes: int
    cause: str
    pause_s: float
    start_s: float | None = None


@dataclass(frozen=True, slots=True)
class RunningMean:
    """A running mean of how long one kind of change took; the newest values count most, a few times at most."""

    mean_s: float = 0.0
    times: int = 0

    def and_then(self, seconds: float) -> RunningMean:
        """The mean with one more value."""
        if not 0.0 <= seconds <= _LONGEST_S:
            return self
        times = min(self.times + 1, _MOST_TIMES)
        return RunningMean(self.mean_s + (seconds - self.mean_s) / times, times)

    def believed_s(self, claimed_s: float) -> float:
        """The believed duration: the owner's claim counts as much as one observation."""
        return (claimed_s + self.times * self.mean_s) / (1 + self.times)


@dataclass(frozen=True, slots=True)
class SeenCosts:
    """Observed costs of one trainer's changes of size.

    Attributes:
        scale_up: pauses when nodes joined.
        scale_down: pauses when some left in good order.
        forced_loss: pauses when some were lost.
        start: seconds from the start of its programs to their first step.
        boot: seconds from the start of a new node's fragment until it joined.
        run: seconds that completed tasks of a filler ran.
        nodes: number of nodes that it has had since its last change.
        since_s: time of its last change, UTC epoch seconds.
    """

    scale_up: RunningMean = RunningMean()
    scale_down: RunningMean = RunningMean()
    forced_loss: RunningMean = RunningMean()
    start: RunningMean = RunningMean()
    boot: RunningMean = RunningMean()
    run: RunningMean = RunningMean()
    nodes: int = 0
    since_s: float = 0.0

    def after(self, changes: Iterable[SizeChange], started_s: Iterable[float]) -> SeenCosts:
        """Costs after some more changes, in order; ``started_s``: start times of its fragments that run now."""
        began_s, costs = sorted(started_s), self
        for change in changes:
            costs = costs._after_change(change, began_s)
        return costs

    def after_runs(self, runs_s: Iterable[float]) -> SeenCosts:
        """Costs after some more tasks of a filler have completed; ``runs_s``: seconds that each of them ran."""
        run = self.run
        for seconds in runs_s:
            run = run.and_then(seconds)
        return replace(self, run=run)

    def _after_change(self, change: SizeChange, started_s: list[float]) -> SeenCosts:
        costs = replace(self, nodes=change.nodes, since_s=change.time_s)
        match change.cause:
            case "join":
                return replace(
                    costs, scale_up=self.scale_up.and_then(change.pause_s), boot=self._boot(change, started_s)
                )
            case "leave":
                return replace(costs, scale_down=self.scale_down.and_then(change.pause_s))
            case "loss" | "broken":
                return replace(costs, forced_loss=self.forced_loss.and_then(change.pause_s))
            case "start" if change.start_s is not None:
                return replace(costs, start=self.start.and_then(change.start_s))
        return costs

    def _boot(self, change: SizeChange, started_s: list[float]) -> RunningMean:
        joined_s = change.time_s - change.pause_s
        new_s = [start_s for start_s in started_s if self.since_s < start_s <= joined_s]
        # Learned only where it is clear who joined: as many as were started since the last change.
        if len(new_s) != change.nodes - self.nodes or not new_s:
            return self.boot
        return self.boot.and_then(joined_s - new_s[-1])


NOTHING_SEEN = SeenCosts()
